"""Several runs against one: differences, intervals, verdicts, and what makes them mislead."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from aiperf_spec.analysis.clusters import Read, Terms, grouped, length_terms, measured, rate_terms
from aiperf_spec.analysis.comparison.mismatches import Mismatch, MismatchKind, Run, mismatches, same_prompts
from aiperf_spec.analysis.comparison.pairing import Difference, Pairing, difference, pair_up
from aiperf_spec.analysis.intervals import missing
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.speed import step_terms
from aiperf_spec.analysis.statistics import holm_adjusted
from aiperf_spec.metrics.summary import run_values
from aiperf_spec.metrics.table import RECORD_METRICS, RUN_METRICS, Group, RecordMetric
from aiperf_spec.models.run import RequestRecord

ALPHA = 0.05

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
        value, base = self.difference.estimate.value, self.difference.base
        return value / abs(base) if value is not None and base else None


@dataclass(slots=True, frozen=True)
class Comparison:
    """A candidate against the base: `categories` hold the pooled length and the inter-token latency of each."""

    base: str
    candidate: str
    pairing: Pairing
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


_OF_SHAPE = {"spec_decode_draft_acceptance_rate", "spec_decode_accepted_per_verified"}
_HIGHER = {"output_token_throughput_per_user", "spec_decode_acceptance_length", *_OF_SHAPE}
_OTHER_SHAPE = {MismatchKind.ENGINE, MismatchKind.DRAFT_LENGTH, MismatchKind.DRAFTER_SHAPE}
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


def _percent(record: RequestRecord) -> Terms | None:
    terms = rate_terms(record)
    return None if terms is None else (100 * terms[0], terms[1])


def _metrics() -> list[_Metric]:
    labels = {metric.tag: metric.label for metric in RUN_METRICS}
    pooled = [
        _Metric(POOLED_LENGTH, labels[POOLED_LENGTH], "ratio", Better.HIGHER, length_terms, offset=1),
        _Metric(POOLED_RATE, labels[POOLED_RATE], "%", Better.HIGHER, _percent, of_shape=True),
    ]
    groups = (Group.ACCEPTANCE, Group.LATENCY)
    means = [_mean(metric) for group in groups for metric in RECORD_METRICS if metric.group is group]
    return [*pooled, *means, _Metric(STEP_TIME, "Step time", "ms", Better.LOWER, step_terms)]


def compare(base: Run, candidates: Sequence[Run]) -> ComparisonSet:
    """Return each candidate against the base, over successful profiled requests.

    Means over requests and pooled ratios are compared with intervals and verdicts; throughputs and durations are one
    number a run, and are shown without. A verdict needs Holm's adjusted p below 0.05, over all verdicts of the set.
    The pooled length is the question that is asked first: it weighs as much as all other verdicts together, so that
    the number of metrics beside it does not hide what it shows.
    """
    raw = [_compare_pair(base, candidate) for candidate in candidates]
    tests = [row for each in raw for rows in (each.rows, *each.categories.values()) for row in rows if _is_test(row)]
    first = {id(row) for each in raw for row in each.rows if row.tag == POOLED_LENGTH and _is_test(row)}
    weight = max(1.0, (len(tests) - len(first)) / len(first)) if first else 1.0
    weights = [weight if id(row) in first else 1.0 for row in tests]
    corrected = holm_adjusted([row.difference.p or 0.0 for row in tests], weights)
    adjusted = {id(row): p for row, p in zip(tests, corrected, strict=True)}

    def judged(row: Row) -> Row:
        if row.difference.p is None:
            return row
        p = adjusted.get(id(row), 1.0)
        return replace(row, adjusted_p=p, verdict=_verdict(row, p))

    done = tuple(
        replace(
            each,
            rows=tuple(map(judged, each.rows)),
            categories={name: tuple(map(judged, rows)) for name, rows in each.categories.items()},
        )
        for each in raw
    )
    return ComparisonSet(done, len(tests))


def _is_test(row: Row) -> bool:
    # What is the same in every pair (tokens under a limit that all reach) could not have been found to differ.
    found = row.difference
    return found.p is not None and bool(found.estimate.value or found.estimate.standard_error)


def _verdict(row: Row, p: float) -> Verdict:
    value = row.difference.estimate.value
    if p >= ALPHA or not value:
        return Verdict.NONE_SHOWN
    if row.better is Better.NEITHER:
        return Verdict.DIFFERENT
    return Verdict.BETTER if (value > 0) == (row.better is Better.HIGHER) else Verdict.WORSE


def _compare_pair(base: Run, candidate: Run) -> Comparison:
    mine, theirs = measured(base.records), measured(candidate.records)
    same = same_prompts(base.settings, candidate.settings)
    pairing = pair_up(mine, theirs, same_prompts=same)
    found = tuple(mismatches(base, candidate, pairing))
    same_shape = not _OTHER_SHAPE & {mismatch.kind for mismatch in found}
    metrics = _metrics()
    rows = [*_rows(metrics, mine, theirs, pairing, same_shape=same_shape), *_one_number_rows(mine, theirs)]
    per_category = [metric for metric in metrics if metric.tag in _PER_CATEGORY]
    groups, other_groups = (grouped(records, lambda record: record.category) for records in (mine, theirs))
    categories = {}
    for name in sorted(groups.keys() & other_groups.keys()):
        ours, other = groups[name], other_groups[name]
        pairs = pair_up(ours, other, same_prompts=same)
        categories[name] = tuple(_rows(per_category, ours, other, pairs, same_shape=same_shape))
    return Comparison(base.name, candidate.name, pairing, found, tuple(rows), categories)


def _rows(
    metrics: Iterable[_Metric],
    base: Sequence[RequestRecord],
    candidate: Sequence[RequestRecord],
    pairing: Pairing,
    *,
    same_shape: bool,
) -> Iterator[Row]:
    for metric in metrics:
        found = difference(base, candidate, metric.read, pairing, offset=metric.offset)
        if found.base is None and found.candidate is None:
            continue
        if metric.of_shape and not same_shape:
            found = replace(found, estimate=missing(Missing.DIFFERENT_SHAPES), p=None)
        yield Row(metric.tag, metric.label, metric.unit, metric.better, found)


def _one_number_rows(base: Sequence[RequestRecord], candidate: Sequence[RequestRecord]) -> Iterator[Row]:
    before, after = run_values(base), run_values(candidate)
    for metric in RUN_METRICS:
        values = before.get(metric.tag), after.get(metric.tag)
        if metric.group is not Group.RUN or metric.unit == "requests" or values[0] is None or values[1] is None:
            continue
        better = Better.HIGHER if metric.unit.endswith("/sec") else Better.NEITHER
        given = missing(Missing.NO_INTERVAL, values[1] - values[0], 1)
        yield Row(metric.tag, metric.label, metric.unit, better, Difference(*values, given, None, paired=False))
