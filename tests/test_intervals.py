"""Intervals over prompts: formulas beside SciPy's, a bootstrap, and the truth they hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from aiperf_spec.analysis.cautions import cautions
from aiperf_spec.analysis.clusters import length_terms
from aiperf_spec.analysis.comparison.pairing import difference, pair_up
from aiperf_spec.analysis.gate_figures import Figures
from aiperf_spec.analysis.gates import evaluate
from aiperf_spec.analysis.intervals import (
    Estimate,
    difference_of,
    effective_number,
    percentile_interval,
    ratio,
    share_interval,
)
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.report import analyse, length
from aiperf_spec.models.run import NoticeKind, RequestRecord
from aiperf_spec.render.notices import notice_text
from tests.bench.coverage import (
    BAND,
    CASES,
    Case,
    covered,
    false_verdicts,
    held,
    percentiles_held,
    shares_held,
    undrafted_held,
)
from tests.simulated_runs import request, simulated_run

TERMS = [(3, 4), (10, 7), (0, 5), (8, 9), (2, 2), (7, 11)]


def test_the_interval_is_the_delete_one_jackknifes() -> None:
    a, b = (np.array(column, dtype=float) for column in zip(*TERMS, strict=True))
    n, r = len(TERMS), a.sum() / b.sum()
    left_out = (a.sum() - a) / (b.sum() - b)
    error = math.sqrt((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum())
    reach = stats.t.ppf(0.975, b.sum() ** 2 / (b**2).sum() - 1) * error
    found = ratio(TERMS)
    assert found.value == pytest.approx(r)
    assert found.standard_error == pytest.approx(error)
    assert (found.low, found.high) == pytest.approx((r - reach, r + reach))
    assert found.n == n
    assert effective_number(b) == pytest.approx(b.sum() ** 2 / (b**2).sum())


def test_large_counts_lose_no_digits() -> None:
    small, large = ([(base + i % 3, base) for i in range(30)] for base in (10**3, 10**9))
    assert ratio(large).standard_error == pytest.approx((ratio(small).standard_error or 0) / 10**6, rel=1e-6)


@pytest.mark.parametrize("accepted", [0, 4])
def test_without_spread_there_is_no_interval_and_no_strict_gate_is_met(accepted: int) -> None:
    run = [request(i, (accepted,) * (5 + i)) for i in range(9)]
    assert length(run).reason is Missing.NO_SPREAD
    assert not length(run).has_interval
    (result,) = evaluate(["acceptance_length >= 0.5"], Figures(run), strict=True)
    assert (result.passed, result.reason) == (False, Missing.NO_SPREAD)


def test_one_prompt_that_holds_everything_gives_no_interval() -> None:
    assert ratio([(5, 9), *[(1, 0)] * 5]).reason is Missing.ONE_PROMPT


def test_few_requests_have_a_figure_and_no_interval() -> None:
    for n in range(1, 5):
        found = ratio(TERMS[:n])
        assert found.value is not None
        assert (found.low, found.high, found.reason) == (None, None, Missing.TOO_FEW)
    assert ratio(TERMS[:5]).reason is None
    assert ratio([]) == Estimate(None, reason=Missing.NO_RECORDS)
    assert ratio([(0, 0)] * 9).value is None


def test_intervals_stay_within_what_can_be() -> None:
    never = [request(i, (0,) * 9) for i in range(8)] + [request(8, (4, 0, 0))]
    assert length(never).low == 1
    always = [(5, 5)] * 6 + [(4, 5)]
    assert ratio(always).within(0, 1).high == 1


def _repeated(times: int, *, turns: bool = False) -> list[RequestRecord]:
    run = simulated_run(5, 10)
    return [
        replace(record, index=len(run) * i + record.index, turn_index=i if turns else 0)
        for i in range(times)
        for record in run
    ]


@pytest.mark.parametrize("turns", [False, True])
def test_repeats_and_turns_with_identical_answers_change_nothing(turns: bool) -> None:
    once, often = _repeated(1), _repeated(30, turns=turns)
    few, many = analyse(once), analyse(often)
    for mine, theirs in (
        (few.run.length, many.run.length),
        (few.run.rate, many.run.rate),
        (few.coverage, many.coverage),
        (few.step_time_ms, many.step_time_ms),
        (few.itl_ms, many.itl_ms),
        (few.prompt_length.correlation, many.prompt_length.correlation),
        (few.run.what_if.lengths[1].length, many.run.what_if.lengths[1].length),
        (few.run.curve.positions[2].survival, many.run.curve.positions[2].survival),
    ):
        assert (theirs.n, theirs.reason) == (10, mine.reason)
        assert (theirs.value, theirs.low, theirs.high) == pytest.approx((mine.value, mine.low, mine.high))
    assert few.cautions == many.cautions


@pytest.mark.parametrize(
    "name",
    [
        *("acceptance_length", "acceptance_length.avg", "draft_acceptance_rate", "request_latency.p50"),
        *("error_rate", "coverage_of_requests", "coverage", "inter_token_latency"),
    ],
)
def test_repeats_buy_no_strict_gate(name: str) -> None:
    once, often = Figures(_repeated(1)), Figures(_repeated(30))
    (first,), (second,) = (evaluate([f"{name} >= 0"], figures) for figures in (once, often))
    mine, theirs = first.figure, second.figure
    assert mine.has_interval
    assert theirs.n == 10
    assert (theirs.low, theirs.high) == pytest.approx((mine.low, mine.high))
    for end in (mine.low, mine.value, mine.high):
        for sign in (">=", "<="):
            for nudge in (-1e-6, 1e-6):
                gate = f"{name} {sign} {(end or 0) + nudge:.9f}"
                verdicts = [evaluate([gate], figures, strict=True)[0].passed for figures in (once, often)]
                assert verdicts[0] == verdicts[1], gate


def test_an_id_without_a_hash_names_its_prompt_less_the_suffix_of_a_repeat() -> None:
    named = [request(i, (i % 4,) * 5, prompt=f"p{i % 8}{'#2' if i > 7 else ''}") for i in range(16)]
    run = [replace(record, prompt_hash="") for record in named]
    assert length(run).n == 8
    # A hash goes before any id: two files may call their prompts alike.
    told = [replace(record, prompt_hash=f"{record.index}") for record in run]
    assert length(told).n == 16


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


@pytest.mark.parametrize("seed", [1, 2])
def test_a_bootstrap_over_requests_agrees_within_five_percent(seed: int) -> None:
    run = simulated_run(seed, 200)
    _agree(length(run), _bootstrap(run, _length, seed))


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


@pytest.mark.parametrize("case", [case for case in CASES if case.in_band], ids=lambda case: case.name)
def test_intervals_over_few_and_uneven_prompts_hold_the_truth(case: Case) -> None:
    for prompts in case.prompts:
        assert BAND[0] <= held(case, prompts, 2000) <= BAND[1], prompts


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("long responses accepted better", NoticeKind.LONG_ACCEPTED_BETTER),
        ("rare acceptance", NoticeKind.FEW_TOKENS),
    ],
)
def test_a_run_whose_intervals_hold_less_often_says_so(name: str, kind: NoticeKind) -> None:
    case = next(case for case in CASES if case.name == name)
    assert held(case, 20, 500) < BAND[0]
    random, said, runs = np.random.default_rng(3), 0, 50
    for _ in range(runs):
        log_length, acceptance = (column[0] for column in case.draw(random, (1, 20)))
        steps = np.maximum(1, np.rint(30 * np.exp(log_length))).astype(int)
        run = [
            request(i, tuple(random.binomial(1, probability, size=number).tolist()), per_step=False)
            for i, (number, probability) in enumerate(zip(steps, acceptance, strict=True))
        ]
        said += kind in {caution.kind for caution in cautions(run)}
    assert said >= 0.8 * runs
    assert kind not in {caution.kind for seed in range(20) for caution in cautions(simulated_run(seed, 20))}


def test_a_prompt_that_holds_over_a_fifth_of_the_steps_is_named() -> None:
    run = [request(i, (i % 3, 1) * 5) for i in range(12)]
    assert cautions(run) == ()
    (found,) = cautions([*run, request(12, (1, 2) * 20, prompt="long")])
    assert (found.kind, found.values["prompt"]) == (NoticeKind.ONE_PROMPT, "long")
    assert found.values["share"] == pytest.approx(0.25)
    assert notice_text(found).startswith("prompt long has 25% of the verify steps")


def test_percentiles_of_clustered_values_hold_the_truth() -> None:
    for prompts, turns, q, alike in ((20, 5, 50, 0.5), (60, 3, 90, 0.5), (200, 5, 99, 0.3)):
        assert BAND[0] <= percentiles_held(1000, prompts, turns, q, alike) <= 0.98, (prompts, turns, q)


def test_the_ranks_of_a_percentile_are_those_of_the_effective_number() -> None:
    values = [float(i // 5) for i in range(100)]
    found = percentile_interval(values, [i // 5 for i in range(100)], 50, 9.5)
    alone = percentile_interval([float(i) for i in range(20)], range(20), 50, 9.5)
    assert (found.low, found.high, found.n) == (alone.low, alone.high, 20)
    assert percentile_interval(values, [0] * 100, 50, 9.5).reason is Missing.TOO_FEW
    assert percentile_interval([1.0] * 9, range(9), 50, 1.0).reason is Missing.NO_SPREAD


def test_a_share_of_requests_is_wilsons_at_the_effective_number() -> None:
    once, often = share_interval([(i < 5, 1) for i in range(20)]), share_interval([(9 * (i < 5), 9) for i in range(20)])
    assert (once.low, once.high) == pytest.approx(proportion_confint(5, 20, method="wilson"))
    assert (often.low, often.high) == pytest.approx((once.low, once.high))
    assert BAND[0] <= shares_held(1000, 20, 10) <= BAND[1]
    assert BAND[0] <= shares_held(1000, 60, 1) <= BAND[1]


def test_the_difference_of_two_intervals_is_movers() -> None:
    mine, theirs = share_interval([(i < 9, 1) for i in range(30)]), share_interval([(i < 4, 1) for i in range(40)])
    found = difference_of(mine, theirs)
    # Newcombe's interval is MOVER's of two of Wilson's.
    assert (found.low, found.high) == pytest.approx(confint_proportions_2indep(9, 30, 4, 40, method="newcomb"))
    half = difference_of(Estimate(3.0, 2.0, None, 9), Estimate(2.0, 1.5, 2.5, 9), 2.0)
    assert (half.value, half.low, half.high) == (-1.0, -1.0 - math.hypot(1.0, 1.0), None)
    total = difference_of(Estimate(3.0, 2.0, None, 9), Estimate(2.0, 1.5, 4.0, 9), -2.0)
    assert (total.value, total.low, total.high) == (7.0, 7.0 - math.hypot(1.0, 1.0), None)


def test_equal_runs_get_no_verdicts() -> None:
    for family, share in false_verdicts(100).items():
        assert share <= 0.07, family


def test_intervals_over_decode_steps_allow_for_what_cut_steps_hide() -> None:
    for name, share in undrafted_held(200, 20).items():
        assert share >= 0.91, name
