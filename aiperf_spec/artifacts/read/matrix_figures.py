"""What a run's folder has for an acceptance matrix, from the best source that it has or from the one asked for."""

from collections.abc import Callable

from aiperf_spec.analysis.category_totals import CategoryTotals
from aiperf_spec.analysis.clusters import measured
from aiperf_spec.analysis.figure_names import FigureName
from aiperf_spec.analysis.matrix import WHOLE_RUN, FigureCells, RunFigures, Span
from aiperf_spec.analysis.server_acceptance import ServerAcceptance, server_acceptance
from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.config.choices import ReportMetric, ReportSource
from aiperf_spec.errors import ConfigError, SpecProfileError
from aiperf_spec.metrics.latency import request_latency
from aiperf_spec.models.run import Phase

_SUBSET = "qualitative"
"""The subset of SPEED-Bench that has categories."""


def run_figures(
    run: RunFolder, metric: ReportMetric | FigureName, source: ReportSource, *, pool: bool = False
) -> RunFigures:
    """Return a run's figures; `ReportSource.AUTO` takes the best source that has any.

    A run without any has no columns. Raises `SpecProfileError` naming the run where the source asked for has none. With
    `pool`, throughput and what is not made of sums come from records: summaries of runs side by side do not add up.
    """
    readers: dict[ReportSource, Callable[[], RunFigures]] = {
        ReportSource.RECORDS: lambda: _from_records(run, metric),
        ReportSource.SUMMARY: lambda: _from_summary(run, metric),
        ReportSource.SERVER_METRICS: lambda: _from_server(run, metric),
    }
    order = list(readers) if source is ReportSource.AUTO else [source]
    if isinstance(metric, FigureName):
        if source is ReportSource.SUMMARY and pool:
            raise ConfigError(f"--pool computes {metric} from records, not from summaries", "leave out --source")
        if source is ReportSource.AUTO:
            order = [ReportSource.RECORDS, ReportSource.SUMMARY]
            order = order[:1] if pool else order[::-1] if run.shown_from_summary else order
    elif metric is ReportMetric.THROUGHPUT and source is ReportSource.AUTO and not pool:
        order = [ReportSource.SUMMARY, ReportSource.RECORDS]
    for each in order:
        figures = readers[each]()
        if figures.columns:
            return figures
    if source is not ReportSource.AUTO:
        raise SpecProfileError(
            f"{str(run.path)!r} has no {named(metric)} in its {source}",
            "leave out --source to take the best that each run has",
        )
    return RunFigures(run.model, [run.name], None)


def named(metric: ReportMetric | FigureName) -> str:
    """Return what errors call a metric."""
    return str(metric) if isinstance(metric, FigureName) else metric.replace("_", " ")


def _column(run: RunFolder) -> str:
    """Return the column of what has no category: the one that the selector names, the prompts' name, or the whole run.

    A run of ours whose prompts have categories is written with the selector of a subset, which is not what was sent.
    """
    category, is_ours = run.selector_category, run.described.server_url is not None
    if category == _SUBSET and is_ours:
        return run.described.dataset.name or WHOLE_RUN
    return category or WHOLE_RUN


def _from_records(run: RunFolder, metric: ReportMetric | FigureName) -> RunFigures:
    figures = RunFigures(run.model, [run.name], ReportSource.RECORDS)
    if not run.has_records:
        return figures
    fallback = _column(run)
    if metric is ReportMetric.THROUGHPUT:
        span, requests = _span(run)
        if span is not None:
            figures.spans[fallback], figures.requests[fallback] = span, requests
        return figures
    if isinstance(metric, FigureName):
        loaded = run.records()
        figures.succeeded, figures.unreadable = len(measured(loaded.records)), len(loaded.unreadable)
        found = FigureCells(metric, [(fallback, loaded.records)])
        if any(cell.value is not None for cell in found.cells.values()):
            figures.of_records = found
        return figures
    totals = run.totals()
    figures.succeeded, figures.unreadable = totals.succeeded, totals.unreadable
    figures.drafted_share = totals.drafted_share
    for category, total in totals.categories.items():
        if total.steps:
            figures.pools.setdefault(category or fallback, CategoryTotals()).merge(total)
    return figures


def _span(run: RunFolder) -> tuple[Span | None, int]:
    requests = tokens = start_ns = last_ns = 0
    for record in run.stream():
        if record.phase is not Phase.PROFILING or not record.succeeded:
            continue
        if record.output_tokens is None:
            return None, 0  # a sum that leaves requests out would pass for the run's
        end_ns = record.end_ns if request_latency(record) is None else record.last_content_ns or record.end_ns
        start_ns, last_ns = min(start_ns or record.start_ns, record.start_ns), max(last_ns, end_ns)
        tokens += record.output_tokens
        requests += 1
    return Span(tokens, [(start_ns, last_ns)]) if requests else None, requests


def _from_summary(run: RunFolder, metric: ReportMetric | FigureName) -> RunFigures:
    figures = RunFigures(run.model, [run.name], ReportSource.SUMMARY)
    column, found = _column(run), run.described.metric
    if isinstance(metric, FigureName):
        if (own := found(metric.tag, metric.statistic or "avg")) is not None:
            figures.values[column] = own
        return figures
    if metric is ReportMetric.THROUGHPUT:
        value, requests = found("output_token_throughput"), found("request_count")
    else:
        requests = found("spec_decode_acceptance_length", "count")
        accepted, steps = found("total_accepted_draft_tokens"), found("total_spec_decode_steps")
        proposed = found("total_draft_tokens")
        figures.drafted_share = found("drafted_share")
        if accepted is not None and proposed is not None and steps:
            sums = map(round, (requests or 0, accepted, steps, proposed))
            figures.pools[column] = CategoryTotals.unnamed(*sums)
            return figures
        by_rate = metric is ReportMetric.ACCEPT_RATE
        value = found(
            "spec_decode_overall_draft_acceptance_rate" if by_rate else "spec_decode_token_weighted_acceptance_length"
        )
    if value is not None:
        figures.values[column], figures.requests[column] = value, round(requests or 0)
    return figures


def _from_server(run: RunFolder, metric: ReportMetric | FigureName) -> RunFigures:
    figures = RunFigures(run.model, [run.name], ReportSource.SERVER_METRICS)
    if isinstance(metric, FigureName) or metric is ReportMetric.THROUGHPUT:
        return figures
    column, exported = _column(run), run.server_metrics
    by_rate = metric is ReportMetric.ACCEPT_RATE
    compared = server_acceptance(run.described.reconciliation)
    counts = compared if isinstance(compared, ServerAcceptance) else exported.counted_acceptance()
    if counts is not None and not (by_rate and counts.proposed is None):
        if counts.is_exact:
            figures.pools[column] = CategoryTotals.unnamed(0, counts.accepted, counts.steps, counts.proposed)
        else:
            figures.values[column], figures.at_most = counts.length, True
        return figures
    value = exported.rate_gauge() if by_rate else exported.length_gauge()
    if value is not None:
        figures.values[column], figures.gauge = value, True
    return figures
