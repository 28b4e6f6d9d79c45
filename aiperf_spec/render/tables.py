"""The tables of a run."""

from collections.abc import Iterator, Sequence

from rich.console import Group as Renderables
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.metrics.stats import Stats, loop_lag
from aiperf_spec.metrics.summary import CategorySummary, Summary
from aiperf_spec.metrics.table import RECORD_METRICS, RUN_METRICS, Group, RecordMetric, RunMetric
from aiperf_spec.models.decoding import some_undrafted
from aiperf_spec.models.run import DatasetInfo, RunResult
from aiperf_spec.render.draft_totals import totals_table
from aiperf_spec.render.histogram import histogram_table
from aiperf_spec.render.layout import Part, spaced, table_of
from aiperf_spec.render.requests import requests_table
from aiperf_spec.render.server_side import (
    drafter_text,
    reconciliation_table,
    server_acceptance_table,
    server_timing_table,
)
from aiperf_spec.render.text import cell, count, middle, narrow, number, plural, printable
from aiperf_spec.render.words import WORDS
from aiperf_spec.wire.remedies import remedy

_COLUMNS = ("avg", "min", "max", "p99", "p90", "p50", "std")
_UNDRAFTED = ("tokens_per_decode_step", "drafted_share")
_SCHEDULED = {"scheduled_latency", "schedule_lag"}
_PER_USER = "output_token_throughput_per_user"
_BETWEEN_TOKENS = {"inter_token_latency", "inter_chunk_latency", _PER_USER}
_AT_MEAN_ITL = next(metric for metric in RUN_METRICS if metric.group is Group.LATENCY)
_POOLED = ("length\npooled", "length\nmean", "rate %\npooled")


def run_report(result: RunResult, summary: Summary, *, rows: int) -> RenderableType:
    """Return everything that a run prints on stdout, at most `rows` single requests among it."""
    return spaced(_parts(result, summary, rows))


def brief_report(result: RunResult, summary: Summary) -> RenderableType:
    """Return the acceptance table alone; where nothing succeeded, what failed."""
    if summary.errors and not summary.succeeded:
        return errors_table(summary, has_key=bool(result.config.api_key))
    return _acceptance(result, summary)


def _acceptance(result: RunResult, summary: Summary) -> RenderableType:
    counted = None if summary.acceptance.requests else result.reconciliation
    return acceptance_table(summary) if counted is None else server_acceptance_table(counted, summary.succeeded)


def _parts(result: RunResult, summary: Summary, rows: int) -> Iterator[Part]:
    yield lambda: run_table(result, summary)
    if summary.errors:
        yield lambda: errors_table(summary, has_key=bool(result.config.api_key))
    if not summary.succeeded:
        return
    yield lambda: latency_table(summary)
    yield lambda: server_timing_table(result)
    yield lambda: _acceptance(result, summary)
    yield lambda: totals_table(result, summary)
    if summary.acceptance.steps:
        yield lambda: histogram_table(summary.acceptance.histogram)
    yield lambda: coverage_table(summary)
    if (found := result.reconciliation) is not None:
        yield lambda: reconciliation_table(found)
    if summary.categories:
        yield lambda: categories_table(summary.categories)
    if rows:
        yield lambda: requests_table(result, rows)


def run_table(result: RunResult, summary: Summary) -> RenderableType:
    """Return what was run, how many requests ended how, and the throughput of those that succeeded."""
    config = result.config
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    grid.add_row("Model", cell(result.model, 120))
    if result.drafter is not None:
        grid.add_row("Drafter", Text(drafter_text(result.drafter)))
    how = "streaming" if config.streaming else "not streaming"
    grid.add_row("Requests to", Text(f"{printable(result.url)}, {config.endpoint_type}, {how}"))
    warmup = f", {plural(config.warmup_request_count, 'warm-up request')} apart" if config.warmup_request_count else ""
    # What a rate starts is a conversation; how many requests a second that makes, the throughput says.
    conversations = result.dataset.has_conversations or any(record.turn_index for record in result.records)
    grid.add_row("Load", f"{_load(config, 'conversations' if conversations else 'requests')}{warmup}")
    grid.add_row("Prompts", Text(f"{printable(result.dataset.name, 60)} ({_prompts(result.dataset)})"))
    grid.add_row("Outcome", _outcome(result, summary))
    values = summary.run_values
    if "benchmark_duration" in values:
        grid.add_row("Duration", f"{number(values['benchmark_duration'])} s, first start to last content")
        requests = number(values.get("request_throughput"))
        tokens = number(values.get("output_token_throughput"))
        grid.add_row("Throughput", f"{requests} requests/s, {tokens} output tokens/s")
    if (lag := loop_lag(result.loop_lags_ns)) is not None:
        shown = f"p50 {number(lag.value('p50'))}, p99 {number(lag.value('p99'))}, max {number(lag.max)} ms"
        grid.add_row("Client lag", shown)
    return grid


def _prompts(dataset: DatasetInfo) -> str:
    if dataset.entries is None:
        number = "streamed"
    elif dataset.has_conversations and dataset.turns is not None:
        number = f"{plural(dataset.entries, 'conversation')}, {plural(dataset.turns, 'turn')}"
    else:
        number = count(dataset.entries)
    return number if dataset.type is None else f"{number}, {dataset.type}"


def _load(config: ProfileConfig, started: str) -> str:
    parts = []
    if config.request_rate is not None:
        parts.append(f"{config.request_rate:g} {started}/s, {config.arrival_pattern}")
    if config.fixed_schedule:
        first, last = config.fixed_schedule_start_offset, config.fixed_schedule_end_offset
        parts.append("fixed schedule")
        parts += [f"from {first:,} ms"] if first is not None else []
        parts += [f"to {last:,} ms"] if last is not None else []
    if config.concurrency_cap is not None:
        parts.append(f"concurrency {'at most ' if parts else ''}{config.concurrency_cap}")
    if config.benchmark_duration is not None:
        parts.append(f"for {config.benchmark_duration:g} s")
    if config.workers > 1:
        parts.append(f"{config.workers} workers")
    return ", ".join(parts)


def _outcome(result: RunResult, summary: Summary) -> Text:
    text = Text(f"{count(summary.succeeded)} of {plural(summary.total + summary.unsent, 'request')} succeeded")
    if summary.failed:
        text.append(f", {count(summary.failed)} failed", style="red")
    if summary.cancelled:
        text.append(f", {count(summary.cancelled)} cancelled", style="yellow")
    if summary.unsent:
        text.append(f", {count(summary.unsent)} never sent", style="red")
    if result.stopped_by is not None:
        text.append(f" (stopped early by {result.stopped_by})", style="yellow")
    return text


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


def _stats_table(title: str, better: str) -> Table:
    heading = Text.assemble((title, "bold"), (f"  {better}", "not bold dim"))
    return table_of(("<Metric", "n", *_COLUMNS), title=heading)


def _label(metric: RecordMetric | RunMetric) -> str:
    return f"{metric.label} ({metric.unit})" if metric.unit in ("ms", "%") else metric.label


def _stats_row(table: Table, label: str, stats: Stats) -> None:
    table.add_row(label, count(stats.count), *(narrow(stats.value(name)) for name in _COLUMNS))


def latency_table(summary: Summary) -> RenderableType:
    """Return the latencies of successful requests; a metric that no request has says so."""
    table = _stats_table("Latency", "times: lower is better")
    for metric in RECORD_METRICS:
        if metric.group is not Group.LATENCY:
            continue
        label = _label(metric) + (" *" if summary.in_clumps and metric.tag in _BETWEEN_TOKENS else "")
        label += " †" if summary.unsent and metric.tag in _SCHEDULED else ""
        if (stats := summary.record_stats.get(metric.tag)) is not None:
            _stats_row(table, label, stats)
            # Beside the mean of the requests' own, which a few fast ones can draw far up.
            if metric.tag == _PER_USER and (at_mean := summary.run_values.get(_AT_MEAN_ITL.tag)) is not None:
                table.add_row(_AT_MEAN_ITL.label, count(stats.count), narrow(at_mean), *("" for _ in _COLUMNS[1:]))
        elif not metric.optional:
            table.add_row(label, "0", *("–" for _ in _COLUMNS), style="dim")
    notes = []
    if summary.in_clumps:
        streams = plural(summary.in_clumps, "stream")
        notes.append(f"* {streams} arrived in clumps: such times are a buffer's, not the engine's.")
    if summary.unsent and summary.record_stats.keys() & _SCHEDULED:
        notes.append(f"† Only of requests that were sent: {count(summary.unsent)} more were due and never sent.")
    return Renderables(table, *(Text(note, style="dim") for note in notes))


def acceptance_table(summary: Summary) -> RenderableType:
    """Return acceptance: means over requests, then the figures in which every verify step weighs the same."""
    pooled = summary.acceptance
    head = Text(f"{count(pooled.requests)} of {plural(summary.succeeded, 'successful request')} reported acceptance")
    if not pooled.requests:
        return Text.assemble(("Acceptance\n", "bold"), head)
    table = _stats_table("Acceptance", "length and rate: higher is better")
    for metric in RECORD_METRICS:
        if metric.group is Group.ACCEPTANCE and (stats := summary.record_stats.get(metric.tag)) is not None:
            _stats_row(table, _label(metric), stats)
    table.add_section()
    left_out = () if some_undrafted(summary.run_values.get("drafted_share")) else _UNDRAFTED
    for run_metric in RUN_METRICS:
        value = None if run_metric.tag in left_out else summary.run_values.get(run_metric.tag)
        if run_metric.group is Group.ACCEPTANCE and value is not None:
            decimals = 0 if run_metric.unit in ("count", "tokens") else 2
            blanks = ("" for _ in _COLUMNS[1:])
            table.add_row(_label(run_metric), count(pooled.requests), number(value, decimals), *blanks, style="bold")
    caption = Text.assemble(head, ". Rows above the line average requests; ")
    caption.append("pooled and total rows weigh every verify step the same.")
    return Renderables(table, Text(caption.plain, style="dim"))


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


def categories_table(categories: dict[str, CategorySummary]) -> Table:
    """Return acceptance per category; `n` is the requests with a record, of those that succeeded."""
    columns = ("<Category", "n", *_POOLED, "steps", "accepted", "proposed")
    table = table_of(columns, title="Acceptance per category")
    for name, category in categories.items():
        pooled = category.acceptance
        table.add_row(
            Text(middle(name, 16)),
            f"{count(pooled.requests)}/{count(category.requests)}",
            number(pooled.length),
            number(category.mean_length),
            number(pooled.rate_percent),
            count(pooled.steps),
            count(pooled.accepted),
            "–" if pooled.proposed is None else count(pooled.proposed),
        )
    return table


def runs_table(runs: Sequence[tuple[str, Summary]]) -> Table:
    """Return one row a run: `n` is the requests with an acceptance record, of those that succeeded."""
    columns = ("<run", "n", *_POOLED, "steps", "TTFT ms\np50", "ITL ms\np50", "output\ntok/s")
    table = table_of(columns, title="Runs side by side")
    for name, summary in runs:
        pooled = summary.acceptance
        table.add_row(
            Text(middle(name, 20)),
            f"{count(pooled.requests)}/{count(summary.succeeded)}",
            number(pooled.length),
            number(_stat(summary, "spec_decode_acceptance_length", "avg")),
            number(pooled.rate_percent),
            count(pooled.steps),
            number(_stat(summary, "time_to_first_token", "p50")),
            number(_stat(summary, "inter_token_latency", "p50")),
            number(summary.run_values.get("output_token_throughput")),
        )
    return table


def _stat(summary: Summary, tag: str, name: str) -> float | None:
    stats = summary.record_stats.get(tag)
    return None if stats is None else stats.value(name)
