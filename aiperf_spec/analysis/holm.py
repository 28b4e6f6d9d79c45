"""Holm's correction for many comparisons."""

from __future__ import annotations

from collections.abc import Sequence


def adjusted(p_values: Sequence[float], weights: Sequence[float] | None = None) -> list[float]:
    """Return Holm's adjusted p-values, in the order given.

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
