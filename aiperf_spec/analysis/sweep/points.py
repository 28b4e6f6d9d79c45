"""The points of a sweep, a draft length at a load each: their runs, and the figures of these."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev

from aiperf_spec.adapters.engines import counters_in
from aiperf_spec.analysis.clusters import measured
from aiperf_spec.analysis.intervals import Estimate, estimate, missing
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.report import length, rate
from aiperf_spec.analysis.speed import pooled_itl, step_time, tokens_per_decode_step
from aiperf_spec.analysis.statistics import t_quantile
from aiperf_spec.metrics.goodput import Objective
from aiperf_spec.metrics.latency import content_span_ns, time_to_first_token
from aiperf_spec.metrics.stats import describe
from aiperf_spec.metrics.summary import Summary, summarise
from aiperf_spec.models.drafter import ServerDrafter
from aiperf_spec.models.run import RequestRecord
from aiperf_spec.models.server_metrics import ServerMetrics
from aiperf_spec.models.sweep import CellRun, Load, LoadKind

MIN_REPEATS = 3
"""Repeats from which on their scatter gives an interval."""
_REACHED = 0.95
"""The share of the concurrency from which on it counts as reached: a client that is not held up keeps up 98 %."""
_CREDIBLE = 0.7
"""The share of the requests whose content arrives that a gauge has to count; it is read once a second."""


@dataclass(slots=True)
class PointRuns:
    """The runs of a point that measured something, by repeat: `records` are the successful profiled ones."""

    k: int | None
    load: Load
    runs: dict[int, CellRun] = field(default_factory=dict)
    records: dict[int, list[RequestRecord]] = field(default_factory=dict)

    def of_category(self, category: str) -> PointRuns:
        """Return the same runs with the records of a category alone."""
        chosen = {n: [r for r in records if r.category == category] for n, records in self.records.items()}
        return replace(self, records=chosen)

    @property
    def all_records(self) -> list[RequestRecord]:
        """The records of all repeats."""
        return [record for records in self.records.values() for record in records]


@dataclass(slots=True, frozen=True, kw_only=True)
class Point:
    """The figures of a point. Pooled ones are over the requests of all repeats, with intervals over prompts.

    An interval is wider where repeats scatter more (from 3 repeats on). Of throughput and goodput, which are one number
    a run, it is the mean of the repeats, `n` counts repeats, and the interval is from their scatter alone.
    """

    k: int | None
    load: Load
    engine: str | None
    repeats: int
    requests: int
    """Successful ones, of all repeats."""
    failed: int
    throughput: Estimate
    """Output tokens/s."""
    goodput: Estimate | None
    """Requests/s that met every objective; None where none is set."""
    ttft_p50_ms: float | None
    ttft_p99_ms: float | None
    itl_ms: Estimate
    length: Estimate
    rate: Estimate
    """Draft acceptance rate, in percent."""
    tokens_per_step: Estimate
    step_time_ms: Estimate
    running: float | None
    """Requests that an engine ran at a time: the mean over time, repeats, and engines. It is the engine's own gauge or,
    where that was not read, or too seldom, the requests whose content was arriving; None without streaming."""
    by_gauge: bool = True
    """Whether `running` is the gauge's."""
    engines: int = 1
    """Engines with a gauge of their own behind one address: more than 1 under data parallelism."""
    drafter: ServerDrafter | None = None
    """How the server says that it drafts."""


def points_of(runs: Iterable[CellRun]) -> dict[tuple[Load, int | None], PointRuns]:
    """Return the points that have a successful request, by load and k, in that order."""
    found: dict[tuple[Load, int | None], PointRuns] = {}
    for run in sorted(runs, key=lambda run: (run.cell.load, -1 if run.cell.k is None else run.cell.k, run.cell.repeat)):
        if good := measured(run.records):
            cell = run.cell
            point = found.setdefault((cell.load, cell.k), PointRuns(cell.k, cell.load))
            point.runs[cell.repeat], point.records[cell.repeat] = run, good
    return found


def figures_of(point: PointRuns, goals: Sequence[Objective] = ()) -> Point:
    """Return the figures of a point."""
    summaries = [summarise(run.records, goals=goals) for run in point.runs.values()]
    records = point.all_records
    ttft = describe([value for record in records if (value := time_to_first_token(record)) is not None])
    engines = {run.engine for run in point.runs.values()} - {None}
    gauges = [_gauges(run.server_metrics) for run in point.runs.values()]
    engine_count = max((number for each in gauges for number in Counter(url for url, _ in each).values()), default=1)
    arriving = [_arriving(records) for records in point.records.values()]
    by_gauge = all(_is_told(each, least) for each, least in zip(gauges, arriving, strict=True))
    itl = _over_repeats(point, pooled_itl)
    # Without speculation every decode step gives one token.
    alone = point.k == 0 and not any(record.acceptance for record in records)
    steps = missing(Missing.NO_SPREAD, 1.0, itl.n) if alone else _over_repeats(point, tokens_per_decode_step, 1.0)
    return Point(
        k=point.k,
        load=point.load,
        engine=engines.pop() if len(engines) == 1 else None,
        repeats=len(point.runs),
        requests=len(records),
        failed=sum(summary.failed for summary in summaries),
        throughput=_mean(summaries, "output_token_throughput"),
        goodput=_mean(summaries, "goodput") if goals else None,
        ttft_p50_ms=None if ttft is None else ttft.value("p50"),
        ttft_p99_ms=None if ttft is None else ttft.value("p99"),
        itl_ms=itl,
        length=_over_repeats(point, length, 1.0),
        rate=_over_repeats(point, rate),
        tokens_per_step=steps,
        step_time_ms=itl if alone else _over_repeats(point, step_time),
        running=fmean(average for each in gauges for _, average in each)
        if by_gauge
        else fmean(arriving) / engine_count or None,
        by_gauge=by_gauge,
        engines=engine_count,
        drafter=next((run.drafter for run in point.runs.values() if run.drafter is not None), None),
    )


def _gauges(metrics: ServerMetrics | None) -> list[tuple[str, float]]:
    """Return the address and the mean over time of each engine's gauge of running requests."""
    if metrics is None:
        return []
    names = (counters.running_requests for counters in counters_in(metrics.metrics).values())
    found = [metrics.metrics[name] for name in dict.fromkeys(names) if name in metrics.metrics]
    every = (series for metric in found for series in metric.series)
    return [(each.endpoint_url, average) for each in every if (average := each.stats.get("avg")) is not None]


def _arriving(records: Sequence[RequestRecord]) -> float:
    """Return how many requests were between their first and their last content at a time: the mean over the run."""
    spans = [span for record in records if (span := content_span_ns(record)) is not None]
    ends = [record.last_content_ns for record in records if record.last_content_ns is not None]
    duration = max(ends) - min(record.start_ns for record in records) if ends else 0
    return sum(spans) / duration if duration > 0 else 0.0


def _is_told(gauges: Sequence[tuple[str, float]], arriving: float) -> bool:
    """Say whether gauges tell the batch: a request whose content arrives is running, whatever few reads of them say."""
    return bool(gauges) and sum(average for _, average in gauges) >= _CREDIBLE * arriving


def _mean(summaries: Sequence[Summary], tag: str) -> Estimate:
    values = [value for each in summaries if (value := each.run_values.get(tag)) is not None]
    if not values:
        return missing(Missing.NO_RECORDS)
    if len(values) < MIN_REPEATS:
        return missing(Missing.FEW_REPEATS if len(values) > 1 else Missing.NO_INTERVAL, fmean(values), len(values))
    error = stdev(values) / math.sqrt(len(values))
    return estimate(fmean(values), error, len(values), len(values) - 1, fewest=MIN_REPEATS).within(lowest=0)


def _over_repeats(
    point: PointRuns, figure: Callable[[Sequence[RequestRecord]], Estimate], lowest: float = 0.0
) -> Estimate:
    """Return a pooled figure of all repeats, its interval the wider one: over prompts, or of the repeats' scatter.

    It is no lower than `lowest`, which the figure cannot be.
    """
    pooled = figure(point.all_records)
    values = [value for records in point.records.values() if (value := figure(records).value) is not None]
    if pooled.value is None or pooled.low is None or pooled.high is None or len(values) < MIN_REPEATS:
        return pooled
    reach = t_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    low, high = min(pooled.low, pooled.value - reach), max(pooled.high, pooled.value + reach)
    return replace(pooled, low=low, high=high).within(lowest)


def load_shortfall(run: CellRun) -> float | None:
    """Return how many requests a closed loop had in flight where that was clearly less than its concurrency; else None.

    It is the mean over the time in which there was always another request to send: from when the concurrency was first
    reached to the last start. A client that is held up by other work on its machine sends late, and its cell is then
    measured at less load than was asked for.
    """
    asked = int(run.cell.load.value)
    spans = sorted((record.start_ns, record.end_ns) for record in run.records)
    if run.cell.load.kind is not LoadKind.CONCURRENCY or len(spans) <= 2 * asked:
        return None
    begin, end = spans[asked - 1][0], spans[-1][0]
    spent = sum(max(0, min(ended, end) - max(started, begin)) for started, ended in spans)
    mean = spent / (end - begin) if end > begin else asked
    return mean if mean < _REACHED * asked else None
