"""What an adapter says of its engine beside reading what it reports: how it is recognised, set up and counted."""

import json
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field, fields, replace
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from aiperf_spec.models.drafter import ServerDrafter
from aiperf_spec.models.run import OutputTiming, ServerTiming
from aiperf_spec.models.schedule import Configuration, NoConfiguration, Schedule
from aiperf_spec.models.units import MAX_FIGURE

TIMING_NAMES = tuple(timing.name for timing in fields(ServerTiming) if timing.name != "output")
OUTPUT_NAMES = tuple(timing.name for timing in fields(OutputTiming))
# Plug-ins write these: what is wrong with one shows when it is imported, not in the middle of a run.
_STRICT = ConfigDict(extra="forbid")


@dataclass(slots=True, frozen=True, kw_only=True, config=_STRICT)
class EngineCounters:
    """Metrics of the engine's Prometheus endpoint, by name without `_total`; None for what it does not count.

    `accepted_per_position` has a label `position`, from 0: the steps that accepted more than so many drafts. The gauges
    are the engine's own averages of acceptance length and of draft acceptance rate, the latter as a fraction.
    """

    verify_steps: str | None = None
    proposed_drafts: str | None = None
    accepted_drafts: str | None = None
    accepted_per_position: str | None = None
    emitted_tokens: str | None = None
    """Tokens that verify steps emitted, the accepted drafts and one more a step: for an engine that does not count the
    accepted ones alone. Counted as steps run, where `verify_steps` may be counted as requests finish."""
    emitted_labels: Mapping[str, str] = field(default_factory=dict)
    """The labels of its series that count."""
    copy_labels: frozenset[str] = frozenset()
    """Labels that tell its copies apart: of series that differ in nothing else, each counts the same tokens."""
    completion_tokens: str | None = None
    """Tokens of finished requests, among them one a request that no verify step emitted."""
    aborted_requests: str | None = None
    finished_requests: str | None = None
    finished_beyond: int = 0
    """Requests that it counts beside those of the sequences, for each prompt of which a request asks for several."""
    finished_by_token: frozenset[str] = frozenset()
    """Fields of the request body for which it counts each token of a sequence as a request."""
    prompt_tokens: str | None = None
    """Prompt tokens that were looked up in the prefix cache."""
    cached_tokens: str | None = None
    """Those that were found there."""
    running_requests: str | None = None
    """A gauge: the requests of the batch that the engine runs."""
    length_gauge: str | None = None
    rate_gauge: str | None = None
    prefix_without_drafter: str | None = None
    """How all its metrics begin, where those of speculation are left out unless the engine runs with a drafter."""

    def named_in(self, names: Collection[str]) -> Self:
        """Return the counters by the names that a page has for them.

        Collectors put another prefix in the place of the engine's: Ray turns `vllm:` into `ray_vllm_`. The counter of
        verify steps is then told by what follows the colon, where one name alone ends so, and its prefix holds for all.
        """
        known = self.verify_steps or ""
        suffix = known.partition(":")[2]
        if not suffix:
            return self
        found = [name for name in names if name.endswith(suffix) and name[: -len(suffix)].endswith((":", "_"))]
        if len(found) != 1:
            return self
        prefix = found[0].removesuffix(suffix)
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        changed: dict[str, Any] = {
            name: prefix + text.partition(":")[2] for name, text in given.items() if isinstance(text, str)
        }
        return replace(self, **changed)

    def emitted(self, series: Iterable[tuple[str, Mapping[str, str], float | None]]) -> int | None:
        """Return the growth of `emitted_tokens`, given (endpoint, labels, growth) of its series.

        None where one was reset, where copies differ, or where there is none.
        """
        found: dict[tuple[str, frozenset[tuple[str, str]]], set[float | None]] = {}
        for endpoint, labels, growth in series:
            if self.emitted_labels.items() <= labels.items():
                own = frozenset(pair for pair in labels.items() if pair[0] not in self.copy_labels)
                found.setdefault((endpoint, own), set()).add(growth)
        known = [value for (value,) in (copies for copies in found.values() if len(copies) == 1) if value is not None]
        return round(sum(known)) if known and len(known) == len(found) else None

    @property
    def of_speculation(self) -> frozenset[str]:
        """Return the counters that grow with each verify step."""
        names = (self.verify_steps, self.proposed_drafts, self.accepted_drafts, self.accepted_per_position)
        return frozenset(name for name in names if name is not None)


@dataclass(slots=True, frozen=True, kw_only=True, config=_STRICT)
class PayloadFields:
    """The fields of an engine's acceptance object, in the version that its adapter was written against.

    `version` names it, as text. `required` are the fields that the adapter reads and the engine always sends.
    """

    version: str
    required: frozenset[str]
    optional: frozenset[str] = frozenset()

    def shared_with(self, payload: Mapping[str, Any]) -> int:
        """Return how many known fields the payload has; 0 where it has less than half of the required ones."""
        if len(self.required & payload.keys()) * 2 < len(self.required):
            return 0
        return len((self.required | self.optional) & payload.keys())


@dataclass(slots=True, frozen=True, kw_only=True, config=_STRICT)
class TimingFields:
    """Where the engine puts its own measurements of a request: an object at `path`, keys from the top of an event.

    `fields` says which key of the object holds which field of `ServerTiming`, in that field's unit, and `output` under
    which keys, one within the other, those of `OutputTiming` stand; `others` are the keys that stand beside them.
    Raises `ValueError` for a field that these do not have.
    """

    path: Annotated[tuple[str, ...], Field(min_length=1)]
    fields: Mapping[str, str]
    others: frozenset[str] = frozenset()
    output: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for given, names in ((self.fields, TIMING_NAMES), (self.output, OUTPUT_NAMES)):
            if unknown := sorted(given.keys() - set(names)):
                raise ValueError(f"timing knows no {', '.join(unknown)}: its fields are {', '.join(names)}")

    @property
    def known(self) -> frozenset[str]:
        """Return every key that the object is known to have."""
        return self.others | set(self.fields.values()) | {keys[0] for keys in self.output.values()}

    def read(self, sent: Mapping[str, Any]) -> ServerTiming | None:
        """Return the figures in such an object; None where none is a number from 0 to `MAX_FIGURE`."""
        found = {name: _figure(sent.get(key)) for name, key in self.fields.items()}
        output = self._output(sent)
        nothing = output is None and all(value is None for value in found.values())
        return None if nothing else ServerTiming(**found, output=output)

    def _output(self, sent: Mapping[str, Any]) -> OutputTiming | None:
        if all(keys[0] not in sent for keys in self.output.values()):
            return None
        found: dict[str, Any] = {}
        for name, keys in self.output.items():
            value = _figure(_within(sent, keys))
            found[name] = value if value is None or name.endswith("_ms") else int(value)
        return None if all(value is None for value in found.values()) else OutputTiming(**found)


@dataclass(slots=True, frozen=True, kw_only=True, config=_STRICT)
class DrafterFields:
    """Keys of the engine's page of settings that say how it drafts; see `ServerDrafter`, None for what it does not say.

    A server without a drafter has null or "none" as its `method`. `chains` are the methods that draft token by token.
    Of a page that is a list, the first item is read.
    """

    method: str
    enabled: str | None = None
    """A key that is false where there is no drafter, whatever the method."""
    within: str | None = None
    """A key of the page under which an object holds the others, but for `enabled`."""
    depth: str | None = None
    branches: str | None = None
    verified: str | None = None
    adaptive: str | None = None
    bonus_tokens: Mapping[str, int] = field(default_factory=dict)
    """How many tokens a verify step gives beside accepted ones, for methods (in capitals) where it is not one."""
    overlap_off: str | None = None
    """A key that is true where a step begins after the one before it has ended; see `ServerDrafter.overlaps`."""
    chains: frozenset[str] = frozenset()

    def read(self, engine: str, page: Any) -> ServerDrafter | None:
        """Return what such a page says; None where it does not name a method. `engine` is the adapter's name."""
        settings = page[0] if isinstance(page, list) and page else page
        if not isinstance(settings, Mapping):
            return None
        if self.enabled is not None and settings.get(self.enabled) is False:
            return ServerDrafter(engine=engine, method=None)
        settings = settings if self.within is None else settings.get(self.within)
        if not isinstance(settings, Mapping):
            return None
        method = settings.get(self.method, 0)
        if method is not None and not isinstance(method, str):
            return None
        # Of a list of methods, "none" is none of them.
        method = ",".join(each for each in (method or "").split(",") if each.lower() not in ("", "none"))
        if not method:
            return ServerDrafter(engine=engine, method=None)
        depth, branches, verified = (
            value if key and type(value := settings.get(key)) is int and value > 0 else None
            for key in (self.depth, self.branches, self.verified)
        )
        return ServerDrafter(
            engine=engine,
            method=method,
            depth=depth,
            branches=branches,
            verified=verified,
            adaptive=self.adaptive is not None and settings.get(self.adaptive) is True,
            bonus_tokens=self.bonus_tokens.get(method.upper(), 1),
            overlaps=self.overlap_off is None or settings.get(self.overlap_off) is not True,
            drafts_chains=method.upper() in self.chains,
        )


@dataclass(slots=True, frozen=True, kw_only=True, config=_STRICT)
class EngineDescription:
    """What is known of an engine; an adapter may leave out all but the name that users know it by.

    `enable_speculation` and `enable_reporting` tell the user what to do, as an instruction: "start Acme with --report".
    An engine that reports where a request asks for it has `request_inputs`, fields of the body, instead of the latter.
    """

    name: str
    owned_by: tuple[str, ...] = ()
    """Words that `owned_by` of /v1/models contains, in lower case with underscores."""
    enable_speculation: str | None = None
    enable_reporting: str | None = None
    request_inputs: Mapping[str, Any] = field(default_factory=dict)
    per_step_option: str | None = None
    """The server's option without which it leaves figures of single steps out."""
    silent_for: Mapping[str, str] = field(default_factory=dict)
    """Fields of the request body for which it reports nothing, and in words what such a request is: "ended by a
    stop string". Of `stop` only answers that finished so are meant."""
    reports_on_usage_chunk: bool = False
    """Whether a stream reports only where usage is asked for."""
    usage_of_one_sequence: bool = False
    """Whether usage counts the tokens of one sequence where a request asks for several."""
    drafts_chains: bool = False
    """Whether its drafts are chains, unless records show otherwise: then shorter drafts can be modelled."""
    version_path: str = "/version"
    version_key: str = "version"
    """The key of that page, a JSON object, under which the version stands."""
    settings_path: str | None = None
    """A page with its settings as a JSON object: `version`, and those of its drafter."""
    drafter: DrafterFields = DrafterFields(method="drafter")
    metrics_path: str = "/metrics"
    reset_cache_path: str | None = None
    """A page that empties the prefix cache when it is asked by POST; its answer may say `success` in JSON."""
    counters: EngineCounters = EngineCounters()
    payload: PayloadFields | None = None
    timing: TimingFields | None = None
    schedule: Callable[[Schedule], Configuration | NoConfiguration] | None = None
    """Makes the configuration by which the draft length follows the batch; None where the engine takes none."""

    @property
    def inputs_option(self) -> str:
        """Return the option that adds `request_inputs` to each request of a run, as it is typed into a shell."""
        items = self.request_inputs.items()
        pairs = (f"{key}:{value if isinstance(value, str) else json.dumps(value)}" for key, value in items)
        return f"--extra-inputs {shlex.quote(','.join(pairs))}"

    @property
    def how_to_report(self) -> str | None:
        """Return what to do to have acceptance reported; None where the adapter does not say."""
        if self.request_inputs:
            return f"add {self.inputs_option}, which asks {self.name} for it in each request"
        return self.enable_reporting

    def is_asked_by(self, inputs: Mapping[str, Any]) -> bool:
        """Say whether a request with these extra inputs asks the engine to report."""
        asking = self.request_inputs
        return bool(asking) and all(inputs.get(key) == value for key, value in asking.items())


Engines = Mapping[str, EngineDescription]
"""Descriptions by the name of the adapter, which is also the record's `engine`."""


def recognised(owned_by: str | None, engines: Engines) -> str | None:
    """Return the engine that `owned_by` of /v1/models names; None where it names none."""
    owner = (owned_by or "").lower().replace("-", "_")
    return next((name for name, engine in engines.items() if any(word in owner for word in engine.owned_by)), None)


def _within(found: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _figure(value: Any) -> float | None:
    if type(value) not in (int, float):
        return None
    return float(value) if 0 <= value <= MAX_FIGURE else None
