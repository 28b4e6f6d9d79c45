"""Intervals at 95 %, over prompts: of pooled ratios, percentiles, shares, and their differences.

A ratio is R = sum(a_i) / sum(b_i) over n clusters: prompts, each with all its turns and repeats. Its standard error is
that of the delete-one jackknife, its quantile Student's at n_eff - 1, n_eff = sum(b)^2 / sum(b^2): where few prompts
hold most of the steps, few are what is known.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from aiperf_spec.analysis.clusters import Terms, added_up
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.statistics import NORMAL_975, interval_ranks, t_quantile, wilson_interval

MIN_CLUSTERS = 5
"""With fewer, the estimate of scatter is itself noise: "n too small" is the answer."""
NOISE = 1e-12
"""A relative difference that is arithmetic's, not the run's."""


@dataclass(slots=True, frozen=True)
class Estimate:
    """A figure with its 95 % interval, in the figure's own unit.

    `value` is None where there is nothing to take it from; `low` or `high` is None where that end cannot be given, and
    `reason` says why. `n` counts prompts.
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
        low = None if self.low is None else max(self.low, lowest)
        high = None if self.high is None else min(self.high, highest)
        return replace(self, low=low, high=high)

    @property
    def has_interval(self) -> bool:
        """Whether both ends are given."""
        return self.low is not None and self.high is not None


def missing(reason: Missing, value: float | None = None, n: int = 0) -> Estimate:
    """Return a figure without an interval, and why."""
    return Estimate(value, n=n, reason=reason)


def estimate(
    value: float, standard_error: float, n: int, df: float, *, size: float | None = None, fewest: int = MIN_CLUSTERS
) -> Estimate:
    """Return value +- t(df) * s.e.; without interval below `fewest` clusters, without scatter, and without freedom.

    `size` is what scatter is small beside, the value itself unless given.
    """
    if n < fewest:
        return missing(Missing.TOO_FEW, value, n)
    if standard_error <= NOISE * (abs(value) if size is None else size):
        return missing(Missing.NO_SPREAD, value, n)
    reach = t_quantile(df) * standard_error if df > 0 else math.inf
    if math.isinf(reach):
        return missing(Missing.ONE_PROMPT, value, n)
    return Estimate(value, value - reach, value + reach, n, standard_error)


@dataclass(slots=True, frozen=True)
class Ratio:
    """R = sum(a) / sum(b) over n clusters, and how it scatters.

    `terms` are (a_i - R b_i) / (sum(b) - b_i): R less what it is without cluster i. Terms of two figures over the same
    clusters add up to those of the figures' difference.
    """

    value: float
    terms: array[float]
    df: float
    """n_eff - 1."""

    @property
    def n(self) -> int:
        """The number of clusters."""
        return len(self.terms)

    @property
    def standard_error(self) -> float:
        """The delete-one jackknife's."""
        return scatter(self.terms)

    def log_term(self, term: float) -> float:
        """Return the term that belongs to log R; 0 where the ratio without the cluster has no logarithm."""
        left = 1 - term / self.value
        return -math.log(left) if left > 0 else 0.0

    def estimate(self) -> Estimate:
        """Return the ratio with its interval."""
        return estimate(self.value, self.standard_error, self.n, self.df)


def as_length(share: Estimate) -> Estimate:
    """Return 1 + accepted / steps from the share: a length is at least 1, whatever intervals of few prompts say."""
    return share.scaled(1, 1).within(lowest=1)


def as_rate(share: Estimate) -> Estimate:
    """Return accepted / proposed in percent from the share: between 0 and 100, whatever intervals say."""
    return share.scaled(100).within(0, 100)


def ratio(terms: Iterable[Terms]) -> Estimate:
    """Return sum(a) / sum(b) over clusters (a, b), with its interval."""
    # A cluster with neither says nothing, and counting it would make few look like many.
    pairs = [(a, b) for a, b in terms if a or b]
    return linearised(pairs).estimate() if any(b for _, b in pairs) else missing(Missing.NO_RECORDS, n=len(pairs))


def linearised(pairs: Iterable[Terms]) -> Ratio:
    """Return the ratio of clusters (a, b); raises ZeroDivisionError without any b."""
    pairs = list(pairs)
    total = math.fsum(b for _, b in pairs)
    value = math.fsum(a for a, _ in pairs) / total
    terms = array("d", ((a - value * b) / (total - b) if total > b else 0.0 for a, b in pairs))
    return Ratio(value, terms, effective_number(b for _, b in pairs) - 1)


def effective_number(weights: Iterable[float]) -> float:
    """Return Kish's effective number of clusters, sum(b)^2 / sum(b^2): how many equal ones know as much."""
    weights = list(weights)
    return math.fsum(weights) ** 2 / math.fsum(weight * weight for weight in weights)


def scatter(terms: Sequence[float]) -> float:
    """Return the jackknife's standard error, sqrt((n - 1) / n * sum((u_i - mean)^2)), from its terms; 0 below 2."""
    n = len(terms)
    if n < 2:
        return 0.0
    mean = math.fsum(terms) / n
    return math.sqrt((n - 1) / n * math.fsum((term - mean) ** 2 for term in terms))


def percentile_interval(values: Sequence[float], keys: Sequence[Hashable], q: float, value: float) -> Estimate:
    """Return the percentile's 95 % interval between two of the values, free of any assumed distribution (Woodruff's).

    `value` is the percentile itself, `q` in 0..100, `keys` name each value's cluster. The ranks are those of as many
    independent values as the clustered ones are worth (design effect). An end is None where its rank would lie outside
    the sample, as the upper one for the 99th percentile of a few requests.
    """
    size, share = len(values), q / 100
    if not 0 < share < 1 or not size:
        return missing(Missing.NO_INTERVAL, value)
    n = len(set(keys))
    if n < MIN_CLUSTERS:
        return missing(Missing.TOO_FEW, value, n)
    ordered = sorted(values)
    if ordered[0] == ordered[-1]:
        return missing(Missing.NO_SPREAD, value, n)
    # The design effect is known only where several prompts have values on both sides.
    known = min(max(share, min(MIN_CLUSTERS / n, 0.5)), max(1 - MIN_CLUSTERS / n, 0.5))
    bound = ordered[int(known * (size - 1))]
    independent = _independent(added_up(keys, ((value <= bound, 1) for value in values)))
    whole = max(int(independent + 1e-9), 1)
    low, high = interval_ranks(whole, share)
    first, last = math.floor(size * low / whole + 1e-9), math.ceil(size * (high + 1) / whole - 1e-9)
    lower = ordered[first - 1] if first >= 1 else None
    upper = ordered[last - 1] if high < whole else None
    reason = Missing.TOO_FEW_FOR_RANK if lower is None or upper is None else None
    return Estimate(value, lower, upper, n, reason=reason)


def share_interval(terms: Iterable[Terms]) -> Estimate:
    """Return sum(hits) / sum(requests) over clusters, with Wilson's interval at the effective number of requests."""
    pairs = [(hits, requests) for hits, requests in terms if requests]
    if not pairs:
        return missing(Missing.NO_RECORDS)
    value = math.fsum(hits for hits, _ in pairs) / math.fsum(requests for _, requests in pairs)
    if len(pairs) < MIN_CLUSTERS:
        return missing(Missing.TOO_FEW, value, len(pairs))
    independent = _independent(pairs)
    return Estimate(value, *wilson_interval(value * independent, independent), len(pairs))


def _independent(terms: Iterable[Terms]) -> float:
    """Return how many independent requests scatter as much as clusters of (hits, requests): p (1 - p) / variance.

    Where all or none hit, nothing is known of the scatter within clusters: then each is taken to be of one piece.
    """
    pairs = list(terms)
    found, size, n = linearised(pairs), math.fsum(b for _, b in pairs), len(pairs)
    p = found.value
    if not 0 < p < 1:
        return effective_number(b for _, b in pairs)
    variance = found.standard_error**2 * (n - 1) / n
    return min(p * (1 - p) / variance, size) if variance else size


def rank_correlation(r: float, n: int) -> Estimate:
    """Return Spearman's r of n prompts with Fisher's interval.

    The standard error of atanh r is sqrt((1 + r^2 / 2) / (n - 3)), after Bonett and Wright.
    """
    if abs(r) > 1 - NOISE:
        return missing(Missing.NO_SPREAD, r, n)
    reach = NORMAL_975 * math.sqrt((1 + r * r / 2) / (n - 3))
    return Estimate(r, math.tanh(math.atanh(r) - reach), math.tanh(math.atanh(r) + reach), n)


def difference_of(mine: Estimate, theirs: Estimate, factor: float = 1.0) -> Estimate:
    """Return mine - factor * theirs of independent figures, from their own intervals (MOVER).

    Each end is given where the two ends that it is made of are.
    """
    if mine.value is None or theirs.value is None:
        return missing(Missing.NOT_IN_BOTH)
    value, n = mine.value - factor * theirs.value, min(mine.n, theirs.n)
    below, above = (theirs.low, theirs.high) if factor >= 0 else (theirs.high, theirs.low)
    low = high = None
    if mine.low is not None and above is not None:
        low = value - math.hypot(mine.value - mine.low, factor * (above - theirs.value))
    if mine.high is not None and below is not None:
        high = value + math.hypot(mine.high - mine.value, factor * (below - theirs.value))
    reason = None if low is not None and high is not None else mine.reason or theirs.reason
    return Estimate(value, low, high, n, reason=reason)
