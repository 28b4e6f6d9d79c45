"""Make a command's options from their declarations, and settings from what was given."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

import typer

from aiperf_spec.config.option import REQUIRED, Declaration
from aiperf_spec.config.option_table import OPTIONS
from aiperf_spec.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aiperf_spec.config.settings import ProfileConfig, ReportSettings

_Command = TypeVar("_Command", bound=Callable[..., None])


def takes(
    fields: Iterable[str] = OPTIONS,
    *,
    panels: bool = True,
    required: Iterable[str] = (),
    defaults: Mapping[str, Any] | None = None,
    texts: Mapping[str, str] | None = None,
) -> Callable[[_Command], _Command]:
    """Give a command the declared options of these fields, in place of its `**values`.

    Help groups them as declared, or not at all without `panels`. `required` must be given, whatever the declaration
    says; a command may have defaults and help texts of its own.
    """
    chosen = [OPTIONS[field] for field in fields]
    chosen.sort(key=lambda declared: list(type(declared.option.panel)).index(declared.option.panel))
    options = []
    for declared in chosen:
        if declared.option.only_in_file:
            continue
        default = None if declared.default is REQUIRED else declared.default
        default = REQUIRED if declared.name in required else (defaults or {}).get(declared.name, default)
        text = (texts or {}).get(declared.name, declared.option.help)
        options.append(_parameter(declared, default, text, declared.option.panel if panels else None))

    def decorate(command: _Command) -> _Command:
        signature = inspect.signature(command, eval_str=True)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        positional = [each for each in own if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        ordered = [*positional, *options, *own[len(positional) :]]
        command.__signature__ = signature.replace(parameters=ordered)  # type: ignore[attr-defined]
        return command

    return decorate


def _parameter(declared: Declaration, default: Any, text: str, panel: str | None) -> inspect.Parameter:
    option = declared.option
    kind = declared.type
    if option.read is not None:
        kind = list[str]
    else:
        # What may be repeated is a tuple in the settings.
        repeated = next((each for each in (kind, *get_args(kind)) if get_origin(each) is tuple), None)
        kind = kind if repeated is None else list[get_args(repeated)[0]]  # type: ignore[misc]
    if default in (None, (), {}):
        kind, default = kind | None, None
    info = typer.Option(
        *declared.flags,
        help=text,
        metavar=f"{option.metavar} [{option.range}]" if option.range else option.metavar,
        envvar=option.env,
        show_default=option.env is None,
        rich_help_panel=panel,
    )
    return inspect.Parameter(
        declared.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is REQUIRED else default,
        annotation=Annotated[kind, info],
    )


def given(context: typer.Context, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that the command line or the environment sets, as settings take them."""
    found = {}
    for field, value in values.items():
        if _source(context, field) in ("COMMANDLINE", "ENVIRONMENT"):
            read = OPTIONS[field].option.read
            found[field] = value if read is None else read(value)
    return found


def settings(
    context: typer.Context, values: Mapping[str, Any], file: Path | None
) -> tuple[ProfileConfig, ReportSettings]:
    """Return the settings of a run and of its report: options that were given win over the file's."""
    from aiperf_spec.config.settings import create_settings

    options = given(context, values)
    from_file = {} if file is None else _read(file)
    # A variable that the environment always holds says less than a file that names its own.
    if "api_key" in from_file and _source(context, "api_key") == "ENVIRONMENT":
        del options["api_key"]
    merged = {**from_file, **options}
    for name, join in (("extra_inputs", _join_extra), ("headers", _join_headers)):
        if name in from_file and name in options:
            merged[name] = join(from_file[name], options[name])
    if "url" not in merged:
        raise ConfigError("--url is missing", "spec-profile --url http://HOST:PORT --model NAME")
    return create_settings(merged)


def _source(context: typer.Context, field: str) -> str:
    source = context.get_parameter_source(field)
    return "DEFAULT" if source is None else source.name


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"--config {str(file)!r}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--config {str(file)!r}: not UTF-8") from None
    from aiperf_spec.config.yaml_file import parse_config

    return parse_config(text, str(file), os.environ, file.parent)


def _join_extra(in_file: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    joined = {**in_file, **given}
    halves = (in_file.get("stream_options"), given.get("stream_options"))
    if all(isinstance(half, dict) for half in halves):
        joined["stream_options"] = {**(halves[0] or {}), **(halves[1] or {})}
    return joined


def _join_headers(in_file: list[list[str]], given: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    replaced = {name.lower() for name, _ in given}
    return [*((name, value) for name, value in in_file if name.lower() not in replaced), *given]
