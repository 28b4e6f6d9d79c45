"""What differs between two runs so that comparing their figures misleads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from aiperf_spec.adapters.engines import known_engines
from aiperf_spec.analysis.clusters import measured
from aiperf_spec.analysis.comparison.pairing import Pairing
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.positions import Drafting, drafting
from aiperf_spec.metrics.prompt_cache import APART, cached_share
from aiperf_spec.models.run import ErrorKind, Phase, RequestRecord


class MismatchKind(StrEnum):
    """What differs between two runs so that comparing them misleads."""

    MODEL = "model"
    ENGINE = "engine"
    SAMPLING = "sampling"
    DRAFT_LENGTH = "draft_length"
    DRAFTER_SHAPE = "drafter_shape"
    CONCURRENCY = "concurrency"
    ENDPOINT = "endpoint"
    STREAMING = "streaming"
    PROMPTS = "prompts"
    PROMPT_TOKENS = "prompt_tokens"
    """The same prompt ids, but prompts of other lengths."""
    PROMPT_CACHE = "prompt_cache"
    """More of the prompts was in the server's prefix cache."""
    FAILURES = "failures"
    """Requests of one run failed or were cancelled, which are in no figure."""
    CONFIGURATION_UNKNOWN = "configuration_unknown"
    """A run has no summary file, so that these could not be checked."""


@dataclass(slots=True, frozen=True)
class Mismatch:
    """One thing that differs, with both runs' values as text."""

    kind: MismatchKind
    base: str
    candidate: str


@dataclass(slots=True, frozen=True)
class Outcomes:
    """How many profiled requests of a run ended how."""

    succeeded: int
    failed: int
    cancelled: int

    def __str__(self) -> str:
        """Return it in words; what did not happen is left out."""
        parts = [f"{self.succeeded:,} of {self.succeeded + self.failed + self.cancelled:,} requests succeeded"]
        parts += [f"{self.failed:,} failed"] if self.failed else []
        return ", ".join([*parts, *([f"{self.cancelled:,} cancelled"] if self.cancelled else [])])


@dataclass(slots=True, frozen=True)
class RunSettings:
    """What a run's configuration says of it; None where it does not. `sampling` is what its request bodies carried."""

    model: str | None = None
    endpoint: str | None = None
    streaming: bool | None = None
    concurrency: int | None = None
    rate: float | None = None
    """Requests a second, where they were sent at a rate."""
    is_traced: bool = False
    """Whether they were sent at the times of a trace."""
    prompts: str | None = None
    """The name of the file, or of the built-in set."""
    prompts_path: str | None = None
    prompt_hashes: tuple[str, ...] | None = None
    """Of each file's content; None where the summary does not say."""
    sampling: dict[str, Any] | None = None
    cached_share: float | None = None
    """The share of prompt tokens that the server's prefix cache held, by its counters."""


@dataclass(slots=True, frozen=True)
class Run:
    """A run to be compared, or several of the same settings as one: `repeats` are then those runs."""

    name: str
    records: Sequence[RequestRecord]
    settings: RunSettings = field(default_factory=RunSettings)
    repeats: tuple[Run, ...] = ()


def side(runs: Sequence[Run]) -> Run:
    """Return runs of the same settings as one."""
    if len(runs) == 1:
        return runs[0]
    records = [record for run in runs for record in run.records]
    name = ", ".join(run.name for run in runs)
    return Run(name, records, common_settings([run.settings for run in runs]), tuple(runs))


def common_settings(of_runs: Sequence[RunSettings]) -> RunSettings:
    """Return the settings of runs that are one side, those of the first; without prompts where theirs differ."""
    first, *others = of_runs
    if all(same_prompts(first, other) for other in others):
        return first
    return replace(first, prompts=None, prompts_path=None, prompt_hashes=None)


def same_prompts(base: RunSettings, candidate: RunSettings) -> bool | None:
    """Say whether both runs read the same prompts; None where one does not tell."""
    if base.prompt_hashes is not None and candidate.prompt_hashes is not None:
        return base.prompt_hashes == candidate.prompt_hashes
    if base.prompts is None or candidate.prompts is None:
        return None
    return (base.prompts, base.prompts_path) == (candidate.prompts, candidate.prompts_path)


def mismatches(base: Run, candidate: Run, pairing: Pairing) -> list[Mismatch]:
    """Return what differs between two runs in engine, model, sampling, draft length and shape, load and prompts."""
    found = []
    if unknown := [run.name for run in (base, candidate) if run.settings == RunSettings()]:
        found.append(Mismatch(MismatchKind.CONFIGURATION_UNKNOWN, *(unknown * 2)[:2]))
    found += _settings_apart(base.settings, candidate.settings)
    for run in (base, candidate):
        for repeat in run.repeats[1:]:
            apart = _settings_apart(run.repeats[0].settings, repeat.settings)
            found += [mismatch for mismatch in apart if mismatch not in found]
    ends = outcomes(base), outcomes(candidate)
    if any(each.failed or each.cancelled for each in ends):
        found.append(Mismatch(MismatchKind.FAILURES, *map(str, ends)))
    found += [*_drafter_mismatches(base, candidate), *_prompt_tokens(base, candidate, pairing)]
    return [*found, *_prompt_cache(base, candidate)]


def outcomes(run: Run) -> Outcomes:
    """Return how the run's profiled requests ended."""
    kinds = [None if r.error is None else r.error.kind for r in run.records if r.phase is Phase.PROFILING]
    succeeded, cancelled = kinds.count(None), kinds.count(ErrorKind.CANCELLED)
    return Outcomes(succeeded, len(kinds) - succeeded - cancelled, cancelled)


def _settings_apart(mine: RunSettings, theirs: RunSettings) -> list[Mismatch]:
    found = []
    for kind, before, after in (
        (MismatchKind.MODEL, mine.model, theirs.model),
        (MismatchKind.ENDPOINT, mine.endpoint, theirs.endpoint),
        (MismatchKind.STREAMING, mine.streaming, theirs.streaming),
        (MismatchKind.CONCURRENCY, _concurrency(mine), _concurrency(theirs)),
    ):
        if before is not None and after is not None and before != after:
            found.append(Mismatch(kind, str(before), str(after)))
    if same_prompts(mine, theirs) is False:
        found.append(Mismatch(MismatchKind.PROMPTS, *(_prompts(settings) for settings in (mine, theirs))))
    if (before := _arrivals(mine)) != (after := _arrivals(theirs)):
        found.append(Mismatch(MismatchKind.CONCURRENCY, before, after))
    if mine.sampling is not None and theirs.sampling is not None and mine.sampling != theirs.sampling:
        bodies = mine.sampling, theirs.sampling
        # What asks an engine to report is no parameter of sampling.
        asking = {key for engine in known_engines().values() for key in engine.request_inputs}
        names = sorted({*bodies[0], *bodies[1]} - asking)
        keys = [key for key in names if bodies[0].get(key) != bodies[1].get(key)]
        if keys:
            shown = (", ".join(f"{key} {body.get(key, 'not sent')}" for key in keys) for body in bodies)
            found.append(Mismatch(MismatchKind.SAMPLING, *shown))
    return found


def _prompts(settings: RunSettings) -> str:
    named = settings.prompts_path or settings.prompts or "unknown"
    return f"{named}, {' '.join(settings.prompt_hashes)}" if settings.prompt_hashes else named


def _arrivals(settings: RunSettings) -> str:
    if settings.is_traced:
        return "--fixed-schedule"
    return "no rate" if settings.rate is None else f"--request-rate {settings.rate:g}"


def _concurrency(settings: RunSettings) -> str | None:
    return None if settings.concurrency is None else f"concurrency {settings.concurrency}"


def _drafter_mismatches(base: Run, candidate: Run) -> list[Mismatch]:
    sides = [[record.acceptance for record in measured(run.records) if record.acceptance] for run in (base, candidate)]
    if not all(sides):
        return []
    found = []
    engines = [", ".join(sorted({report.engine for report in reports})) for reports in sides]
    if engines[0] != engines[1]:
        found.append(Mismatch(MismatchKind.ENGINE, *engines))
    lengths = [_lengths(report.num_spec_tokens for report in reports) for reports in sides]
    if lengths[0] != lengths[1]:
        found.append(Mismatch(MismatchKind.DRAFT_LENGTH, *lengths))
    proposed = [
        sum(report.num_draft_tokens for report in reports) / max(1, sum(report.num_spec_steps for report in reports))
        for reports in sides
    ]
    counted = all(report.proposed_counted for reports in sides for report in reports)
    if counted and lengths[0] == lengths[1] and _shapes_differ([drafting(reports) for reports in sides], proposed):
        found.append(Mismatch(MismatchKind.DRAFTER_SHAPE, *(f"{value:.2f} proposed a step" for value in proposed)))
    return found


def _lengths(values: Iterable[int | None]) -> str:
    return ", ".join(sorted({"not reported" if value is None else str(value) for value in values}))


def _shapes_differ(known: Sequence[Drafting], proposed: Sequence[float]) -> bool:
    # The same k: a tree beside a chain, or drafts that are always full beside ones that are not. Without k, what a
    # step proposed on average is all there is; n-gram drafts of one setting stay within a tenth of each other.
    trees = [each.reason is Missing.NOT_A_CHAIN for each in known]
    apart = abs(proposed[0] - proposed[1]) > 0.1 * max(proposed)
    return trees[0] != trees[1] or known[0].full != known[1].full or apart


def _prompt_tokens(base: Run, candidate: Run, pairing: Pairing) -> list[Mismatch]:
    if base.settings.model != candidate.settings.model or not pairing.paired:
        return []  # another model's tokenizer counts the same prompt otherwise
    before, after = (
        {pairing.key(record): record.input_tokens for record in measured(run.records)} for run in (base, candidate)
    )
    # Later turns carry what was answered, which may differ.
    first = [(before.get(key), after.get(key)) for key in pairing.pairs if key[1] == 0]
    known = [pair for pair in first if None not in pair]
    apart = sum(mine != theirs for mine, theirs in known)
    shown = f"{apart} of {len(known)} pairs", "other prompt lengths"
    return [Mismatch(MismatchKind.PROMPT_TOKENS, *shown)] if apart else []


def _prompt_cache(base: Run, candidate: Run) -> list[Mismatch]:
    by_usage = [cached_share(measured(run.records)) for run in (base, candidate)]
    shares = by_usage if None not in by_usage else [run.settings.cached_share for run in (base, candidate)]
    known = [share for share in shares if share is not None]
    if len(known) < len(shares) or abs(known[0] - known[1]) < APART:
        return []
    return [Mismatch(MismatchKind.PROMPT_CACHE, *(f"{share:.0%} of prompt tokens" for share in known))]
