"""Statistics against the standard library's."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_spec.metrics import stats as module
from aiperf_spec.metrics.stats import PERCENTILES, STAT_NAMES, describe, describe_gaps
from aiperf_spec.wire.outcome import pack_gaps

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


GAPS = st.one_of(st.integers(0, 3), st.integers(0, 200_000), st.integers(0, 2**31), st.integers(2**32, 2**40))


@given(st.lists(st.lists(GAPS, max_size=30), max_size=10))
def test_counting_by_bits_is_sorting(lists: list[list[int]]) -> None:
    arrays = [pack_gaps(gaps) for gaps in lists]
    everything = describe([gap / 1e6 for gaps in lists for gap in gaps])
    small = module._SMALL
    module._SMALL = 0
    try:
        counted = describe_gaps(arrays) if everything is not None else None
    finally:
        module._SMALL = small
    if everything is None:
        assert describe_gaps(arrays) is None
        return
    assert counted is not None
    assert counted.count == everything.count
    for name in STAT_NAMES:
        assert counted.value(name) == pytest.approx(everything.value(name), rel=1e-9, abs=1e-9), name


def test_many_gaps() -> None:
    generator = random.Random(1)
    lists = [[generator.randrange(50_000_000) for _ in range(1000)] for _ in range(150)]
    counted = describe_gaps([pack_gaps(gaps) for gaps in lists])
    everything = describe([gap / 1e6 for gaps in lists for gap in gaps])
    assert counted is not None
    assert everything is not None
    for name in STAT_NAMES:
        assert counted.value(name) == pytest.approx(everything.value(name), rel=1e-9), name


def test_gaps_take_four_bytes_unless_they_cannot() -> None:
    assert pack_gaps([0, 2**32 - 1]).itemsize == 4
    assert list(pack_gaps([0, 2**32])) == [0, 2**32]
    assert list(pack_gaps([-1])) == [-1]
