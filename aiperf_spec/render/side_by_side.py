"""Several runs side by side."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from aiperf_spec.metrics.summary import Summary
from aiperf_spec.render.layout import add_columns, new_table
from aiperf_spec.render.text import count, middle, number


def runs_table(runs: Sequence[tuple[str, Summary]]) -> RenderableType:
    """Return one row a run: `n` is the requests with an acceptance record, of those that succeeded."""
    table = new_table("Runs side by side")
    add_columns(table, "run", right=False)
    add_columns(table, "n", "length\npooled", "length\nmean", "rate %\npooled", "steps")
    add_columns(table, "TTFT ms\np50", "ITL ms\np50", "output\ntok/s")
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
