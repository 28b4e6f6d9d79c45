"""Sum a run up."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from aiperf_spec.metrics.buffering import came_in_clumps
from aiperf_spec.metrics.goodput import Objective, good_requests
from aiperf_spec.metrics.latency import inter_token_latency
from aiperf_spec.metrics.outage import outages
from aiperf_spec.metrics.pooled import PooledAcceptance, pool
from aiperf_spec.metrics.pooled_totals import pool_totals
from aiperf_spec.metrics.stats import Stats, describe, describe_gaps
from aiperf_spec.metrics.table import RECORD_METRICS, RUN_METRICS, Totals
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.run import ErrorKind, Phase, RequestError, RequestRecord
from aiperf_spec.models.units import NS_PER_S


@dataclass(slots=True, frozen=True)
class CategorySummary:
    """Acceptance of one category: `requests` succeeded, of which `acceptance.requests` have a record."""

    requests: int
    acceptance: PooledAcceptance
    mean_length: float | None
    """Mean of the requests' own mean acceptance lengths."""


@dataclass(slots=True, frozen=True)
class ErrorGroup:
    """Failures of one kind and status: how many, and the first one's message."""

    first: RequestError
    count: int


@dataclass(slots=True, frozen=True)
class Summary:
    """The figures of one phase. Statistics are over successful requests; a tag without values is absent.

    `drop_reasons` counts every request without a record, failed ones included, so that its sum and
    `acceptance.requests` make the number of requests.
    """

    succeeded: int
    failed: int
    cancelled: int
    record_stats: dict[str, Stats]
    run_values: dict[str, float]
    acceptance: PooledAcceptance
    drop_reasons: dict[DropReason, int]
    categories: dict[str, CategorySummary]
    errors: list[ErrorGroup]
    in_clumps: int = 0
    """Streams that arrived in clumps; 0 where only the summary file is at hand."""
    objectives: dict[str, float] = field(default_factory=dict)
    """The limits of goodput by metric; empty where none is set."""

    @property
    def total(self) -> int:
        """All requests of the phase, however they ended."""
        return self.succeeded + self.failed + self.cancelled

    @property
    def due(self) -> int:
        """The same with those that were due and never went out, as far as that is known."""
        return self.total + self.unsent

    @property
    def unsent(self) -> int:
        """Requests that were due and never went out, as far as that is known."""
        return int(self.run_values.get("unsent_request_count", 0))


def summarise(
    records: Sequence[RequestRecord],
    phase: Phase = Phase.PROFILING,
    *,
    unsent: int | None = None,
    goals: Sequence[Objective] = (),
) -> Summary:
    """Return the figures of one phase's records.

    `unsent` is how many requests were due and never went out, which leave no record; None where that is not known.
    `goals` are what a request has to meet to count for goodput.
    """
    chosen = [record for record in records if record.phase is phase]
    good = [record for record in chosen if record.succeeded]
    reasons = Counter(r.drop_reason for r in chosen if r.drop_reason is not None)
    totals = _totals(chosen, good, unsent, goals)
    return Summary(
        succeeded=totals.succeeded,
        failed=totals.failed,
        cancelled=len(chosen) - totals.succeeded - totals.failed,
        record_stats=_record_stats(good),
        run_values=_run_values(totals),
        acceptance=totals.acceptance,
        drop_reasons={reason: reasons[reason] for reason in DropReason if reasons[reason]},
        categories=_categories(good),
        errors=_errors(chosen),
        in_clumps=sum(map(came_in_clumps, good)),
        objectives={goal.metric.tag: goal.limit for goal in goals},
    )


def run_values(records: Sequence[RequestRecord]) -> dict[str, float]:
    """Return `Summary.run_values` of the profiled records alone, without the cost of the other figures."""
    chosen = [record for record in records if record.phase is Phase.PROFILING]
    return _run_values(_totals(chosen, [record for record in chosen if record.succeeded]))


def _totals(
    chosen: list[RequestRecord],
    good: list[RequestRecord],
    unsent: int | None = None,
    goals: Sequence[Objective] = (),
) -> Totals:
    cancelled = sum(1 for r in chosen if r.error is not None and r.error.kind is ErrorKind.CANCELLED)
    itls = [itl for record in good if (itl := inter_token_latency(record)) is not None]
    span, found = _span(good), outages(chosen)
    whole = [*found, span] if span is not None and found else []
    return Totals(
        succeeded=len(good),
        failed=len(chosen) - len(good) - cancelled,
        duration_s=_seconds([] if span is None else [span]),
        mean_itl_ms=fmean(itls) if itls else None,
        input_tokens=_sum([r.input_tokens for r in good]),
        output_tokens=_sum([r.output_tokens for r in good]),
        acceptance=pool(good),
        draft_totals=pool_totals(chosen),
        zero_step_requests=sum(1 for r in chosen if r.drop_reason is DropReason.ZERO_STEP),
        unsent=unsent,
        good=good_requests(good, goals) if goals else None,
        outage_s=sum(end - start for start, end in found) / NS_PER_S if found else None,
        duration_with_outage_s=_seconds(whole),
    )


def _run_values(totals: Totals) -> dict[str, float]:
    values = {metric.tag: metric.value(totals) for metric in RUN_METRICS}
    return {tag: float(value) for tag, value in values.items() if value is not None}


def _record_stats(good: list[RequestRecord]) -> dict[str, Stats]:
    stats = {}
    for metric in RECORD_METRICS:
        if metric.tag == "inter_chunk_latency":
            described = describe_gaps([r.chunk_gaps_ns for r in good if r.chunk_gaps_ns])
        else:
            values = map(metric.value, good)
            described = describe([value for value in values if value is not None and not isinstance(value, list)])
        if described is not None:
            stats[metric.tag] = described
    return stats


def _span(good: list[RequestRecord]) -> tuple[int, int] | None:
    if not good:
        return None
    start = min(record.start_ns for record in good)
    return start, max(r.end_ns if r.last_content_ns is None else r.last_content_ns for r in good)


def _seconds(spans: Sequence[tuple[int, int]]) -> float | None:
    return (max(end for _, end in spans) - min(start for start, _ in spans)) / NS_PER_S if spans else None


def _sum(counts: list[int | None]) -> int | None:
    # A sum that leaves requests out would pass for the run's; better none.
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _categories(good: list[RequestRecord]) -> dict[str, CategorySummary]:
    by_category: dict[str, list[RequestRecord]] = {}
    for record in good:
        if record.category is not None:
            by_category.setdefault(record.category, []).append(record)
    return {category: _category(members) for category, members in sorted(by_category.items())}


def _category(members: list[RequestRecord]) -> CategorySummary:
    lengths = [length for record in members if (found := record.acceptance) and (length := found.length) is not None]
    return CategorySummary(len(members), pool(members), math.fsum(lengths) / len(lengths) if lengths else None)


def _errors(chosen: list[RequestRecord]) -> list[ErrorGroup]:
    groups: dict[tuple[ErrorKind, int | None], list[RequestError]] = {}
    for error in (record.error for record in chosen if record.error is not None):
        # A stream that fails within status 200 and one that fails before any status are of one kind.
        status = error.status if error.kind is ErrorKind.HTTP_STATUS else None
        groups.setdefault((error.kind, status), []).append(error)
    found = [ErrorGroup(errors[0], len(errors)) for errors in groups.values()]
    return sorted(found, key=lambda group: -group.count)
