"""Statistics of many gaps are those of a list of them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_spec.metrics import gaps as module
from aiperf_spec.metrics.gaps import describe_gaps
from aiperf_spec.metrics.stats import STAT_NAMES, describe
from aiperf_spec.wire.outcome import pack_gaps

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
