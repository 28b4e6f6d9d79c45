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
        percentiles={q: percentile(ordered, q) for q in PERCENTILES},
    )


def percentile(ordered: Sequence[float], q: int) -> float:
    """Return the q-th percentile of ordered values, at least one."""
    return percentile_of_ranks(ordered, len(ordered), q)


def percentile_ranks(count: int, q: int) -> tuple[int, int]:
    """Return the two ranks, from 0, between which the q-th percentile of `count` values lies."""
    low = (count - 1) * q // 100
    return low, min(low + 1, count - 1)


def percentile_of_ranks(values: Mapping[int, float] | Sequence[float], count: int, q: int) -> float:
    """Return the q-th percentile of `count` values, of which `values` holds those at `percentile_ranks` by rank."""
    low, high = percentile_ranks(count, q)
    return values[low] + (values[high] - values[low]) * ((count - 1) * q / 100 - low)
