"""Statistics of a list of values, and of very many gaps without a sorted copy of them."""

from __future__ import annotations

import math
import sys
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import mul

from aiperf_spec.models.units import NS_PER_MS

PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
STAT_NAMES = ("avg", "min", "max", "sum", *(f"p{q}" for q in PERCENTILES), "std")
"""The order of AIPerf's CSV columns."""
_SMALL = 1_000_000
"""Up to so many gaps a sorted list takes less time, and at most 40 MB."""
_SHIFT = 16


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


def statistic_of(ordered: Sequence[float], name: str) -> float | None:
    """Return a statistic of ordered values by name, percentiles from p1 to p99 included; None where there are none."""
    if ordered and name[0] == "p":
        return percentile(ordered, int(name[1:]))
    found = describe(ordered)
    return None if found is None else found.value(name)


def loop_lag(lags_ns: Iterable[int]) -> Stats | None:
    """Return the statistics, in ms, of how late the program's own event loop was; None where it was not watched."""
    return describe([lag / NS_PER_MS for lag in lags_ns])


def describe_gaps(arrays: Sequence[array[int]]) -> Stats | None:
    """Return the statistics, in ms, of gaps in ns held in many arrays; None where there are none.

    The same figures as `describe` over all gaps. A sorted list of ten million gaps would take 360 MB; this counts them
    by their upper bits first, then by their lower bits within those buckets alone in which a percentile lies.
    """
    count = sum(map(len, arrays))
    if not count:
        return None
    total = sum(map(sum, arrays))
    squares = sum(sum(map(mul, gaps, gaps)) for gaps in arrays)
    # Integers, so that nothing cancels: n * sum(x^2) - sum(x)^2.
    variance = (count * squares - total * total) / (count * count)
    ordered: Mapping[int, int] | Sequence[int]
    if count <= _SMALL:
        ordered = sorted(chain.from_iterable(arrays))
    else:
        ranks = {rank for q in PERCENTILES for rank in percentile_ranks(count, q)}
        ordered = _values_at(arrays, ranks | {0, count - 1})
    return Stats(
        count=count,
        avg=total / count / NS_PER_MS,
        min=ordered[0] / NS_PER_MS,
        max=ordered[count - 1] / NS_PER_MS,
        sum=total / NS_PER_MS,
        std=math.sqrt(variance) / NS_PER_MS,
        percentiles={q: percentile_of_ranks(ordered, count, q) / NS_PER_MS for q in PERCENTILES},
    )


def _values_at(arrays: Sequence[array[int]], ranks: set[int]) -> dict[int, int]:
    """Return the value at each rank, as if all gaps were sorted."""
    coarse: Counter[int] = Counter()
    for gaps in arrays:
        coarse.update(_upper(gaps))
    wanted = set(_counted_at(coarse, ranks).values())
    # Of buckets in which no rank lies, only how many gaps they hold matters.
    fine = Counter({bucket << _SHIFT: number for bucket, number in coarse.items() if bucket not in wanted})
    for gaps in arrays:
        fine.update([gap for gap in gaps if gap >> _SHIFT in wanted])
    return _counted_at(fine, ranks)


def _counted_at(counts: Counter[int], ranks: set[int]) -> dict[int, int]:
    values = sorted(counts)
    below = list(accumulate(counts[value] for value in values))
    return {rank: values[bisect_right(below, rank)] for rank in ranks}


def _upper(gaps: array[int]) -> Iterable[int]:
    """Return each gap's bits above the lowest 16."""
    if gaps.itemsize == 4:
        return memoryview(gaps).cast("B").cast("H")[sys.byteorder == "little" :: 2]
    return [gap >> _SHIFT for gap in gaps]
