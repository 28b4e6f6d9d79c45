"""The tables of a run's figures."""

from collections.abc import Mapping

from rich.console import Group as Renderables
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from aiperf_spec.analysis.report import Analysis
from aiperf_spec.metrics.stats import Stats
from aiperf_spec.metrics.summary import CategorySummary, Summary
from aiperf_spec.metrics.table import RECORD_METRICS, RUN_METRICS, Group, RecordMetric, RunMetric
from aiperf_spec.models.decoding import some_undrafted
from aiperf_spec.render.layout import FittingTable, table_of
from aiperf_spec.render.missing import interval
from aiperf_spec.render.text import cell, count, middle, narrow, number, plural
from aiperf_spec.render.words import WORDS
from aiperf_spec.wire.remedies import remedy

_COLUMNS = ("avg", "min", "max", "p99", "p90", "p50", "std")
_TIME_DROPS = ("std", "min", "max", "p90", "avg", "p99")
_ACCEPTANCE_DROPS = ("std", "max", "p99", "p90", "min", "p50")
"""Pooled figures stand in the column of averages."""
_CATEGORY_DROPS = ("length\nmean", "accepted", "proposed", "steps", "95 % ", "95 %", "requests", "rate %")
_UNDRAFTED = ("tokens_per_decode_step", "drafted_share")
_SCHEDULED = {"scheduled_latency", "schedule_lag"}
_PER_USER = "output_token_throughput_per_user"
_BETWEEN_TOKENS = {"inter_token_latency", "inter_chunk_latency", _PER_USER}
_AT_MEAN_ITL = next(metric for metric in RUN_METRICS if metric.group is Group.LATENCY)
_IN_FULL = {
    *("inter_chunk_latency", "input_sequence_length", "spec_decode_accepted_per_verified", "spec_decode_steps"),
    *("spec_decode_accepted_draft_tokens", "spec_decode_draft_tokens", "drafted_share"),
}
"""Metrics whose rows only the full tables have."""


def errors_table(summary: Summary, *, has_key: bool = False) -> RenderableType:
    """Return the failures by kind, with the first message of each and what to try; `has_key` says that one was sent."""
    columns = ("<Kind", "Requests", "<First message")
    table = table_of(columns, title="Failed requests", wraps="First message")
    for group in summary.errors:
        error = group.first
        kind = f"{error.kind} {error.status}" if error.kind == "http_status" else str(error.kind)
        table.add_row(kind, count(group.count), cell(error.message))
    tries = dict.fromkeys(remedy(group.first, has_key=has_key) for group in summary.errors)
    return Renderables(table, *(Text(f"try: {each}", style="dim") for each in tries if each))


def _label(metric: RecordMetric | RunMetric) -> str:
    return f"{metric.label} ({metric.unit})" if metric.unit in ("ms", "%") else metric.label


def _stats_row(table: Table, label: str, stats: Stats) -> None:
    table.add_row(label, count(stats.count), *(narrow(stats.value(name)) for name in _COLUMNS))


def latency_table(summary: Summary, *, full: bool = True) -> RenderableType:
    """Return the latencies of successful requests; in full a metric that no request has says so."""
    table = table_of(("<Latency", "n", *_COLUMNS), drops=_TIME_DROPS)
    for metric in RECORD_METRICS:
        if metric.group is not Group.LATENCY or (not full and metric.tag in _IN_FULL):
            continue
        label = _label(metric) + (" *" if summary.in_clumps and metric.tag in _BETWEEN_TOKENS else "")
        label += " †" if summary.unsent and metric.tag in _SCHEDULED else ""
        if (stats := summary.record_stats.get(metric.tag)) is not None:
            _stats_row(table, label, stats)
            # Beside the mean of the requests' own, which a few fast ones can draw far up.
            if metric.tag == _PER_USER and (at_mean := summary.run_values.get(_AT_MEAN_ITL.tag)) is not None and full:
                table.add_row(_AT_MEAN_ITL.label, count(stats.count), narrow(at_mean), *("" for _ in _COLUMNS[1:]))
        elif full and not metric.optional:
            table.add_row(label, "0", *("–" for _ in _COLUMNS), style="dim")
    notes = []
    if summary.in_clumps:
        streams = plural(summary.in_clumps, "stream")
        notes.append(f"* {streams} arrived in clumps: these times are not the engine's.")
    if summary.unsent and summary.record_stats.keys() & _SCHEDULED:
        notes.append(f"† Only requests that were sent: {count(summary.unsent)} more were due but never sent.")
    return Renderables(table, *(Text(note, style="dim") for note in notes))


def acceptance_table(summary: Summary, *, full: bool = True) -> RenderableType:
    """Return acceptance: the figures in which every verify step weighs the same, then those of single requests."""
    pooled = summary.acceptance
    head = f"{count(pooled.requests)} of {plural(summary.succeeded, 'successful request')} reported acceptance"
    if not pooled.requests:
        return Text.assemble(("Acceptance\n", "bold"), head)
    table = table_of(("<Acceptance", "n", *_COLUMNS), drops=_ACCEPTANCE_DROPS)
    left_out = () if some_undrafted(summary.run_values.get("drafted_share")) else _UNDRAFTED
    for run_metric in RUN_METRICS:
        value = None if run_metric.tag in left_out else summary.run_values.get(run_metric.tag)
        counts = run_metric.unit in ("count", "tokens")
        shown_here = full or not (counts or run_metric.tag in _IN_FULL)
        if run_metric.group is Group.ACCEPTANCE and value is not None and shown_here:
            blanks = ("" for _ in _COLUMNS[1:])
            shown = number(value, 0 if counts else 2)
            table.add_row(_label(run_metric), count(pooled.requests), shown, *blanks, style="bold")
    for metric in RECORD_METRICS:
        stats = summary.record_stats.get(metric.tag)
        if metric.group is Group.ACCEPTANCE and stats is not None and (full or metric.tag not in _IN_FULL):
            _stats_row(table, _label(metric), stats)
    caption = f"{head}. In bold rows every verify step has the same weight; the other rows are over requests."
    return Renderables(table, Text(caption, style="dim")) if full or pooled.requests < summary.succeeded else table


def coverage_table(summary: Summary) -> RenderableType:
    """Return why requests have no acceptance record; a line where all have one."""
    if not summary.drop_reasons:
        return Text(f"Every one of {plural(summary.total, 'request')} has an acceptance record.", style="dim")
    rows = (
        (str(reason), f"{count(requests)} of {count(summary.total)}", WORDS["no record"][reason])
        for reason, requests in summary.drop_reasons.items()
    )
    columns = ("<Reason", "Requests", "<Meaning")
    return table_of(columns, rows, "Requests without an acceptance record", wraps="Meaning")


def categories_table(
    categories: Mapping[str, CategorySummary], analysis: Analysis | None = None, *, full: bool = True
) -> FittingTable:
    """Return pooled acceptance per category, with intervals where there are some.

    `n` counts prompts, as it does for every interval; requests are those with a record, of those that succeeded.
    """
    more = ("length\nmean", "steps", "accepted", "proposed") if full else ()
    table = table_of(("<Category", "requests", "n", "length", "95 %", "rate %", "95 % ", *more), drops=_CATEGORY_DROPS)
    for name, category in categories.items():
        pooled, group = category.acceptance, None if analysis is None else analysis.categories.get(name)
        cells = [
            f"{count(pooled.requests)}/{count(category.requests)}",
            "–" if group is None else count(group.length.n),
            number(pooled.length),
            "–" if group is None else interval(group.length),
            number(pooled.rate_percent, 1),
            "–" if group is None else interval(group.rate, 1),
            number(category.mean_length),
            count(pooled.steps),
            count(pooled.accepted),
            "–" if pooled.proposed is None else count(pooled.proposed),
        ]
        table.add_row(Text(middle(name, 16)), *cells[: len(table.columns) - 1])
    return table.without_hollow()
