"""The adapters at hand, and the one place where their verdict on a request is taken."""

import os
import sys
from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar, cast

from aiperf_spec.adapters.description import EngineDescription, Engines
from aiperf_spec.adapters.fastdeploy import FastDeployAdapter
from aiperf_spec.adapters.llama_cpp import LlamaCppAdapter
from aiperf_spec.adapters.mlx_vlm import MlxVlmAdapter
from aiperf_spec.adapters.protocol import SpecDecodeAdapterProtocol
from aiperf_spec.adapters.sglang import SGLangAdapter
from aiperf_spec.adapters.sglang_stats import SGLangStatsAdapter
from aiperf_spec.adapters.tensorrt_llm import TensorRTLLMAdapter
from aiperf_spec.adapters.version_watch import VersionWatch
from aiperf_spec.adapters.vllm import VLLMAdapter
from aiperf_spec.errors import PluginError
from aiperf_spec.models.acceptance import DropReason, SpecDecodeAcceptanceRecord
from aiperf_spec.models.draft_totals import DraftTotals
from aiperf_spec.models.response import ParsedResponse, Usage, last_usage
from aiperf_spec.models.run import ServerTiming

ENTRY_POINT_GROUP = "aiperf_spec.spec_decode_adapter"
PLUGINS_VARIABLE = "SPEC_PROFILE_PLUGINS"

T = TypeVar("T")
Report = SpecDecodeAcceptanceRecord | DraftTotals


@dataclass(slots=True, frozen=True)
class Adapter:
    """An adapter class under its name, and the distribution that brought it (None: built in)."""

    name: str
    implementation: type[SpecDecodeAdapterProtocol]
    distribution: str | None = None

    @property
    def description(self) -> EngineDescription | None:
        """What the adapter says of its engine; a plug-in need not say anything."""
        return getattr(self.implementation, "engine_description", None)

    @property
    def source(self) -> str:
        """Who brought it, and what it was written against where that is no server's own bytes."""
        provisional = getattr(self.implementation, "provisional", None)
        return (self.distribution or "built in") + (f", provisional: {provisional}" if provisional else "")

    @property
    def reads_running_totals(self) -> bool:
        """Whether the adapter reads every object of a response and not the last alone."""
        return getattr(self.implementation, "reads_running_totals", False) is True


BUILT_IN: tuple[Adapter, ...] = (
    Adapter("vllm", VLLMAdapter),
    Adapter("tensorrt_llm", TensorRTLLMAdapter),
    # Before the other of SGLang: where a response has both, the counted figures are better than the computed ones.
    Adapter("sglang_stats", SGLangStatsAdapter),
    Adapter("sglang", SGLangAdapter),
    Adapter("llama_cpp", LlamaCppAdapter),
    Adapter("mlx_vlm", MlxVlmAdapter),
    Adapter("fastdeploy", FastDeployAdapter),
)


@dataclass(slots=True)
class AdapterRegistry:
    """Ask every adapter about every request, and warn once about each cause of trouble.

    `warnings` fills as requests are read. `engines` is what the adapters say of their engines.
    """

    adapters: tuple[Adapter, ...]
    _warnings: list[str] = field(default_factory=list)
    _versions: VersionWatch = field(default_factory=VersionWatch)
    engines: Engines = field(init=False)
    silencing_fields: tuple[str, ...] = field(init=False)
    """Fields of request bodies for which some engine reports nothing."""
    _apart: list[EngineDescription] = field(init=False)
    """Engines whose timing stands apart from their acceptance, where one look would not do for both."""

    def __post_init__(self) -> None:
        known = [(each, each.description) for each in self.adapters if each.description is not None]
        self.engines = {each.name: description for each, description in known}
        self.silencing_fields = tuple(dict.fromkeys(name for _, engine in known for name in engine.silent_for))
        self._apart = [
            description
            for each, description in known
            if description.timing is not None and description.timing.path != each.implementation.payload_path
        ]

    @property
    def payload_paths(self) -> tuple[tuple[str, ...], ...]:
        """Return where the adapters' objects may stand, each path once."""
        return tuple(dict.fromkeys(adapter.implementation.payload_path for adapter in self.adapters))

    @property
    def timing_paths(self) -> tuple[tuple[str, ...], ...]:
        """Return where engines put their own timing of a request, each path once."""
        return tuple(dict.fromkeys(each.timing.path for each in self.engines.values() if each.timing is not None))

    def server_timing(self, responses: list[ParsedResponse]) -> ServerTiming | None:
        """Return the last figures that the engine itself sent of a request's time; None where it sent none."""
        for response in reversed(responses):
            if response.engine_timings is None:
                continue
            for engine in self.engines.values():
                sent = None if engine.timing is None else response.engine_timings.get(engine.timing.path)
                if engine.timing is not None and sent is not None and (found := engine.timing.read(sent)) is not None:
                    return found
        return None

    def usage(self, responses: list[ParsedResponse], *, several_sequences: bool) -> Usage | None:
        """Return the last usage that was reported; None where the engine counted one of several sequences alone."""
        if several_sequences:
            reporting = [response for response in responses if response.spec_decode_stats]
            for adapter in self.adapters if reporting else ():
                described = adapter.description
                if described is not None and described.usage_of_one_sequence and self._claims(adapter, reporting):
                    return None
        return last_usage(responses)

    @property
    def warnings(self) -> list[str]:
        """Return each warning once: of adapters that cannot be used, and of engines of another version."""
        return [*self._warnings, *self._versions.notices]

    def read(
        self, responses: list[ParsedResponse], *, several_sequences: bool
    ) -> tuple[Report | None, DropReason | None]:
        """Return the request's record, or the reason why it has none; with `totals_only`, the totals.

        `several_sequences` says that the request body asked for more than one: it is believed before the response,
        because a sibling that never drafted sends nothing.
        """
        if several_sequences or len({i for r in responses for i in r.choice_indices}) > 1:
            return None, DropReason.MULTI_SEQUENCE
        reporting = [response for response in responses if response.spec_decode_stats]
        self._versions.compare_timings(responses, self._apart)
        if not reporting:
            return None, DropReason.ABSENT
        if any(isinstance(response.spec_decode_stats, list) for response in reporting):
            return None, DropReason.MULTI_SEQUENCE
        # Objects are told apart by their keys, and thousands of one response have the same.
        kinds = list({_keys(each.spec_decode_stats): each for each in reporting}.values())
        claims = [adapter for adapter in self.adapters if self._claims(adapter, kinds)]
        if len(claims) < 2:
            described = (adapter.description for adapter in claims or self.adapters)
            self._versions.compare_payloads(kinds, [each for each in described if each is not None])
        if not claims:
            return None, DropReason.UNRECOGNIZED
        if len(claims) > 1:
            names = ", ".join(claim.name for claim in claims)
            self._warn(f"several adapters claim the same payload ({names}): such requests have no record")
            return None, DropReason.AMBIGUOUS
        return self._adapt(claims[0], responses, reporting)

    def _adapt(
        self, adapter: Adapter, responses: list[ParsedResponse], reporting: list[ParsedResponse]
    ) -> tuple[Report | None, DropReason | None]:
        report = self._report(adapter, responses)
        if report is None:
            return None, DropReason.MALFORMED
        last = reporting[-1].spec_decode_stats
        for earlier in () if adapter.reads_running_totals else reporting[:-1]:
            if _same(earlier.spec_decode_stats, last):
                continue
            snapshot = self._report(adapter, [earlier])
            if snapshot is not None and not _contains(report, snapshot):
                return None, DropReason.MULTI_SEQUENCE
        if isinstance(report, DraftTotals):
            return report, DropReason.TOTALS_ONLY
        if report.num_spec_steps == 0:
            return None, DropReason.ZERO_STEP
        return report, None

    def _report(self, adapter: Adapter, responses: list[ParsedResponse]) -> Report | None:
        report = self._guarded(
            adapter, "adapt", lambda: adapter.implementation.adapt(_handed_to(adapter, responses)), None
        )
        if report is not None and not isinstance(report, Report):
            self._warn(f"adapter {adapter.name!r} returned a {type(report).__name__} instead of a record")
            return None
        return report

    def _claims(self, adapter: Adapter, responses: list[ParsedResponse]) -> bool:
        # Its truth is asked for within the guard: what a plug-in returns may refuse to have one.
        return self._guarded(
            adapter, "can_adapt", lambda: bool(adapter.implementation.can_adapt(_handed_to(adapter, responses))), False
        )

    def _guarded(self, adapter: Adapter, method: str, call: Callable[[], T], fallback: T) -> T:
        # The one place that guards third-party code: whatever it raises, be it an exit, the run goes on.
        try:
            if adapter.distribution is None:
                return call()
            with _prints_to_stderr():
                return call()
        except (Exception, SystemExit, CancelledError) as error:
            kind = type(error).__name__
            self._warn(f"adapter {adapter.name!r} failed in {method} ({kind}): its payloads have no record")
            return fallback

    def _warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.append(text)


def _handed_to(adapter: Adapter, responses: list[ParsedResponse]) -> list[ParsedResponse]:
    # A plug-in gets copies: what it changes is read by others after it.
    if adapter.distribution is None:
        return responses
    return [replace(each, spec_decode_stats=deepcopy(each.spec_decode_stats)) for each in responses]


@contextmanager
def _prints_to_stderr() -> Iterator[None]:
    # Standard output holds results alone.
    own, sys.stdout = sys.stdout, sys.stderr
    try:
        yield
    finally:
        sys.stdout = own


def _same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except RecursionError:  # what a server nested is compared by Python calls
        return False


def _keys(stats: Any) -> tuple[str, ...]:
    return tuple(stats) if isinstance(stats, dict) else ()


def _contains(final: Report, earlier: Report) -> bool:
    # An engine that reports running figures only ever counts up. Two payloads of which neither
    # contains the other are of two sequences, and adding or choosing would be a guess.
    if earlier.num_draft_tokens > final.num_draft_tokens:
        return False
    if isinstance(final, DraftTotals) or isinstance(earlier, DraftTotals):
        return earlier.num_accepted_draft_tokens <= final.num_accepted_draft_tokens
    return earlier.num_spec_steps <= final.num_spec_steps and (
        Counter(earlier.acceptance_histogram) <= Counter(final.acceptance_histogram)
    )


def load_registry() -> AdapterRegistry:
    """Return the built-in adapters and those that installed distributions register.

    `SPEC_PROFILE_PLUGINS=0` in the environment loads none. A plug-in that fails to import becomes a warning of the
    registry; a name taken twice or a class that is no adapter raises `PluginError`.
    """
    adapters, warnings = BUILT_IN, list[str]()
    if os.environ.get(PLUGINS_VARIABLE) == "0":
        return AdapterRegistry(adapters)
    found = dict.fromkeys(entry_points(group=ENTRY_POINT_GROUP))
    for point in sorted(found, key=lambda point: (point.name, point.value)):
        distribution = point.dist.name if point.dist is not None else "an unknown distribution"
        try:
            with _prints_to_stderr():
                implementation = point.load()
        except (Exception, SystemExit, CancelledError) as error:
            warnings.append(f"adapter {point.name!r} of {distribution} was not loaded: {type(error).__name__}: {error}")
            continue
        adapters += (_checked(point, implementation, distribution, adapters),)
    return AdapterRegistry(adapters, warnings)


def _checked(point: EntryPoint, implementation: Any, distribution: str, taken: tuple[Adapter, ...]) -> Adapter:
    for adapter in taken:
        if adapter.name == point.name:
            owner = adapter.distribution or "the built-in adapters"
            raise PluginError(
                f"adapter {point.name!r} of {distribution} has a name that {owner} took already",
                f"uninstall one of them, or set {PLUGINS_VARIABLE}=0 to load no plug-ins",
            )
    path = getattr(implementation, "payload_path", None)
    if (
        not isinstance(implementation, type)
        or not isinstance(implementation, SpecDecodeAdapterProtocol)
        or not isinstance(path, tuple)
        or not path
        or not all(isinstance(key, str) for key in path)
        or not isinstance(getattr(implementation, "engine_description", None), EngineDescription | None)
    ):
        raise PluginError(
            f"adapter {point.name!r} of {distribution} ({point.value}) is no adapter class: it needs a "
            "payload_path of strings and the class methods can_adapt and adapt, and an engine_description, if any, "
            "that is an EngineDescription",
            f"mend or uninstall {distribution}, or set {PLUGINS_VARIABLE}=0 to load no plug-ins",
        )
    return Adapter(point.name, cast("type[SpecDecodeAdapterProtocol]", implementation), distribution)
