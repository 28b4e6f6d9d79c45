"""The engine's own timing of requests beside what was measured here."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Group as Renderables
from rich.console import RenderableType
from rich.text import Text

from aiperf_spec.metrics.latency import inter_token_latency, request_latency, time_to_first_token
from aiperf_spec.metrics.stats import describe
from aiperf_spec.metrics.table import RECORD_METRICS, Group
from aiperf_spec.models.run import RequestRecord, RunResult
from aiperf_spec.render.layout import table_of
from aiperf_spec.render.text import count, number

_CAPTION = (
    "The server's TTFT begins when a request is scheduled, after the queue; ours holds the queue, tokenisation, the "
    "network and both programs too."
)


def server_timing_table(result: RunResult) -> RenderableType | None:
    """Return the medians of both sides over the requests whose response had the server's; None where none had."""
    timed = [record for record in result.profiled() if record.succeeded and record.server_timing is not None]
    if not timed:
        return None
    table = table_of(("<", "n", "server", "here"), title="Server-side timing, medians")
    for metric in RECORD_METRICS:
        if metric.group is not Group.SERVER:
            continue
        values = [(record, metric.value(record)) for record in timed]
        known = [(record, value) for record, value in values if isinstance(value, float | int)]
        theirs = describe([value for _, value in known])
        if theirs is None:
            continue
        measure = _OURS.get(metric.tag)
        ours = None if measure is None else describe([v for r, _ in known if (v := measure(r)) is not None])
        unit = " (ms)" if metric.unit == "ms" else ""
        here = "–" if ours is None else number(ours.value("p50"))
        table.add_row(f"{metric.label}{unit}", count(theirs.count), number(theirs.value("p50")), here)
    return Renderables(table, Text(_CAPTION, style="dim"))


def _generation_time(record: RequestRecord) -> float | None:
    first, latency = time_to_first_token(record), request_latency(record)
    return None if first is None or latency is None else latency - first


def _tokens_per_second(record: RequestRecord) -> float | None:
    latency = request_latency(record)
    return None if not latency or record.output_tokens is None else record.output_tokens / latency * 1000


_OURS: dict[str, Callable[[RequestRecord], float | None]] = {
    "server_time_to_first_token": time_to_first_token,
    "server_generation_time": _generation_time,
    "server_inter_token_latency": inter_token_latency,
    "server_output_token_throughput_per_user": _tokens_per_second,
}
