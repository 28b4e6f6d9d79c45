"""Several runs against one: differences, intervals, verdicts, and what makes them mislead."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from aiperf_spec.analysis.answer import Setup, reported_setup
from aiperf_spec.analysis.clusters import Read, Terms, grouped, length_terms, measured, rate_terms
from aiperf_spec.analysis.comparison.mismatches import (
    Mismatch,
    MismatchKind,
    Outcomes,
    Run,
    mismatches,
    outcomes,
    same_prompts,
)
from aiperf_spec.analysis.comparison.pairing import (
    Difference,
    Pairing,
    between,
    difference,
    pair_up,
    unjudged,
)
from aiperf_spec.analysis.intervals import missing
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.speed import accepted_terms, drafted_share, drafted_terms, step_terms
from aiperf_spec.analysis.statistics import holm_adjusted
from aiperf_spec.metrics.pooled import pool
from aiperf_spec.metrics.summary import run_values
from aiperf_spec.metrics.table import RECORD_METRICS, RUN_BY_TAG, RUN_METRICS, Group, RecordMetric
from aiperf_spec.models.decoding import some_undrafted
from aiperf_spec.models.run import RequestRecord

ALPHA = 0.05
MIN_RUNS = 3
"""Runs a side from which on figures that differ from run to run can be judged."""

POOLED_LENGTH = "spec_decode_token_weighted_acceptance_length"
POOLED_RATE = "spec_decode_overall_draft_acceptance_rate"
STEP_TIME = "step_time"


class Better(StrEnum):
    """Which way a metric gets better."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


class Verdict(StrEnum):
    """What a difference comes to, after the correction for many comparisons."""

    BETTER = "better"
    WORSE = "worse"
    DIFFERENT = "different"
    """Shown to differ, where neither way is better."""
    NONE_SHOWN = "no difference shown"
    NOT_JUDGED = "not judged"


@dataclass(slots=True, frozen=True)
class Row:
    """One metric in both runs. Figures are in the metric's unit; `relative` is difference / base."""

    tag: str
    label: str
    unit: str
    better: Better
    difference: Difference
    verdict: Verdict = Verdict.NOT_JUDGED
    adjusted_p: float | None = None

    @property
    def relative(self) -> float | None:
        """Difference / base, a fraction; None where there is no base."""
        return self.difference.relative


@dataclass(slots=True, frozen=True)
class Comparison:
    """A candidate against the base: `categories` hold the pooled length and the inter-token latency of each."""

    base: str
    candidate: str
    pairing: Pairing
    outcomes: tuple[Outcomes, Outcomes]
    """How the requests of the base ended, and those of the candidate."""
    setups: tuple[Setup, Setup]
    """Engine and k of the base and of the candidate, by their responses."""
    mismatches: tuple[Mismatch, ...]
    rows: tuple[Row, ...]
    categories: dict[str, tuple[Row, ...]]


@dataclass(slots=True, frozen=True)
class ComparisonSet:
    """All candidates against the base; `tests` is the number of verdicts that Holm's correction covers."""

    comparisons: tuple[Comparison, ...]
    tests: int


@dataclass(slots=True, frozen=True)
class _Metric:
    tag: str
    label: str
    unit: str
    better: Better
    read: Read
    offset: float = 0.0
    of_shape: bool = False
    """Whether it is a rate of what was proposed, which other drafters propose otherwise."""

    @property
    def of_time(self) -> bool:
        """Whether it scatters from run to run beyond what its requests show."""
        return self.unit == "ms" or "throughput" in self.tag


_OF_SHAPE = {"spec_decode_draft_acceptance_rate", "spec_decode_accepted_per_verified"}
_HIGHER = {"output_token_throughput_per_user", "spec_decode_acceptance_length", *_OF_SHAPE}
_OTHER_SHAPE = {MismatchKind.ENGINE, MismatchKind.DRAFT_LENGTH, MismatchKind.DRAFTER_SHAPE}
_OF_LENGTH = {POOLED_LENGTH, "spec_decode_acceptance_length", "tokens_per_decode_step"}
"""What a longer draft makes greater, and a shorter one smaller, whatever the drafter."""
_PER_CATEGORY = (POOLED_LENGTH, "inter_token_latency")


def mean_terms(metric: RecordMetric) -> Read:
    """Return what reads the sum and the number of a request's values; None where it has none."""

    def read(record: RequestRecord) -> Terms | None:
        value = metric.value(record)
        if value is None:
            return None
        return (sum(value), len(value)) if isinstance(value, list) else (value, 1)

    return read


def _mean(metric: RecordMetric) -> _Metric:
    otherwise = Better.LOWER if metric.unit == "ms" else Better.NEITHER
    better = Better.HIGHER if metric.tag in _HIGHER else otherwise
    return _Metric(metric.tag, metric.label, metric.unit, better, mean_terms(metric), of_shape=metric.tag in _OF_SHAPE)


def _pooled(tag: str, better: Better, read: Read, *, offset: float = 0.0, of_shape: bool = False) -> _Metric:
    return _Metric(tag, RUN_BY_TAG[tag].label, RUN_BY_TAG[tag].unit, better, read, offset, of_shape)


def _percent(record: RequestRecord) -> Terms | None:
    terms = rate_terms(record)
    return None if terms is None else (100 * terms[0], terms[1])


def _metrics(*, undrafted: bool) -> list[_Metric]:
    pooled = [
        _pooled(POOLED_LENGTH, Better.HIGHER, length_terms, offset=1),
        _pooled(POOLED_RATE, Better.HIGHER, _percent, of_shape=True),
    ]
    if undrafted:
        pooled.append(_pooled("tokens_per_decode_step", Better.HIGHER, accepted_terms, offset=1))
        pooled.append(_pooled("drafted_share", Better.NEITHER, drafted_terms))
    groups = (Group.ACCEPTANCE, Group.LATENCY)
    means = [_mean(metric) for group in groups for metric in RECORD_METRICS if metric.group is group]
    return [*pooled, *means, _Metric(STEP_TIME, "Step time", "ms", Better.LOWER, step_terms)]


def compare(base: Run, candidates: Sequence[Run]) -> ComparisonSet:
    """Return each candidate against the base, over successful profiled requests.

    Acceptance is compared over prompts, pair by pair where both runs sent them. What is measured in time differs from
    run to run by more than its requests show: with 3 runs a side or more it is compared between runs, throughputs and
    durations too; with fewer it gets no verdict. A verdict needs Holm's adjusted p below 0.05, over all verdicts of the
    set.
    The pooled length is the question that is asked first: it weighs as much as all other verdicts together, so that
    the number of metrics beside it does not hide what it shows.
    """
    raw = [_compare_pair(base, candidate) for candidate in candidates]
    tests = [
        row for each in raw for rows in (each.rows, *each.categories.values()) for row in rows if row.difference.is_test
    ]
    first = {id(row) for each in raw for row in each.rows if row.tag == POOLED_LENGTH and row.difference.is_test}
    weight = max(1.0, (len(tests) - len(first)) / len(first)) if first else 1.0
    weights = [weight if id(row) in first else 1.0 for row in tests]
    corrected = holm_adjusted([row.difference.p or 0.0 for row in tests], weights)
    adjusted = {id(row): p for row, p in zip(tests, corrected, strict=True)}

    def judged(row: Row) -> Row:
        if row.difference.p is None:
            return row
        p = adjusted.get(id(row), 1.0)
        return replace(row, adjusted_p=p, verdict=verdict_of(row.difference, row.better, p))

    done = tuple(
        replace(
            each,
            rows=tuple(map(judged, each.rows)),
            categories={name: tuple(map(judged, rows)) for name, rows in each.categories.items()},
        )
        for each in raw
    )
    return ComparisonSet(done, len(tests))


def verdict_of(found: Difference, better: Better, adjusted_p: float) -> Verdict:
    """Return what a difference comes to at its corrected p."""
    value = found.estimate.value
    if adjusted_p >= ALPHA or not value:
        return Verdict.NONE_SHOWN
    if better is Better.NEITHER:
        return Verdict.DIFFERENT
    return Verdict.BETTER if (value > 0) == (better is Better.HIGHER) else Verdict.WORSE


def _compare_pair(base: Run, candidate: Run) -> Comparison:
    mine, theirs = measured(base.records), measured(candidate.records)
    same = same_prompts(base.settings, candidate.settings)
    pairing = pair_up(mine, theirs, same_prompts=same)
    found = tuple(mismatches(base, candidate, pairing))
    same_shape = not _OTHER_SHAPE & {mismatch.kind for mismatch in found}
    repeats = tuple([measured(each.records) for each in run.repeats or (run,)] for run in (base, candidate))
    setups = reported_setup(pool(mine)), reported_setup(pool(theirs))
    metrics = _metrics(undrafted=any(some_undrafted(drafted_share(records).value) for records in (mine, theirs)))

    def rows_of(chosen: Sequence[_Metric], category: str | None = None) -> list[Row]:
        def of(records: Sequence[RequestRecord]) -> list[RequestRecord]:
            return [record for record in records if category is None or record.category == category]

        before, after = of(mine), of(theirs)
        pairs = pairing if category is None else pair_up(before, after, same_prompts=same)
        runs = tuple([of(records) for records in each] for each in repeats)
        given = (_row(metric, before, after, pairs, runs, same_shape=same_shape) for metric in chosen)
        return [_unless_by_length(row, *setups) for row in given if row is not None]

    rows = [*rows_of(metrics), *_run_rows(repeats)]
    shared = grouped(mine, lambda record: record.category).keys() & grouped(theirs, lambda record: record.category)
    per_category = [metric for metric in metrics if metric.tag in _PER_CATEGORY]
    categories = {name: tuple(rows_of(per_category, name)) for name in sorted(shared)}
    ends = outcomes(base), outcomes(candidate)
    if any(each.failed for each in ends):
        rows.append(_failures(*(each.failed for each in ends)))
    return Comparison(base.name, candidate.name, pairing, ends, setups, found, tuple(rows), categories)


def _unless_by_length(row: Row, base: Setup, candidate: Setup) -> Row:
    """Return the row as neither better nor worse where the change of k alone would move it that way."""
    value, lengths = row.difference.estimate.value, (base.draft_lengths, candidate.draft_lengths)
    if row.tag not in _OF_LENGTH or not value or not all(len(each) == 1 for each in lengths):
        return row
    longer = lengths[1][0] - lengths[0][0]
    return replace(row, better=Better.NEITHER) if longer * value > 0 else row


def _failures(base: int, candidate: int) -> Row:
    given = missing(Missing.NO_INTERVAL, candidate - base, 1)
    found = Difference(base, candidate, given, None, paired=False)
    return Row("error_request_count", "Failed requests", "requests", Better.LOWER, found)


_Repeats = tuple[Sequence[Sequence[RequestRecord]], ...]
"""The records of each run of the base, and of each of the candidate."""


def _row(
    metric: _Metric,
    base: Sequence[RequestRecord],
    candidate: Sequence[RequestRecord],
    pairing: Pairing,
    repeats: _Repeats,
    *,
    same_shape: bool,
) -> Row | None:
    if metric.of_time and min(map(len, repeats)) >= MIN_RUNS:
        found = _between_runs([[_value(metric.read, records) for records in runs] for runs in repeats])
    else:
        found = difference(base, candidate, metric.read, pairing, offset=metric.offset)
        if metric.of_time and found.estimate.value is not None:
            found = unjudged(found, Missing.FEW_RUNS)
    if found.base is None and found.candidate is None:
        return None
    if metric.of_shape and not same_shape:
        found = replace(found, estimate=missing(Missing.DIFFERENT_SHAPES), p=None)
    return Row(metric.tag, metric.label, metric.unit, metric.better, found)


def _value(read: Read, records: Sequence[RequestRecord]) -> float | None:
    terms = [each for record in records if (each := read(record)) is not None]
    total = sum(b for _, b in terms)
    return sum(a for a, _ in terms) / total if total else None


def _between_runs(sides: Sequence[Sequence[float | None]]) -> Difference:
    base, candidate = ([(value, 1.0) for value in values if value is not None] for values in sides)
    return between(base, candidate, fewest=MIN_RUNS)


def _run_rows(repeats: _Repeats) -> list[Row]:
    each = [[run_values(records) for records in runs] for runs in repeats]
    rows = []
    for metric in RUN_METRICS:
        if metric.group is not Group.RUN or metric.unit == "requests":
            continue
        values = [[run.get(metric.tag) for run in runs] for runs in each]
        if any(value is None for runs in values for value in runs):
            continue
        found = _between_runs(values)
        if found.estimate.reason is Missing.TOO_FEW:
            found = unjudged(found, Missing.FEW_RUNS)
        better = Better.HIGHER if metric.unit.endswith("/sec") else Better.NEITHER
        rows.append(Row(metric.tag, metric.label, metric.unit, better, found))
    return rows
