"""What a run's folder has for an acceptance matrix, from the best source that it has or from the one asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from aiperf_spec.analysis.category_totals import CategoryTotals
from aiperf_spec.analysis.matrix import WHOLE_RUN, MatrixMetric, Origin, RunFigures, Span
from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.artifacts.read.records import RecordStream
from aiperf_spec.artifacts.read.totals import RecordTotals, read_totals
from aiperf_spec.errors import SpecProfileError
from aiperf_spec.metrics.latency import request_latency
from aiperf_spec.models.run import Phase
from aiperf_spec.server_metrics.exported_counters import counted_acceptance, length_gauge, rate_gauge


def run_figures(
    run: RunFolder,
    metric: MatrixMetric,
    origin: Origin | None,
    *,
    intervals: bool = False,
    pool: bool = False,
    records: RecordTotals | None = None,
) -> RunFigures:
    """Return a run's figures; `origin` None takes the best source that has any.

    A run without any has no columns. Raises `SpecProfileError` naming the run where the source asked for has none.
    `records` are the run's pools, where they were read before. With `pool`, throughput comes from records: rates of
    runs side by side do not add up.
    """
    readers: dict[Origin, Callable[[], RunFigures]] = {
        Origin.RECORDS: lambda: _from_records(run, metric, records, intervals=intervals),
        Origin.SUMMARY: lambda: _from_summary(run, metric),
        Origin.SERVER_METRICS: lambda: _from_server(run, metric),
    }
    order = list(readers) if origin is None else [origin]
    if metric is MatrixMetric.THROUGHPUT and origin is None and not pool:
        order = [Origin.SUMMARY, Origin.RECORDS]
    for source in order:
        figures = readers[source]()
        if figures.columns:
            return figures
    if origin is not None:
        raise SpecProfileError(
            f"{str(run.path)!r} has no {metric.replace('_', ' ')} in its {origin}",
            "leave out --source to take the best that each run has",
        )
    return RunFigures(run.model, [run.name], None)


def _from_records(run: RunFolder, metric: MatrixMetric, pools: RecordTotals | None, *, intervals: bool) -> RunFigures:
    figures = RunFigures(run.model, [run.name], Origin.RECORDS)
    if not run.has_records:
        return figures
    fallback = run.selector_category or WHOLE_RUN
    if metric is MatrixMetric.THROUGHPUT:
        span, requests = _span(run)
        if span is not None:
            figures.spans[fallback], figures.requests[fallback] = span, requests
        return figures
    pools = read_totals(run.path, clustered=intervals) if pools is None else pools
    figures.succeeded, figures.unreadable = pools.succeeded, pools.unreadable
    for category, pool in pools.categories.items():
        if pool.steps:
            figures.pools.setdefault(category or fallback, CategoryTotals()).merge(pool)
    return figures


def _span(run: RunFolder) -> tuple[Span | None, int]:
    span: Span | None = None
    requests = 0
    for record in RecordStream(run.path):
        if record.phase is not Phase.PROFILING or not record.succeeded:
            continue
        if record.output_tokens is None:
            return None, 0  # a sum that leaves requests out would pass for the run's
        end_ns = record.end_ns if request_latency(record) is None else record.last_content_ns or record.end_ns
        span = span or Span(0, record.start_ns, end_ns)
        span.tokens += record.output_tokens
        span.start_ns, span.end_ns = min(span.start_ns, record.start_ns), max(span.end_ns, end_ns)
        requests += 1
    return span, requests


def _number(summary: dict[str, Any], tag: str, stat: str = "avg") -> float | None:
    entry = summary.get(tag)
    value = entry.get(stat) if isinstance(entry, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _from_summary(run: RunFolder, metric: MatrixMetric) -> RunFigures:
    figures = RunFigures(run.model, [run.name], Origin.SUMMARY)
    column, summary = run.selector_category or WHOLE_RUN, run.summary
    if metric is MatrixMetric.THROUGHPUT:
        value, requests = _number(summary, "output_token_throughput"), _number(summary, "request_count")
        if value is not None:
            figures.values[column], figures.requests[column] = value, round(requests or 0)
        return figures
    requests = _number(summary, "spec_decode_acceptance_length", "count")
    accepted, steps, proposed = (
        _number(summary, tag)
        for tag in ("total_accepted_draft_tokens", "total_spec_decode_steps", "total_draft_tokens")
    )
    if accepted is not None and proposed is not None and steps:
        pool = CategoryTotals(round(requests or 0), round(accepted), round(steps), round(proposed))
        figures.pools[column] = pool
        return figures
    tag = "spec_decode_token_weighted_acceptance_length"
    if metric is MatrixMetric.ACCEPT_RATE:
        tag = "spec_decode_overall_draft_acceptance_rate"
    if (value := _number(summary, tag)) is not None:
        figures.values[column], figures.requests[column] = value, round(requests or 0)
    return figures


def _from_server(run: RunFolder, metric: MatrixMetric) -> RunFigures:
    figures = RunFigures(run.model, [run.name], Origin.SERVER_METRICS)
    document = run.server_metrics()
    if document is None or metric is MatrixMetric.THROUGHPUT:
        return figures
    column = run.selector_category or WHOLE_RUN
    if (counts := counted_acceptance(document)) is not None:
        figures.pools[column] = counts
        return figures
    value = length_gauge(document) if metric is MatrixMetric.ACCEPT_LENGTH else rate_gauge(document)
    if value is not None:
        figures.values[column], figures.gauge = value, True
    return figures
