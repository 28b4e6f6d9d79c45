"""A run's summary in GitHub's Markdown, such as for `$GITHUB_STEP_SUMMARY`."""

from collections.abc import Iterator, Sequence

from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.analysis.report import Analysis
from aiperf_spec.artifacts.write.matrix_formats import escaped, markdown_row
from aiperf_spec.metrics.summary import Summary
from aiperf_spec.metrics.table import RECORD_BY_TAG
from aiperf_spec.render.missing import figure, interval
from aiperf_spec.render.text import count, number, plural, printable
from aiperf_spec.render.words import WORDS

_TIMES = ("time_to_first_token", "inter_token_latency", "request_latency")
_HEADER = ("Figure", "Value", "95 % interval", "n")


def markdown_summary(
    analysis: Analysis, summary: Summary, *, title: str, setup: Sequence[str], category: str | None = None
) -> bytes:
    """Return a heading, what was run (`setup`), and tables: figures, categories, positions; then what has no record."""
    of = "" if category is None else f", {printable(category, 60)}"
    parts = [f"### Speculative decoding: {escaped(printable(title, 120))}{escaped(of)}"]
    if setup:
        parts.append(escaped(printable(", ".join(setup), 400)))
    parts += [_table(_HEADER, _figures(analysis, summary)), *_outcome(summary)]
    if analysis.categories and category is None:
        head = ("Category", "Acceptance length", "95 % interval", "Draft acceptance", "n")
        rows = [
            [
                printable(name, 60),
                figure(group.length),
                interval(group.length),
                _percent(group.rate, 1.0),
                _n(group.length, group.requests),
            ]
            for name, group in analysis.categories.items()
        ]
        parts.append(_table(head, rows))
    if positions := analysis.run.curve.positions:
        head = ("Draft token", "Accepted with all before it", "95 % interval", "Where all before it are", "n")
        rows = [
            [
                str(each.position),
                _percent(each.survival),
                interval(each.survival, 1, 100),
                _percent(each.conditional),
                f"{plural(each.survival.n, 'prompt')}, {plural(each.steps, 'step')}",
            ]
            for each in positions
        ]
        parts.append(_table(head, rows))
    return ("\n\n".join(parts) + "\n").encode("utf-8", "replace")


def _figures(analysis: Analysis, summary: Summary) -> Iterator[list[str]]:
    run = analysis.run
    yield ["Acceptance length", figure(run.length), interval(run.length), _n(run.length, run.requests)]
    yield ["Draft acceptance rate", _percent(run.rate, 1.0), interval(run.rate, 1), _n(run.rate, run.requests)]
    for name, each, factor in (
        ("Tokens per decode step", analysis.tokens_per_decode_step, 1.0),
        ("Decode steps with a draft (%)", analysis.drafted_share, 100.0),
    ):
        if each.value is not None:
            yield [name, figure(each, 2, factor), interval(each, 2, factor), _n(each, None)]
    for metric in (RECORD_BY_TAG[tag] for tag in _TIMES):
        if (stats := summary.record_stats.get(metric.tag)) is not None:
            shown = f"p50 {number(stats.value('p50'))}, p99 {number(stats.value('p99'))}"
            yield [f"{metric.header} ({metric.unit})", shown, "", plural(stats.count, "request")]
    if (tokens := summary.run_values.get("output_token_throughput")) is not None:
        yield ["Output tokens/s", number(tokens), "", plural(summary.succeeded, "request")]


def _outcome(summary: Summary) -> Iterator[str]:
    failed = "".join(
        f", {count(number_of)} {word}"
        for number_of, word in ((summary.failed, "failed"), (summary.cancelled, "cancelled"))
        if number_of
    )
    yield f"{count(summary.succeeded)} of {plural(summary.total, 'request')} succeeded{failed}."
    if summary.drop_reasons:
        reasons = (f"{count(times)} {WORDS['no record'][reason]}" for reason, times in summary.drop_reasons.items())
        yield escaped(f"Without an acceptance record: {'; '.join(reasons)}.")


def _percent(estimate: Estimate, factor: float = 100.0) -> str:
    return "" if estimate.value is None else f"{figure(estimate, 1, factor)} %"


def _n(estimate: Estimate, requests: int | None) -> str:
    prompts = plural(estimate.n, "prompt")
    return prompts if requests is None else f"{prompts}, {plural(requests, 'request')}"


def _table(head: Sequence[str], rows: "Iterator[list[str]] | list[list[str]]") -> str:
    lines = [markdown_row(head), markdown_row(["---", *["--:"] * (len(head) - 1)])]
    return "\n".join([*lines, *map(markdown_row, rows)])
