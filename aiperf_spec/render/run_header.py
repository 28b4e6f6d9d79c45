"""What was run: the lines above the tables of a run."""

from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from aiperf_spec.analysis.answer import setup_of
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.metrics.outage import with_outage
from aiperf_spec.metrics.stats import loop_lag
from aiperf_spec.metrics.summary import Summary
from aiperf_spec.metrics.table import RECORD_BY_TAG
from aiperf_spec.models.run import DatasetInfo, RunResult
from aiperf_spec.render.answer import setup_parts
from aiperf_spec.render.clients import client_rows
from aiperf_spec.render.layout import pairs
from aiperf_spec.render.server_side import drafter_text
from aiperf_spec.render.text import cell, count, number, plural, printable


def run_table(result: RunResult, summary: Summary, *, full: bool = True) -> Table:
    """Return what was run; in full also how many requests ended how, and the throughput of those that succeeded."""
    grid = pairs("bold")
    setup = ", ".join(setup_parts(setup_of(result, summary)))
    grid.add_row("Server", Text(f"{setup} at {printable(result.url)}" if setup else printable(result.url)))
    if full:  # the answer names it too
        grid.add_row("Model", cell(result.model, 120))
    if result.drafter is not None and full:
        grid.add_row("Drafter", Text(drafter_text(result.drafter)))
    grid.add_row("Load", _load(result))
    for name, text in () if result.clients is None else client_rows(result.clients):
        grid.add_row(name, Text(text))
    counted = "the server" if result.config.tokenizer is None else "--tokenizer"
    prompts = f"{printable(result.dataset.name, 60)} ({_prompts(result.dataset)}), tokens counted by {counted}"
    grid.add_row("Prompts", Text(prompts))
    if result.config.tags:
        grid.add_row("Tags", Text(tags_text(result.config.tags)))
    if summary.objectives:
        grid.add_row("Goodput", Text(goodput_text(summary)))
    if not full:
        return grid
    grid.add_row("Outcome", _outcome(result, summary))
    values = summary.run_values
    if "benchmark_duration" in values:
        grid.add_row("Duration", f"{number(values['benchmark_duration'])} s, first start to last content")
        requests = number(values.get("request_throughput"))
        tokens = number(values.get("output_token_throughput"))
        grid.add_row("Throughput", f"{requests} requests/s, {tokens} output tokens/s")
    if "outage_duration" in values:
        grid.add_row("Outage", Text(_outage(values), style="yellow"))
    if (lag := loop_lag(result.loop_lags_ns)) is not None:
        shown = f"p50 {number(lag.value('p50'))}, p99 {number(lag.value('p99'))}, max {number(lag.max)} ms"
        grid.add_row("Client lag", shown)
    return grid


def tags_text(tags: Mapping[str, str]) -> str:
    """Return the tags of a run in words: "step 3000, data v2"."""
    return ", ".join(printable(f"{name} {value}", 80) for name, value in tags.items())


def goodput_text(summary: Summary) -> str:
    """Return the requests a second that met the objectives, and how many did, in words."""
    values = summary.run_values
    good, ended = int(values.get("good_request_count", 0)), summary.succeeded + summary.failed
    words = []
    for tag, limit in summary.objectives.items():
        unit = RECORD_BY_TAG[tag].unit if tag in RECORD_BY_TAG else ""
        # As `Objective`: of durations the limit is an upper one.
        words.append(f"{tag} {'<=' if unit == 'ms' else '>='} {limit:g}{' ms' if unit == 'ms' else ''}")
    rate = number(values.get("goodput"))
    return f"{rate} requests/s: {count(good)} of {plural(ended, 'request')} met {' and '.join(words)}"


def _outage(values: Mapping[str, float]) -> str:
    took = f"no request succeeded for {number(values['outage_duration'])} s, and requests failed in that time"
    if (whole := with_outage(values)) is None:
        return f"{took}; the throughput includes it"
    served, share = values["benchmark_duration"], values["benchmark_duration"] / whole
    rates = [f"{number(values['request_throughput'] * share)} requests/s"]
    if (tokens := values.get("output_token_throughput")) is not None:
        rates.append(f"{number(tokens * share)} output tokens/s")
    return f"{took}. The throughput is of {number(served)} s; over all {number(whole)} s it is {', '.join(rates)}"


def _prompts(dataset: DatasetInfo) -> str:
    if dataset.entries is None:
        number = "streamed"
    elif dataset.has_conversations and dataset.turns is not None:
        number = f"{plural(dataset.entries, 'conversation')}, {plural(dataset.turns, 'turn')}"
    else:
        number = count(dataset.entries)
    return number if dataset.type is None else f"{number}, {dataset.type}"


def _load(result: RunResult) -> str:
    config = result.config
    # What a rate starts is a conversation; how many requests a second that makes, the throughput says.
    conversations = result.dataset.has_conversations or any(record.turn_index for record in result.records)
    parts = [config.endpoint_type, "streaming" if config.streaming else "not streaming"]
    parts += load_parts(config, "conversations" if conversations else "requests")
    if config.warmup_request_count:
        parts.append(f"{plural(config.warmup_request_count, 'warm-up request')} apart")
    return ", ".join(parts)


def load_parts(config: ProfileConfig, started: str = "requests") -> list[str]:
    """Return in words how requests were sent; `started` is what a rate starts."""
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
    if config.share is not None:
        parts.append(f"share {config.share} of them")
    if config.workers > 1:
        parts.append(f"{config.workers} workers")
    return parts


def _outcome(result: RunResult, summary: Summary) -> Text:
    text = Text(f"{count(summary.succeeded)} of {plural(summary.due, 'request')} succeeded")
    if summary.failed:
        text.append(f", {count(summary.failed)} failed", style="red")
    if summary.cancelled:
        text.append(f", {count(summary.cancelled)} cancelled", style="yellow")
    if summary.unsent:
        text.append(f", {count(summary.unsent)} never sent", style="red")
    if result.stopped_by is not None:
        text.append(f" (stopped early by {result.stopped_by})", style="yellow")
    return text
