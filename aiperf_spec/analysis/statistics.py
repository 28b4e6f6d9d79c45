"""Statistics of plain numbers: Student's t, ranks and shares, correlation, Holm's correction.

Written out, because SciPy takes longer to import than a short run; tests hold them against SciPy and statsmodels.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from statistics import StatisticsError, correlation

NORMAL_975 = 1.959963984540054
"""The normal distribution's 97.5th percentile."""
LEVEL = 0.95
"""The level of every interval that the program gives."""

_TINY = 1e-300
_PRECISE = 1e-15
_LARGEST_LOG = 350.0
"""Of a t whose square is still a float."""


@lru_cache(maxsize=1024)
def t_quantile(df: float) -> float:
    """Return t with P(|T| <= t) = 0.95 at `df` degrees of freedom, whole or not; to a relative 1e-8.

    Infinite where it is too large for a float. Raises ValueError without a positive `df`.
    """
    if not df > 0:
        raise ValueError(f"no quantile at {df} degrees of freedom")
    # Newton's method on log p as a function of log t, which is concave: from its second value on it comes down.
    log_t, target = 0.0, math.log(1 - LEVEL)
    log_density_at_0 = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - math.log(df * math.pi) / 2
    for _ in range(100):
        t = math.exp(log_t)
        p = t_two_sided_p(t, df)
        density = math.exp(log_density_at_0 - (df + 1) / 2 * math.log1p(t * t / df))
        step = (math.log(p) - target) * p / (2 * t * density)
        log_t += step
        if log_t > _LARGEST_LOG:
            return math.inf
        if abs(step) < 1e-12:
            break
    return math.exp(log_t)


def t_two_sided_p(t: float, df: float) -> float:
    """Return P(|T| >= |t|) at `df` degrees of freedom: I(df / (df + t^2); df / 2, 1 / 2)."""
    if math.isinf(t):
        return 0.0
    square = t * t
    return _incomplete_beta(df / (df + square), square / (df + square), df / 2, 0.5)


def _incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    # `rest` is 1 - x, handed in because subtracting would lose the digits of a small one.
    if x <= 0 or rest <= 0:
        return 0.0 if x <= 0 else 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    front = math.exp(log_front)
    if x < (a + 1) / (a + b + 2):
        return front * _continued_fraction(x, a, b) / a
    return 1 - front * _continued_fraction(rest, b, a) / b


def _continued_fraction(x: float, a: float, b: float) -> float:
    # Lentz's method; converges within O(sqrt(max(a, b))) terms on the side that the caller chose. What would
    # be zero is taken as something tiny, so that nothing is divided by zero.
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or _TINY)
    value = d
    for m in range(1, 10_000):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + numerator * d or _TINY)
            c = 1 + numerator / c or _TINY
            step = d * c
            value *= step
        if abs(step - 1) < _PRECISE:
            break
    return value


def interval_ranks(n: int, share: float) -> tuple[int, int]:
    """Return the likeliest counts of n values, lowest and highest, below the true percentile: B ~ Bin(n, share).

    They make up at least 95 %; `share` is the percentile / 100.
    """

    def mass(count: int) -> float:
        if not 0 <= count <= n:
            return 0.0
        ways = math.lgamma(n + 1) - math.lgamma(count + 1) - math.lgamma(n - count + 1)
        return math.exp(ways + count * math.log(share) + (n - count) * math.log(1 - share))

    low = high = min(n, math.floor((n + 1) * share))
    covered = mass(low)
    while covered < LEVEL and (low > 0 or high < n):
        below, above = mass(low - 1), mass(high + 1)
        if below > above:
            low, covered = low - 1, covered + below
        else:
            high, covered = high + 1, covered + above
    return low, high


def wilson_interval(hits: float, n: float) -> tuple[float, float]:
    """Return Wilson's 95 % interval of the share hits / n, which holds at 0 and 1 too; n is positive, whole or not."""
    share, z2 = hits / n, NORMAL_975**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    reach = NORMAL_975 * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, min(share, middle - reach)), min(1.0, max(share, middle + reach))


def spearman(xs: array[float], ys: array[float]) -> float | None:
    """Return Spearman's rank correlation; None where one of the two is the same everywhere."""
    try:
        return correlation(_ranks(xs), _ranks(ys))
    except StatisticsError:
        return None


def _ranks(values: array[float]) -> array[float]:
    # Equal values share the mean of their ranks, counted from 0.
    ordered = array("d", sorted(values))
    return array("d", ((bisect_left(ordered, value) + bisect_right(ordered, value) - 1) / 2 for value in values))


def sign_test(fewer: int, more: int) -> float:
    """Return the two-sided p of as many signs one way and the other, where each is as likely (exact; ties left out)."""
    n, least = fewer + more, min(fewer, more)
    ways = sum(math.comb(n, i) for i in range(least + 1))
    return min(1.0, 2 * ways / (1 << n))


def holm_adjusted(p_values: Sequence[float], weights: Sequence[float] | None = None) -> list[float]:
    """Return Holm's adjusted p-values for many comparisons, in the order given.

    In the order of p / weight, each is p / weight * (sum of the weights not yet passed), and at least the one before
    it. Judged against 0.05, the chance of a single false finding among all is at most 5 %, however they depend on each
    other. A test with half of all weight is corrected by 2, whatever the number of the others. Weights are positive;
    left out, all are 1.
    """
    weights = [1.0] * len(p_values) if weights is None else weights
    order = sorted(range(len(p_values)), key=lambda index: p_values[index] / weights[index])
    result = [0.0] * len(p_values)
    largest, left = 0.0, sum(weights)
    for index in order:
        largest = max(largest, min(1.0, p_values[index] / weights[index] * left))
        result[index] = largest
        left -= weights[index]
    return result
