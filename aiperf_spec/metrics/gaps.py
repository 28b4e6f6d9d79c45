"""Exact statistics of very many gaps, without a sorted copy of them."""

from __future__ import annotations

import math
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import mul

from aiperf_spec.metrics.stats import PERCENTILES, Stats, describe, percentile_of_ranks, percentile_ranks
from aiperf_spec.models.units import NS_PER_MS

_SMALL = 1_000_000
"""Up to here a sorted list takes less time, and at most 40 MB."""
_SHIFT = 16


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
        ordered = _values_at(arrays, sorted(ranks | {0, count - 1}))
    return Stats(
        count=count,
        avg=total / count / NS_PER_MS,
        min=ordered[0] / NS_PER_MS,
        max=ordered[count - 1] / NS_PER_MS,
        sum=total / NS_PER_MS,
        std=math.sqrt(variance) / NS_PER_MS,
        percentiles={q: percentile_of_ranks(ordered, count, q) / NS_PER_MS for q in PERCENTILES},
    )


def _values_at(arrays: Sequence[array[int]], ranks: list[int]) -> dict[int, int]:
    """Return the value at each of the ascending ranks, as if all gaps were sorted."""
    coarse: Counter[int] = Counter()
    for gaps in arrays:
        coarse.update(_upper(gaps))
    wanted: dict[int, list[tuple[int, int]]] = {}
    below, pending = 0, list(ranks)
    for bucket in sorted(coarse):
        above = below + coarse[bucket]
        while pending and pending[0] < above:
            rank = pending.pop(0)
            wanted.setdefault(bucket, []).append((rank, rank - below))
        below = above
    fine: Counter[int] = Counter()
    for gaps in arrays:
        fine.update([gap for gap in gaps if gap >> _SHIFT in wanted])
    values: dict[int, int] = {}
    below, bucket = 0, -1
    for value in sorted(fine):
        if value >> _SHIFT != bucket:
            below, bucket = 0, value >> _SHIFT
        below += fine[value]
        asked = wanted[bucket]
        while asked and asked[0][1] < below:
            values[asked.pop(0)[0]] = value
    return values


def _upper(gaps: array[int]) -> Iterable[int]:
    """Return each gap's bits above the lowest 16."""
    if gaps.itemsize == 4:
        return memoryview(gaps).cast("B").cast("H")[sys.byteorder == "little" :: 2]
    return [gap >> _SHIFT for gap in gaps]
