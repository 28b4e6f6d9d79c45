"""Intervals of percentiles and of shares, which are no ratios of sums."""

from __future__ import annotations

import math
from collections.abc import Sequence

from aiperf_spec.analysis import student
from aiperf_spec.analysis.intervals import Estimate, missing
from aiperf_spec.analysis.missing import Missing


def percentile_interval(values: Sequence[float], q: float, value: float) -> Estimate:
    """Return the percentile's 95 % interval between two of the values, free of any assumed distribution.

    `value` is the percentile itself, `q` in 0..100. B of n values lie below the true percentile, B ~ Bin(n, q / 100);
    the likeliest counts that make up 95 % give the ranks. None where a rank would lie outside the sample, as for the
    99th percentile of a few requests.
    """
    n, share = len(values), q / 100
    if not 0 < share < 1 or not n:
        return missing(Missing.NO_INTERVAL, value, n)
    low, high = _likeliest(n, share)
    if low < 1 or high + 1 > n:
        return missing(Missing.TOO_FEW_FOR_RANK, value, n)
    ordered = sorted(values)
    return Estimate(value, ordered[low - 1], ordered[high], n)


def _likeliest(n: int, share: float) -> tuple[int, int]:
    def mass(count: int) -> float:
        if not 0 <= count <= n:
            return 0.0
        ways = math.lgamma(n + 1) - math.lgamma(count + 1) - math.lgamma(n - count + 1)
        return math.exp(ways + count * math.log(share) + (n - count) * math.log(1 - share))

    low = high = min(n, math.floor((n + 1) * share))
    covered = mass(low)
    while covered < student.LEVEL and (low > 0 or high < n):
        below, above = mass(low - 1), mass(high + 1)
        if below > above:
            low, covered = low - 1, covered + below
        else:
            high, covered = high + 1, covered + above
    return low, high


def share_interval(hits: int, n: int) -> Estimate:
    """Return hits / n with Wilson's interval, which holds at 0 and 1 too; None without any."""
    if not n:
        return missing(Missing.NO_RECORDS)
    share, z2 = hits / n, student.NORMAL_975**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    reach = student.NORMAL_975 * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return Estimate(share, max(0.0, min(share, middle - reach)), min(1.0, max(share, middle + reach)), n)
