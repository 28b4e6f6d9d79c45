"""The program's own statistics beside SciPy's and statsmodels'."""

from __future__ import annotations

import gc
import math
from array import array
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from aiperf_spec.analysis.statistics import (
    LEVEL,
    NORMAL_975,
    holm_adjusted,
    interval_ranks,
    spearman,
    t_quantile,
    t_two_sided_p,
    wilson_interval,
)


@pytest.mark.parametrize("df", [0.05, 0.3, 1, 1.7, 2, 2.5, 3, 4, 7.31, 10, 23, 199, 5_000, 10_000_000])
def test_students_quantile_is_scipys(df: float) -> None:
    assert t_quantile(df) == pytest.approx(stats.t.ppf((1 + LEVEL) / 2, df), rel=1e-8)


@given(df=st.floats(0.02, 10_000))
def test_students_p_of_its_quantile_is_what_lies_outside(df: float) -> None:
    assert t_two_sided_p(t_quantile(df), df) == pytest.approx(1 - LEVEL, rel=1e-9)


@given(t=st.floats(-1000, 1000), df=st.floats(0.1, 10_000))
def test_students_p_is_scipys(t: float, df: float) -> None:
    assert t_two_sided_p(t, df) == pytest.approx(2 * stats.t.sf(abs(t), df), rel=1e-7, abs=1e-12)


def test_students_distribution_at_its_ends() -> None:
    assert t_two_sided_p(0, 7) == 1
    assert t_two_sided_p(math.inf, 7) == 0
    with pytest.raises(ValueError, match="degrees of freedom"):
        t_quantile(0)
    assert t_quantile(1e-4) == math.inf


def test_the_normal_percentile_is_scipys() -> None:
    assert pytest.approx(stats.norm.ppf(0.975), rel=1e-15) == NORMAL_975


@pytest.mark.parametrize("n", [1, 9, 40, 100, 1000])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.9, 0.99])
def test_the_ranks_of_a_percentile_hold_it_in_95_of_100_samples_and_are_as_few_as_can_be(n: int, share: float) -> None:
    low, high = interval_ranks(n, share)
    mass = stats.binom.pmf(range(low, high + 1), n, share)
    assert mass.sum() >= LEVEL - 1e-9
    assert high == low or mass.sum() - min(mass[0], mass[-1]) < LEVEL


@given(n=st.integers(1, 5000), data=st.data())
def test_the_interval_of_a_share_is_wilsons(n: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, n))
    assert wilson_interval(hits, n) == pytest.approx(proportion_confint(hits, n, method="wilson"), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_rank_correlation_is_scipys_ties_included(seed: int) -> None:
    random = Random(seed)
    xs = array("d", (random.randrange(8) for _ in range(60)))
    ys = array("d", (x + random.randrange(12) for x in xs))
    assert spearman(xs, ys) == pytest.approx(stats.spearmanr(xs, ys).statistic)
    assert spearman(xs, array("d", [3] * 60)) is None


@pytest.fixture(scope="module")
def _little_to_collect() -> Iterator[None]:
    """Keep what is there out of collections: statsmodels collects in every call, through all that pytest has loaded."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("_little_to_collect")
@given(p_values=st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holms_correction_is_statsmodels(p_values: list[float]) -> None:
    assert holm_adjusted(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]))


def test_holms_correction_of_weighted_tests() -> None:
    assert holm_adjusted([]) == []
    assert holm_adjusted([0.02, 0.02, 0.5], [2, 1, 1]) == pytest.approx([0.04, 0.04, 0.5])
