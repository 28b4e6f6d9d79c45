"""Several runs in one table, a row each."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from aiperf_spec.analysis.answer import Setup
from aiperf_spec.metrics.summary import Summary
from aiperf_spec.render.answer import setup_parts
from aiperf_spec.render.layout import FittingTable, table_of
from aiperf_spec.render.text import broken, count, middle, number

_DROPS = ("rate\n%", "TTFT ms\np50", "output\ntok/s", "ITL ms\np50", "server")


@dataclass(slots=True, frozen=True)
class RunRow:
    """A run of the table: its label, what its server ran, and its figures."""

    label: str
    setup: Setup
    summary: Summary


def runs_table(runs: Sequence[RunRow]) -> FittingTable:
    """Return one row a run: `n` is the requests with an acceptance record, of those that succeeded.

    Length and rate are pooled. Engine, version, drafter and k stand where the server or its responses say them.
    """
    columns = ("<Run", "<server", "k", "n", "length", "rate\n%", "output\ntok/s", "TTFT ms\np50", "ITL ms\np50")
    table = table_of(columns, title="Runs side by side", drops=_DROPS)
    for run in runs:
        pooled = run.summary.acceptance
        server = setup_parts(run.setup, with_length=False)
        table.add_row(
            Text("\n".join(broken(run.label, 24))),
            Text("\n".join(middle(part, 24) for part in server) or "–"),
            ", ".join(map(str, run.setup.draft_lengths)) or "–",
            f"{count(pooled.requests)}/{count(run.summary.succeeded)}",
            number(pooled.length),
            number(pooled.rate_percent, 1),
            number(run.summary.run_values.get("output_token_throughput")),
            number(_median(run.summary, "time_to_first_token"), 1),
            number(_median(run.summary, "inter_token_latency")),
        )
    return table.without_hollow()


def _median(summary: Summary, tag: str) -> float | None:
    stats = summary.record_stats.get(tag)
    return None if stats is None else stats.value("p50")
