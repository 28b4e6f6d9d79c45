"""The headline figures of latency, which every page shows alike."""

from __future__ import annotations

from aiperf_spec.metrics.summary import Summary
from aiperf_spec.render.text import number

_SHOWN = (("time_to_first_token", "TTFT"), ("inter_token_latency", "ITL"))


def medians(summary: Summary) -> list[tuple[str, str, str]]:
    """Return (name, median, 99th percentile) of TTFT and ITL, as cards take them; of those that the run has."""
    return [
        (f"{label}, median", f"{number(stats.value('p50'))} ms", f"p99 {number(stats.value('p99'))} ms")
        for tag, label in _SHOWN
        if (stats := summary.record_stats.get(tag)) is not None
    ]
