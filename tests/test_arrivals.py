"""Schedules drawn before a run."""

from __future__ import annotations

import math
from itertools import islice, pairwise

import pytest

from aiperf_spec.config.choices import ArrivalPattern
from aiperf_spec.workload.arrivals import arrivals


def kolmogorov_smirnov(gaps: list[float], rate: float) -> float:
    """Return the largest distance between the gaps' distribution and the exponential one."""
    ordered, n = sorted(gaps), len(gaps)
    exact = [1 - math.exp(-rate * gap) for gap in ordered]
    return max(max(abs(f - i / n), abs(f - (i + 1) / n)) for i, f in enumerate(exact))


@pytest.mark.parametrize("count", [None, 2000])
def test_poisson_gaps_are_exponential(count: int | None) -> None:
    due = list(islice(arrivals(50, ArrivalPattern.POISSON, 7, count), 2000))
    gaps = [later - earlier for earlier, later in pairwise([0.0, *due])]
    # The critical distance at 1 %.
    assert kolmogorov_smirnov(gaps, 50) < 1.63 / math.sqrt(2000)
    assert min(gaps) > 0


def test_a_known_number_comes_at_the_rate_asked_for() -> None:
    for seed in range(20):
        due = list(arrivals(50, ArrivalPattern.POISSON, seed, 1000))
        assert len(due) == 1000
        assert 19 < due[-1] < 20


def test_a_seed_is_a_schedule() -> None:
    first, again, other = (list(islice(arrivals(9, ArrivalPattern.POISSON, seed), 50)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_constant_is_even() -> None:
    assert list(islice(arrivals(4, ArrivalPattern.CONSTANT, 0), 4)) == [0, 0.25, 0.5, 0.75]
    assert list(arrivals(4, ArrivalPattern.CONSTANT, 0, 2)) == [0, 0.25]
