"""Student's t and the normal distribution, without a library of numbers."""

from __future__ import annotations

import math
from functools import lru_cache

NORMAL_975 = 1.959963984540054
"""The normal distribution's 97.5th percentile."""
LEVEL = 0.95
"""The level of every interval that the program gives."""

_TINY = 1e-300
_PRECISE = 1e-15


@lru_cache(maxsize=1024)
def quantile(df: int, level: float = LEVEL) -> float:
    """Return t with P(|T| <= t) = level at `df` degrees of freedom; to 1e-10.

    Raises ValueError for a level outside 0..1 or fewer than 1 degree of freedom.
    """
    if df < 1 or not 0 < level < 1:
        raise ValueError(f"no quantile at level {level} and {df} degrees of freedom")
    low, high = 0.0, 1.0
    while two_sided_p(high, df) > 1 - level:
        low, high = high, high * 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if two_sided_p(middle, df) > 1 - level else (low, middle)
    return (low + high) / 2


def two_sided_p(t: float, df: float) -> float:
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
    # Lentz's method; converges within O(sqrt(max(a, b))) terms on the side that the caller chose.
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 10_000):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _not_zero(1 + numerator * d)
            c = _not_zero(1 + numerator / c)
            step = d * c
            value *= step
        if abs(step - 1) < _PRECISE:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
