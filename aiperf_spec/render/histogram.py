"""Histograms of accepted drafts per verify step."""

from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from aiperf_spec.render.layout import table_of
from aiperf_spec.render.text import count

_FOLD = 8
"""Accepted counts from here on share one row on screen; files keep them apart."""
_BAR = 40
_LEVELS = "▁▂▃▄▅▆▇█"


def folded(histogram: Mapping[int, int]) -> list[tuple[str, int]]:
    """Return (label, steps) from 0 to the largest accepted count, zero buckets between them included."""
    largest = max(histogram, default=0)
    rows = [(str(bucket), histogram.get(bucket, 0)) for bucket in range(min(largest + 1, _FOLD))]
    if largest >= _FOLD:
        rows.append((f">={_FOLD}", sum(steps for bucket, steps in histogram.items() if bucket >= _FOLD)))
    return rows


def histogram_table(histogram: Mapping[int, int]) -> Table:
    """Return the pooled histogram as bars, with shares of all verify steps."""
    rows = folded(histogram)
    total = sum(steps for _, steps in rows)
    peak = max(steps for _, steps in rows)
    table = table_of(("accepted", "steps", "share %", "<"), title="Accepted drafts per verify step")
    for label, steps in rows:
        bar = "█" * round(_BAR * steps / peak) or ("▏" if steps else "")
        table.add_row(label, count(steps), f"{100 * steps / total:.1f}", Text(bar, style="cyan"))
    return table


def sparkline(histogram: Mapping[int, int]) -> str:
    """Return one character a bucket, as high as its share of the largest one; a dot for none."""
    rows = folded(histogram)
    peak = max((steps for _, steps in rows), default=0)
    return "".join(_LEVELS[-(-steps * 7 // peak)] if steps else "·" for _, steps in rows) if peak else ""
