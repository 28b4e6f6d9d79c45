"""Intervals: of pooled ratios and their differences (95 %, clustered, linearised, Student's t), percentiles, shares.

A ratio is R = sum(a_i) / sum(b_i) over n clusters (requests, or conversations where there are turns). Verify steps of
one request depend on each other, so the request is what scatters, never the step.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.statistics import interval_ranks, t_quantile, wilson_interval

MIN_CLUSTERS = 5
"""With fewer, the estimate of scatter is itself noise: "n too small" is the answer."""


@dataclass(slots=True, frozen=True)
class Estimate:
    """A figure with its 95 % interval, in the figure's own unit.

    `value` is None where there is nothing to take it from; `low` and `high` are None where no interval can be given,
    and `reason` says why. `n` counts clusters.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    standard_error: float | None = None
    reason: Missing | None = None

    def scaled(self, factor: float, offset: float = 0.0) -> Estimate:
        """Return factor * figure + offset; the factor is positive."""

        def moved(value: float | None) -> float | None:
            return None if value is None else factor * value + offset

        error = None if self.standard_error is None else factor * self.standard_error
        return Estimate(moved(self.value), moved(self.low), moved(self.high), self.n, error, self.reason)

    def within(self, lowest: float = -math.inf, highest: float = math.inf) -> Estimate:
        """Return the same figure with its interval cut to what the figure can be."""
        if self.low is None or self.high is None:
            return self
        return replace(self, low=max(self.low, lowest), high=min(self.high, highest))


def missing(reason: Missing, value: float | None = None, n: int = 0) -> Estimate:
    """Return a figure without an interval, and why."""
    return Estimate(value, n=n, reason=reason)


def estimate(value: float, standard_error: float, n: int) -> Estimate:
    """Return value +- t(n - 1) * s.e.; without interval below `MIN_CLUSTERS`."""
    if n < MIN_CLUSTERS:
        return missing(Missing.TOO_FEW, value, n)
    reach = t_quantile(n - 1) * standard_error
    return Estimate(value, value - reach, value + reach, n, standard_error)


@dataclass(slots=True)
class RatioSums:
    """Running sums of a ratio's terms; enough for its interval, whatever the number of clusters.

    `add` takes one cluster: a request, or all turns of a conversation added up. Sums of whole numbers are exact.
    """

    n: int = 0
    a: float = 0
    b: float = 0
    aa: float = 0
    ab: float = 0
    bb: float = 0

    def add(self, a: float, b: float) -> None:
        """Add one cluster's numerator and denominator; one that has neither says nothing and is not counted."""
        if not a and not b:
            return
        self.n += 1
        self.a += a
        self.b += b
        self.aa += a * a
        self.ab += a * b
        self.bb += b * b

    def estimate(self) -> Estimate:
        """Return R = sum(a) / sum(b) = A / B with its interval; None where B is zero.

        The standard error is sqrt(n / (n - 1) * sum((a_i - R b_i)^2)) / B, with
        sum((a_i - R b_i)^2) = (sum(a^2) B^2 - 2 sum(ab) A B + sum(b^2) A^2) / B^2.
        """
        if not self.b:
            return missing(Missing.NO_RECORDS, n=self.n)
        if self.n < MIN_CLUSTERS:
            return missing(Missing.TOO_FEW, self.a / self.b, self.n)
        # Over a common denominator, counts stay whole numbers and nothing cancels.
        square = self.aa * self.b * self.b - 2 * self.ab * self.a * self.b + self.bb * self.a * self.a
        error = math.sqrt(max(square, 0) / (self.b * self.b) * self.n / (self.n - 1)) / self.b
        return estimate(self.a / self.b, error, self.n)


def as_length(share: Estimate) -> Estimate:
    """Return 1 + accepted / steps from the share: a length is at least 1, whatever intervals of few requests say."""
    return share.scaled(1, 1).within(lowest=1)


def as_rate(share: Estimate) -> Estimate:
    """Return accepted / proposed in percent from the share: between 0 and 100, whatever intervals say."""
    return share.scaled(100).within(0, 100)


def ratio(terms: Iterable[tuple[float, float]]) -> Estimate:
    """Return sum(a) / sum(b) over clusters (a, b), from deviations rather than sums: exact for large figures too."""
    # A cluster with neither says nothing, and counting it would make few look like many.
    numerators, denominators = _columns((a, b) for a, b in terms if a or b)
    if not any(denominators):
        return missing(Missing.NO_RECORDS, n=len(denominators))
    value, terms_of_value = _linearised(numerators, denominators)
    return estimate(value, scatter(terms_of_value), len(denominators))


def linearised(pairs: Iterable[tuple[float, float]]) -> tuple[float, array[float]]:
    """Return R = sum(a) / sum(b) and each cluster's (a_i - R b_i) / sum(b); raises ZeroDivisionError without any b."""
    return _linearised(*_columns(pairs))


def _columns(pairs: Iterable[tuple[float, float]]) -> tuple[array[float], array[float]]:
    # 16 bytes a cluster, where a list of pairs of floats takes 120.
    numerators, denominators = array("d"), array("d")
    for a, b in pairs:
        numerators.append(a)
        denominators.append(b)
    return numerators, denominators


def _linearised(numerators: array[float], denominators: array[float]) -> tuple[float, array[float]]:
    total = math.fsum(denominators)
    value = math.fsum(numerators) / total
    return value, array("d", ((a - value * b) / total for a, b in zip(numerators, denominators, strict=True)))


def scatter(terms: Sequence[float]) -> float:
    """Return the standard error of a sum of linearised terms: sqrt(n / (n - 1) * sum(u_i^2)); 0 below 2 terms.

    Linearised terms sum to zero by construction, so no mean is taken off.
    """
    n = len(terms)
    return math.sqrt(n / (n - 1) * math.fsum(term * term for term in terms)) if n > 1 else 0.0


def percentile_interval(values: Sequence[float], q: float, value: float) -> Estimate:
    """Return the percentile's 95 % interval between two of the values, free of any assumed distribution.

    `value` is the percentile itself, `q` in 0..100. None where a rank would lie outside the sample, as for the 99th
    percentile of a few requests.
    """
    n, share = len(values), q / 100
    if not 0 < share < 1 or not n:
        return missing(Missing.NO_INTERVAL, value, n)
    low, high = interval_ranks(n, share)
    if low < 1 or high + 1 > n:
        return missing(Missing.TOO_FEW_FOR_RANK, value, n)
    ordered = sorted(values)
    return Estimate(value, ordered[low - 1], ordered[high], n)


def share_interval(hits: int, n: int) -> Estimate:
    """Return hits / n with Wilson's interval; None without any."""
    return Estimate(hits / n, *wilson_interval(hits, n), n) if n else missing(Missing.NO_RECORDS)
