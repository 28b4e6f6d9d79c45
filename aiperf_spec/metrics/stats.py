"""Statistics of a list of values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
        percentiles={q: between(ordered, count, q) for q in PERCENTILES},
    )


def neighbours(count: int, q: int) -> tuple[int, int]:
    """Return the two ranks, from 0, between which the q-th percentile of `count` values lies."""
    low = (count - 1) * q // 100
    return low, min(low + 1, count - 1)


def between(ordered: Mapping[int, float] | Sequence[float], count: int, q: int) -> float:
    """Return the q-th percentile of `count` ordered values, of which those at `neighbours` are enough."""
    low, high = neighbours(count, q)
    return ordered[low] + (ordered[high] - ordered[low]) * ((count - 1) * q / 100 - low)
