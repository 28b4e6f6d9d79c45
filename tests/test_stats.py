"""Statistics against the standard library's."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_spec.metrics.stats import PERCENTILES, STAT_NAMES, describe

FIGURES = st.floats(min_value=-1e9, max_value=1e9, allow_nan=False)


def test_nothing_has_no_statistics() -> None:
    assert describe([]) is None


def test_one_value_is_all_of_them() -> None:
    stats = describe([7.5])
    assert stats is not None
    assert {name: stats.value(name) for name in STAT_NAMES if name != "std"} == dict.fromkeys(
        [name for name in STAT_NAMES if name != "std"], 7.5
    )
    assert stats.std == 0
    assert stats.count == 1


@given(st.lists(FIGURES, min_size=2, max_size=60))
def test_figures_are_the_standard_librarys(values: list[float]) -> None:
    stats = describe(values)
    assert stats is not None
    assert stats.avg == pytest.approx(statistics.fmean(values), rel=1e-12, abs=1e-9)
    assert stats.std == pytest.approx(statistics.pstdev(values), rel=1e-9, abs=1e-6)
    assert (stats.min, stats.max, stats.count) == (min(values), max(values), len(values))
    assert stats.sum == pytest.approx(math.fsum(values))
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    for q in PERCENTILES:
        assert stats.value(f"p{q}") == pytest.approx(cuts[q - 1], rel=1e-9, abs=1e-6)
