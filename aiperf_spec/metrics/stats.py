"""Statistics of a list of values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
STAT_NAMES = ("avg", "min", "max", "sum", *(f"p{q}" for q in PERCENTILES), "std")
"""The order of AIPerf's CSV columns."""


@dataclass(slots=True, frozen=True)
class Stats:
    """Statistics of `count` values, in the values' unit. `std` is the population's (divided by count)."""

    count: int
    avg: float
    min: float
    max: float
    sum: float
    std: float
    percentiles: dict[int, float]

    def value(self, name: str) -> float:
        """Return a statistic by its name in `STAT_NAMES`."""
        if name[0] == "p" and name[1:].isdigit():
            return self.percentiles[int(name[1:])]
        return float(getattr(self, name))


def describe(values: Sequence[float]) -> Stats | None:
    """Return the statistics of the values; None where there are none.

    Percentiles interpolate linearly between the two nearest ranks, as NumPy's default does.
    """
    if not values:
        return None
    ordered = sorted(values)
    count = len(ordered)
    total = math.fsum(ordered)
    mean = total / count
    variance = math.fsum((value - mean) ** 2 for value in ordered) / count
    return Stats(
        count=count,
        avg=mean,
        min=ordered[0],
        max=ordered[-1],
        sum=total,
        std=math.sqrt(variance),
        percentiles={q: _percentile(ordered, q) for q in PERCENTILES},
    )


def _percentile(ordered: list[float], q: float) -> float:
    rank = (len(ordered) - 1) * q / 100
    low = math.floor(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)
