"""Read a configuration file: YAML in AIPerf's nesting, every mistake told by file, line and path."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, cast

import orjson
import yaml
from pydantic import TypeAdapter, ValidationError

from aiperf_spec.config.option_table import OPTIONS, keys_of
from aiperf_spec.config.problems import problem_text
from aiperf_spec.config.settings import ProfileConfig, ReportSettings, split_settings
from aiperf_spec.errors import ConfigError

_VARIABLE = re.compile(r"\$(\$\{)|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::([^}]*))?\}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MAX_DEPTH = 60
_MAX_VALUES = 100_000
"""Values of a file, aliases followed: a few lines of those stand for more than any memory holds."""
_SIXTIES = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
"""What YAML 1.1 makes of 1:30: 90, by sixties. Nobody means that."""
_SINGULAR = {"model": "models", "url": "urls", "dataset": "datasets"}
_INHERITED = {"datasets": ("name", "type"), "phases": ("kind", "name", "type", "exclude_from_results")}
"""Keys of AIPerf's that say nothing which is not said otherwise here; checked, and passed over."""


@dataclass(slots=True, frozen=True)
class _Value:
    """A value of the file and where it stands."""

    node: yaml.Node
    path: str


def parse_config(text: str, name: str, variable: Callable[[str], str | None], folder: Path) -> dict[str, Any]:
    """Return the fields of `ProfileConfig` and `ReportSettings` that a configuration file sets.

    `${NAME}` and `${NAME:default}` in strings are expanded by `variable`, such as `os.environ.get`; `$${` stands for
    `${`. Paths of prompts, certificates and tokenizers are taken from `folder`. Raises `ConfigError` with `name`, line,
    path and, for a key that is not known, the nearest right one.
    """
    return _YamlParser(name, variable, folder).read(text)


class _YamlParser:
    def __init__(self, name: str, variable: Callable[[str], str | None], folder: Path) -> None:
        self._name = name
        self._variable = variable
        self._folder = folder
        self._fields: dict[str, Any] = {}
        self._origins: dict[str, _Value] = {}
        self._values = 0
        self._constructor = yaml.constructor.SafeConstructor()
        self._resolver = yaml.resolver.Resolver()
        self._readers: dict[str, Callable[[_Value], Any]] = {
            "model": partial(self._only, what="model"),
            "url": partial(self._only, what="server"),
            "headers": self._headers,
            "tags": self._tags,
            "api_key_env": self._key_variable,
            "ca_file": self._file_path,
            "tokenizer": self._tokenizer,
            "input_file": lambda value: [*self._fields.get("input_file", ()), self._file_path(value)],
        }

    def read(self, text: str) -> dict[str, Any]:
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = f", line {mark.line + 1}" if mark is not None else ""
            raise ConfigError(f"{self._name}{line}: not YAML: {error.problem or error}") from None
        except yaml.YAMLError as error:
            raise ConfigError(f"{self._name}: not YAML: {error}") from None
        except RecursionError:
            raise ConfigError(f"{self._name}: nested too deeply") from None
        if root is None:
            raise ConfigError(f"{self._name} is empty", "see examples/ for a configuration")
        top = self._mapping(_Value(root, ""), ("benchmark", "random_seed", "schema_version"))
        if "random_seed" in top:
            self._set("random_seed", top["random_seed"])
        if "benchmark" not in top:
            self._fail(_Value(root, ""), "has no key benchmark", "see examples/ for a configuration")
        self._benchmark(top["benchmark"])
        self._validate()
        return self._fields

    def _benchmark(self, value: _Value) -> None:
        found = self._mapping(value, (*keys_of(""), "endpoint", "artifacts", "datasets", "phases"))
        self._section(keys_of(""), found)
        for section in ("endpoint", "artifacts"):
            if section in found:
                self._section(keys_of(section), self._mapping(found[section], keys_of(section)))
        if "datasets" in found:
            self._datasets(found["datasets"])
        if "phases" in found:
            self._phases(found["phases"])

    def _section(self, keys: Mapping[str, str], found: Mapping[str, _Value]) -> None:
        for key, item in found.items():
            if key in keys:
                self._set(keys[key], item)

    def _datasets(self, value: _Value) -> None:
        keys = keys_of("datasets")
        for entry in self._entries(value):
            found = self._mapping(entry, (*keys, *_INHERITED["datasets"]))
            if "type" in found and (kind := self._plain(found["type"])) != "file":
                self._fail(found["type"], f"only type file is known, got {kind!r}", "path names a file of prompts")
            before = dict(self._fields)
            self._section(keys, found)
            for key, item in found.items():
                if key in keys and key != "path" and before.get(keys[key], said := self._fields[keys[key]]) != said:
                    self._fail(item, "all datasets of a run have this in common, and an earlier one differs")

    def _phases(self, value: _Value) -> None:
        phases: dict[str, dict[str, _Value]] = {}
        for entry in self._entries(value):
            found = self._mapping(entry, (*(keys_of("profiling") | keys_of("warmup")), *_INHERITED["phases"]))
            kind = self._phase_kind(entry, found)
            if kind in phases:
                self._fail(entry, f"a second phase of kind {kind}")
            phases[kind], keys = found, keys_of(kind)
            self._section(keys, found)
            for key, item in found.items():
                if key not in (*keys, *_INHERITED["phases"]) and (kind, key) != ("warmup", "concurrency"):
                    self._fail(item, f"a phase of kind {kind} has no {key}")
        if (warmup := phases.get("warmup", {}).get("concurrency")) is not None:
            said = self._plain(warmup)
            if said != self._fields.setdefault("concurrency", said):
                self._fail(warmup, "a warm-up runs at the concurrency of the profiling phase")
            self._origins.setdefault("concurrency", warmup)

    def _phase_kind(self, entry: _Value, found: Mapping[str, _Value]) -> str:
        said = found.get("kind") or found.get("name")
        kind = "profiling" if said is None else self._plain(said)
        if kind not in ("warmup", "profiling"):
            self._fail(said or entry, f"kind must be warmup or profiling, got {kind!r}")
        if "exclude_from_results" in found and self._plain(found["exclude_from_results"]) != (kind == "warmup"):
            self._fail(found["exclude_from_results"], "the warm-up is left out of results, and nothing else is")
        if "type" in found:
            how = self._plain(found["type"])
            if how not in ("concurrency", "request_rate", "fixed_schedule"):
                self._fail(found["type"], f"expected concurrency, request_rate or fixed_schedule, got {how!r}")
            if how == "fixed_schedule":
                self._fields["fixed_schedule"], self._origins["fixed_schedule"] = True, found["type"]
        return str(kind)

    def _headers(self, value: _Value) -> list[list[str]]:
        if not isinstance(value.node, yaml.MappingNode):
            self._fail(value, "expected names and values")
        return [[key, self._text(item)] for key, item in self._items(value).items()]

    def _tags(self, value: _Value) -> dict[str, str]:
        return {name: self._text(item) for name, item in self._items(value).items()}

    def _key_variable(self, value: _Value) -> str:
        name = self._text(value)
        if not _VARIABLE_NAME.fullmatch(name):
            # It may be the key itself.
            self._fail(value, "expected the name of an environment variable", "export NAME=KEY and write NAME here")
        if not (key := self._variable(name)):
            self._fail(value, f"the environment variable {name} is not set", f"export {name}=...")
        self._fields["api_key"] = key
        return name

    def _only(self, value: _Value, what: str) -> Any:
        entries = [value] if isinstance(value.node, yaml.ScalarNode) else self._entries(value)
        if len(entries) != 1:
            self._fail(value, f"a run has one {what}, got {len(entries)}")
        if not isinstance(entries[0].node, yaml.MappingNode):
            return self._plain(entries[0])
        named = self._mapping(entries[0], ("name",))
        return self._plain(named["name"]) if named else self._fail(entries[0], "has no key name")

    def _file_path(self, value: _Value) -> str:
        path = self._text(value)
        return path if path == "-" else str(self._folder / path)

    def _tokenizer(self, value: _Value) -> Any:
        name = self._plain(value)
        # A name on the hub has a slash too: a path says that it is one.
        is_path = isinstance(name, str) and (name.startswith((".", "/")) or name.endswith(".json"))
        return str(self._folder / name) if is_path else name

    def _set(self, field: str, value: _Value) -> None:
        self._fields[field] = self._readers.get(field, self._plain)(value)
        self._origins[field] = value

    def _validate(self) -> None:
        for name, origin in self._origins.items():
            kind: TypeAdapter[Any] = TypeAdapter(OPTIONS[name].type)
            try:
                # As JSON and strictly: 8 is a number, "8" and true are none.
                kind.validate_json(orjson.dumps(self._fields[name]), strict=True)
            except TypeError as error:
                self._fail(origin, f"cannot be written as JSON: {error}")
            except ValidationError as error:
                self._fail(origin, problem_text(error.errors()[-1]))
        sent, shown = split_settings({"url": "http://placeholder", **self._fields})
        for model, values in ((ProfileConfig, sent), (ReportSettings, shown)):
            try:
                model(**values)
            except ValidationError as error:
                for problem in error.errors():
                    # What is wrong only together with others may be right together with options.
                    if problem["loc"] and (found := self._origins.get(str(problem["loc"][0]))):
                        self._fail(found, problem_text(problem))
            except ConfigError as error:
                if "url" not in self._origins:
                    raise
                self._fail(self._origins["url"], error.message.removeprefix("--url "), error.remedy)

    def _mapping(self, value: _Value, known: Iterable[str]) -> dict[str, _Value]:
        known = tuple(known)
        found: dict[str, _Value] = {}
        for key, item in self._items(value).items():
            name = _CAMEL.sub("_", key).lower()
            name = name if name in known else _SINGULAR.get(name, name)
            if name not in known:
                near = get_close_matches(name, known, n=1)
                remedy = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
                self._fail(item, "not a key that is known", remedy)
            if name in found:
                self._fail(item, f"the same as {found[name].path}, given twice")
            found[name] = item
        return found

    def _items(self, value: _Value) -> dict[str, _Value]:
        if not isinstance(value.node, yaml.MappingNode):
            self._fail(value, f"expected keys and values, got {_kind(value.node)}")
        items: dict[str, _Value] = {}
        for key_node, node in value.node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._fail(_Value(key_node, value.path), "a key must be text")
            key = str(key_node.value)
            if key in items:
                self._fail(_Value(key_node, f"{value.path}.{key}".lstrip(".")), "given twice")
            items[key] = _Value(node, f"{value.path}.{key}".lstrip("."))
        return items

    def _entries(self, value: _Value) -> list[_Value]:
        if not isinstance(value.node, yaml.SequenceNode):
            self._fail(value, f"expected a list, got {_kind(value.node)}")
        return [_Value(node, f"{value.path}[{index}]") for index, node in enumerate(value.node.value)]

    def _plain(self, value: _Value, depth: int = 0) -> Any:
        self._values += 1
        if depth > _MAX_DEPTH or self._values > _MAX_VALUES:
            self._fail(value, "nested too deeply" if depth > _MAX_DEPTH else f"more than {_MAX_VALUES:,} values")
        if isinstance(value.node, yaml.MappingNode):
            return {key: self._plain(item, depth + 1) for key, item in self._items(value).items()}
        if isinstance(value.node, yaml.SequenceNode):
            return [self._plain(item, depth + 1) for item in self._entries(value)]
        node = cast(yaml.ScalarNode, value.node)
        expanded = self._expand(value)
        if expanded != node.value and node.style is None:
            # An unquoted ${N} may stand for a number.
            tag = self._resolver.resolve(yaml.ScalarNode, expanded, (True, False))  # type: ignore[no-untyped-call]
            node = yaml.ScalarNode(tag, expanded, node.start_mark, node.end_mark)
        elif node.tag == "tag:yaml.org,2002:str":
            return expanded
        if ":" in node.value and node.tag in _SIXTIES:
            return expanded
        try:
            plain = self._constructor.construct_object(node, deep=True)
        except (yaml.YAMLError, ValueError, OverflowError):
            self._fail(value, f"{node.value!r} with the tag {node.tag} cannot be read")
        if not isinstance(plain, str | int | float | bool | None):
            self._fail(value, f"{node.value!r} is read as a {type(plain).__name__}: quote it")
        return plain

    def _text(self, value: _Value) -> str:
        if not isinstance(value.node, yaml.ScalarNode):
            self._fail(value, f"expected text, got {_kind(value.node)}")
        return self._expand(value)

    def _expand(self, value: _Value) -> str:
        def replacement(match: re.Match[str]) -> str:
            if match[1]:
                return match[1]
            found = self._variable(match[2])
            if (found := match[3] if found is None else found) is None:
                self._fail(value, f"the environment variable {match[2]} is not set", f"export {match[2]}=...")
            return found

        return _VARIABLE.sub(replacement, str(value.node.value))

    def _fail(self, value: _Value, message: str, remedy: str | None = None) -> NoReturn:
        where = f"{self._name}, line {value.node.start_mark.line + 1}"
        raise ConfigError(f"{where}: {value.path + ': ' if value.path else ''}{message}", remedy)


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return "nothing" if not node.value else "a single value"
    return "a list" if isinstance(node, yaml.SequenceNode) else "keys and values"
