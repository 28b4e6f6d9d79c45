"""Intervals of pooled ratios: the formula, a bootstrap beside it, and how often they hold the truth."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random

import pytest

from aiperf_spec.analysis.clusters import clustered, length_terms
from aiperf_spec.analysis.comparison.pairing import difference, pair_up
from aiperf_spec.analysis.intervals import Estimate, RatioSums, as_length, as_rate, ratio
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.positions import drafting, tally_all
from aiperf_spec.analysis.report import length
from aiperf_spec.analysis.statistics import t_quantile
from aiperf_spec.analysis.whatif import what_if
from aiperf_spec.models.run import RequestRecord
from tests.bench.coverage import covered
from tests.simulated_runs import request, simulated_run

TERMS = [(3, 4), (10, 7), (0, 5), (8, 9), (2, 2), (7, 11)]


def test_the_interval_is_the_formula() -> None:
    n, a, b = len(TERMS), sum(x for x, _ in TERMS), sum(y for _, y in TERMS)
    r = a / b
    error = math.sqrt(n / (n - 1) * sum((x - r * y) ** 2 for x, y in TERMS)) / b
    found = ratio(TERMS)
    assert found.value == pytest.approx(r)
    assert found.standard_error == pytest.approx(error)
    assert found.high == pytest.approx(r + t_quantile(n - 1) * error)
    assert found.low == pytest.approx(r - t_quantile(n - 1) * error)


def test_running_sums_give_the_same_interval() -> None:
    sums = RatioSums()
    for a, b in TERMS:
        sums.add(a, b)
    assert sums.estimate().low == pytest.approx(ratio(TERMS).low)
    assert sums.estimate().high == pytest.approx(ratio(TERMS).high)
    assert as_length(sums.estimate()).value == pytest.approx(1 + 30 / 38)
    assert as_rate(sums.estimate()).value == pytest.approx(100 * 30 / 38)
    assert as_length(sums.estimate()).low == pytest.approx(1 + (ratio(TERMS).low or 0))


def test_running_sums_of_large_counts_lose_no_digits() -> None:
    sums, pairs = RatioSums(), [(10**9 + i % 3, 10**9) for i in range(30)]
    for a, b in pairs:
        sums.add(a, b)
    assert sums.estimate().standard_error == pytest.approx(ratio(pairs).standard_error, rel=1e-9)


def test_few_requests_have_a_figure_and_no_interval() -> None:
    for n in range(1, 5):
        found = ratio(TERMS[:n])
        assert found.value is not None
        assert (found.low, found.high, found.reason) == (None, None, Missing.TOO_FEW)
    assert ratio(TERMS[:5]).reason is None
    assert ratio([]) == Estimate(None, reason=Missing.NO_RECORDS)
    assert RatioSums().estimate().reason is Missing.NO_RECORDS
    assert ratio([(0, 0)] * 9).value is None


def test_intervals_stay_within_what_can_be() -> None:
    never = [request(i, (0,) * 9) for i in range(8)] + [request(8, (4, 0, 0))]
    assert length(never).low == 1
    always = [(5, 5)] * 6 + [(4, 5)]
    assert ratio(always).within(0, 1).high == 1


def test_turns_of_a_conversation_scatter_as_one() -> None:
    def run(turns: int) -> list[RequestRecord]:
        return [
            request(turns * i + turn, (i % 4,) * 5, prompt=f"p{i}", turn=turn)
            for i in range(6)
            for turn in range(turns)
        ]

    single, double = length(run(1)), length(run(2))
    assert (single.n, double.n) == (6, 6)
    assert double.low == pytest.approx(single.low)


def test_turns_that_share_one_index_are_one_conversation_each_pass() -> None:
    # As AIPerf writes them: session_num counts conversations.
    records = [request(i, (i,) * 3, prompt="p", turn=turn) for i in range(4) for turn in range(3)]
    assert list(clustered(records, length_terms)) == [(27 * i / 3, 9) for i in range(4)]


def _bootstrap(run: Sequence[RequestRecord], figure: Callable[[list[tuple[float, ...]]], float], seed: int) -> Estimate:
    rows = [_row(record) for record in run]
    random, values = Random(seed), []
    for _ in range(4000):
        values.append(figure(random.choices(rows, k=len(rows))))
    values.sort()
    return Estimate(None, values[99], values[3899], len(rows))


def _row(record: RequestRecord) -> tuple[float, ...]:
    report = record.acceptance
    assert report is not None
    reached = [sum(s for a, s in report.acceptance_histogram.items() if a >= i) for i in range(1, 5)]
    return report.num_spec_steps, *reached


def _agree(closed: Estimate, bootstrap: Estimate) -> None:
    assert closed.low is not None
    assert closed.high is not None
    assert bootstrap.low is not None
    assert bootstrap.high is not None
    width = closed.high - closed.low
    assert bootstrap.high - bootstrap.low == pytest.approx(width, rel=0.05)
    assert bootstrap.low == pytest.approx(closed.low, abs=0.05 * width)
    assert bootstrap.high == pytest.approx(closed.high, abs=0.05 * width)


def _length(rows: list[tuple[float, ...]]) -> float:
    steps, *reached = (math.fsum(column) for column in zip(*rows, strict=True))
    return 1 + math.fsum(reached) / steps


def _length_at_two(rows: list[tuple[float, ...]]) -> float:
    steps, first, second, *_ = (math.fsum(column) for column in zip(*rows, strict=True))
    return 1 + first / steps + first / steps * second / first


@pytest.mark.parametrize("seed", [1, 2])
def test_a_bootstrap_over_requests_agrees_within_five_percent(seed: int) -> None:
    run = simulated_run(seed, 200)
    _agree(length(run), _bootstrap(run, _length, seed))
    known = drafting([record.acceptance for record in run if record.acceptance is not None])
    modelled = what_if(run, known, tally_all(run, known))
    _agree(modelled.lengths[1].length, _bootstrap(run, _length_at_two, seed))


def test_a_bootstrap_over_pairs_agrees_within_five_percent() -> None:
    base, candidate = simulated_run(3, 200), simulated_run(3, 200, shift=0.03, noise=1)
    closed = difference(base, candidate, length_terms, pair_up(base, candidate)).estimate
    terms = [(*_terms(before), *_terms(after)) for before, after in zip(base, candidate, strict=True)]
    random, values = Random(4), []
    for _ in range(4000):
        a, b, c, d = (sum(column) for column in zip(*random.choices(terms, k=200), strict=True))
        values.append(c / d - a / b)
    values.sort()
    _agree(closed, Estimate(None, values[99], values[3899], 200))


def _terms(record: RequestRecord) -> tuple[float, float]:
    terms = length_terms(record)
    assert terms is not None
    return terms


def test_ninety_five_of_a_hundred_intervals_hold_the_truth() -> None:
    for name, share in covered(1000, 60).items():
        assert 0.93 <= share <= 0.97, (name, share)
