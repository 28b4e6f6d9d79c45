"""The answers of a sweep, held to planted truth."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from random import Random
from statistics import stdev

import pytest

from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.statistics import t_two_sided_p
from aiperf_spec.analysis.sweep.choices import Trend, choices, payoffs
from aiperf_spec.analysis.sweep.contrasts import Verdict, contrasts
from aiperf_spec.analysis.sweep.economy import Economy
from aiperf_spec.analysis.sweep.points import figures_of, points_of
from aiperf_spec.analysis.sweep.slo import parse_slos
from aiperf_spec.analysis.sweep.sweep import analyse_sweep, predict
from aiperf_spec.errors import ConfigError
from aiperf_spec.metrics.goodput import objectives
from aiperf_spec.metrics.latency import content_span_ns
from aiperf_spec.models.server_metrics import MetricFigures, SeriesFigures, ServerMetrics
from aiperf_spec.models.sweep import Cell, CellRun
from aiperf_spec.render.sweep_sentences import sentences
from tests.simulated_sweeps import MS, drafted_sweep, load, timed, timed_sweep

TOKENS = {0: 1.0, 2: 1.8, 4: 2.2, 6: 2.3}
"""Tokens per step that are planted."""


def step_ms(k: int, at: float) -> float:
    """Return the time of a step as an engine's: a part of its own, drafting, and the batch."""
    return 10 + 0.5 * k + 0.25 * at * (k + 1)


def latency_ms(k: int, at: float) -> float:
    return step_ms(k, at) / TOKENS[k]


def true_crossover(k: int) -> float:
    # TOKENS * (10 + 0.25 c) = 10 + 0.5 k + 0.25 c (k + 1)
    tokens = TOKENS[k]
    return (10 * tokens - 10 - 0.5 * k) / (0.25 * (k + 1) - 0.25 * tokens)


@pytest.mark.parametrize(("repeats", "of_run"), [(1, 0.0), (3, 0.0), (3, 0.1), (5, 0.3)])
def test_intervals_of_speed_ups_hold_the_truth_as_often_as_they_say(repeats: int, of_run: float) -> None:
    held = total = 0
    for seed in range(250):
        cells = timed_sweep(seed, latency_ms, (0, 4), (4,), prompts=15, repeats=repeats, of_run=of_run)
        found = contrasts(points_of(cells)).of(load(4), 4, 0)
        assert found is not None
        assert found.speed_up.low is not None
        assert found.speed_up.high is not None
        held += found.speed_up.low <= latency_ms(0, 4) / latency_ms(4, 4) <= found.speed_up.high
        total += 1
    assert held / total > 0.92


def test_no_winner_is_named_where_runs_scatter_and_all_draft_lengths_are_alike() -> None:
    named = judged = 0
    for seed in range(200):
        cells = timed_sweep(
            seed, lambda k, at: 10.0, (0, 1, 2, 4), (1, 8), prompts=8, repeats=3, of_run=0.2, of_both=0.02
        )
        found = contrasts(points_of(cells))
        # Any verdict at all would be a false one; the correction covers them all.
        named += any(each.verdict in (Verdict.FASTER, Verdict.SLOWER) for each in found.by_pair.values())
        judged += all(each.adjusted_p is not None for each in found.by_pair.values())
    assert judged == 200
    assert named / 200 <= 0.06


def test_a_draft_length_whose_runs_scatter_more_than_the_others_is_seldom_a_false_winner() -> None:
    unsteady = {0: 0.02, 1: 0.02, 2: 0.02, 4: 0.4}
    named = 0
    for seed in range(100):
        cells = timed_sweep(
            seed, lambda k, at: 10.0, tuple(unsteady), (1,), prompts=8, repeats=3, of_run=unsteady, of_both=0.0
        )
        named += any(choice.shown for choice in choices(contrasts(points_of(cells))))
    assert named / 100 <= 0.06


def test_a_run_that_was_slow_as_a_whole_is_told_by_its_repeats() -> None:
    # Within each run the difference is beyond doubt; between runs it is nothing.
    slow = {(0, 1): 1.4, (0, 2): 0.8, (0, 3): 1.0, (4, 1): 1.0, (4, 2): 1.3, (4, 3): 0.8}
    cells = [
        CellRun(cell=Cell(k, load(2), repeat), records=[timed(i, 10 * by * (1 + i / 99)) for i in range(20)])
        for (k, repeat), by in slow.items()
    ]
    assert contrasts(points_of(cells)).by_pair[load(2), 4, 0].verdict is Verdict.NONE_SHOWN
    alone = contrasts(points_of(cells[::3])).by_pair[load(2), 4, 0]
    assert (alone.speed_up.low or 0) > 1, "within the first repeat alone one was faster"
    assert (alone.p, alone.adjusted_p, alone.verdict) == (None, None, Verdict.NOT_JUDGED)


@pytest.mark.parametrize(("repeats", "judged"), [(1, False), (2, False), (3, True)])
def test_a_verdict_takes_three_repeats(repeats: int, judged: bool) -> None:
    cells = timed_sweep(1, latency_ms, (0, 2, 4), (1, 64), repeats=repeats, of_both=0.01)
    found = analyse_sweep(cells, slos=parse_slos(["itl.avg <= 8"]))
    assert all((each.verdict is not Verdict.NOT_JUDGED) is judged for each in found.answers.contrasts.by_pair.values())
    assert found.answers.is_judged is judged
    # What was measured is told either way.
    assert [(choice.best, choice.ties, choice.shown) for choice in found.answers.choices] == [
        (4, (), judged),
        (0, (), judged),
    ]
    assert [payoff.trend for payoff in found.answers.payoffs] == [Trend.STOPS if judged else Trend.NOT_JUDGED] * 2
    for payoff in found.answers.payoffs:
        assert payoff.crossover is not None
        assert 1 < (payoff.crossover.value or 0) < 64
        assert (payoff.crossover.low, payoff.crossover.high) == ((1, 64) if judged else (None, None))
        assert payoff.crossover.reason is (None if judged else Missing.FEW_REPEATS)
    assert found.slo is not None
    assert (found.slo.highest, found.slo.best, found.slo.ties) == (load(1), 4, ())


def test_two_draft_lengths_over_repeats_are_the_paired_t_test() -> None:
    cells = timed_sweep(1, latency_ms, (0, 4), (4,), prompts=30, repeats=4, of_run=0.2, of_both=0.0)
    (found,) = contrasts(points_of(cells)).by_pair.values()
    points = points_of(cells)
    times = {
        k: [math.log(sum(content_span_ns(r) or 0 for r in points[load(4), k].records[n])) for n in (1, 2, 3, 4)]
        for k in (0, 4)
    }
    logs = [one - other for one, other in zip(times[0], times[4], strict=True)]
    assert found.speed_up.value is not None
    t = math.log(found.speed_up.value) / (stdev(logs) / math.sqrt(len(logs)))
    assert found.p == pytest.approx(t_two_sided_p(t, len(logs) - 1), rel=0.02)


def test_crossovers_lie_in_their_intervals_and_the_best_draft_length_is_right() -> None:
    loads, seeds = (1, 2, 4, 8, 16, 32, 64), 20
    held = right = 0
    for seed in range(seeds):
        found = contrasts(points_of(timed_sweep(seed, latency_ms, (0, 2, 4, 6), loads, of_both=0.05, of_run=0.03)))
        all_hold = True
        for payoff in payoffs(found):
            assert payoff.trend in (Trend.STOPS, Trend.PARTLY)
            assert payoff.crossover is not None
            low, high = payoff.crossover.low or 0.0, payoff.crossover.high or math.inf
            all_hold = all_hold and low <= true_crossover(payoff.k) <= high
        held += all_hold
        for choice in choices(found):
            latencies = {k: latency_ms(k, choice.load.value) for k in (0, 2, 4, 6)}
            right += min(latencies, key=lambda k: latencies[k]) in (choice.best, *choice.ties)
    assert held >= seeds - 1, "the intervals of one sweep hold together"
    assert right == seeds * len(loads)


@pytest.mark.parametrize(
    ("speed_up", "trend"),
    [
        (lambda at: 0.8, Trend.NEVER),
        (lambda at: 1.5, Trend.ALWAYS),
        (lambda at: 1.0, Trend.NONE_SHOWN),
        (lambda at: 2 / math.sqrt(at), Trend.STOPS),
        (lambda at: math.sqrt(at) / 2, Trend.STARTS),
        (lambda at: 1.5 if at < 4 else 1.0, Trend.PARTLY),
        (lambda at: 1.0 if at < 4 else 0.7, Trend.NOT_SHOWN_TO_PAY),
    ],
)
def test_what_a_draft_length_comes_to(speed_up: Callable[[float], float], trend: Trend) -> None:
    cells = timed_sweep(3, lambda k, at: 10 / (speed_up(at) if k else 1), (0, 4), (1, 2, 8, 16), of_both=0.01)
    found = payoffs(contrasts(points_of(cells)))
    assert [each.trend for each in found] == [trend]
    crossing = found[0].crossover
    if trend in (Trend.STOPS, Trend.STARTS):
        assert crossing is not None
        assert crossing.value == pytest.approx(4, rel=0.05)
        # Nothing between the loads was measured: the interval ends at those that were.
        assert (crossing.low, crossing.high) == (2, 8)
    elif trend in (Trend.NEVER, Trend.ALWAYS):
        assert crossing is None


def test_a_crossing_between_loads_that_show_no_difference_reaches_beyond_them() -> None:
    cells = timed_sweep(5, lambda k, at: 10 / (1 + 0.001 * (2.9 - at) if k else 1), (0, 4), (1, 2, 4), of_both=0.3)
    (payoff,) = payoffs(contrasts(points_of(cells)))
    assert payoff.trend is Trend.NONE_SHOWN
    if payoff.crossover is not None:
        assert (payoff.crossover.low, payoff.crossover.high) == (None, None)
        assert payoff.crossover.reason is Missing.NOT_REACHED


def test_few_prompts_give_figures_and_no_verdict() -> None:
    found = contrasts(points_of(timed_sweep(1, latency_ms, (0, 4), (1,), prompts=4, repeats=3)))
    (contrast,) = found.by_pair.values()
    assert contrast.speed_up.value is not None
    assert contrast.speed_up.reason is Missing.TOO_FEW
    assert contrast.verdict is Verdict.NOT_JUDGED
    assert payoffs(found)[0].trend is Trend.NOT_JUDGED
    (choice,) = choices(found)
    assert not choice.shown


def test_requests_that_failed_in_one_cell_are_left_out_of_the_other() -> None:
    first = [timed(i, 10 + i) for i in range(10)]
    second = [timed(i, (10 + i) / 2) for i in range(4, 10)]
    found = contrasts(
        points_of([CellRun(cell=Cell(0, load(1)), records=first), CellRun(cell=Cell(3, load(1)), records=second)])
    )
    (contrast,) = found.by_pair.values()
    assert contrast.speed_up.value == pytest.approx(2)
    assert contrast.speed_up.n == 6


def test_a_contrast_turned_round_is_its_inverse() -> None:
    found = contrasts(points_of(timed_sweep(1, latency_ms, (0, 4), (4,))))
    one, other = found.of(load(4), 4, 0), found.of(load(4), 0, 4)
    assert one is not None
    assert other is not None
    assert one.verdict is Verdict.FASTER
    assert other.verdict is Verdict.SLOWER
    assert one.speed_up.value is not None
    assert one.speed_up.low is not None
    assert other.speed_up.value == pytest.approx(1 / one.speed_up.value)
    assert other.speed_up.high == pytest.approx(1 / one.speed_up.low)


@pytest.mark.parametrize(("found", "error"), [(1.0, 0.005), (0.5, 0.06)])
def test_the_economy_predicts_what_a_full_sweep_measures(found: float, error: float) -> None:
    lengths, loads = (0, 1, 2, 4, 6), (1, 8, 32)
    full = drafted_sweep(1, step_ms, lengths, loads, found=found)
    ends = [cell for cell in full if cell.cell.k in (0, 6)]
    before = predict(ends, lengths)
    assert len(before.predictions) == 3 * len(loads)
    assert all(each.measured is None for each in before.predictions)
    measured = analyse_sweep(full, economy_lengths=lengths)
    assert measured.economy is not None
    assert not measured.economy.winners, "all were measured"
    assert len(measured.economy.errors) == 3 * len(loads)
    # Where drafts are found at random, shorter ones leave more steps without a draft, which is not modelled.
    assert measured.economy.errors[-1] < error
    # What is to be measured next is the best of the full sweep, or within the error of it.
    best = {choice.load: choice.best for choice in measured.answers.choices}
    for at, k in before.winners:
        mine, theirs = (measured.answers.contrasts.of(at, each, 0) for each in (k, best[at]))
        if k != best[at] and mine is not None and theirs is not None:
            assert (mine.speed_up.value or 0) > 0.97 * (theirs.speed_up.value or 1)


def one_after_another(cells: Sequence[CellRun], scatter: float = 0.0) -> list[CellRun]:
    """Return the cells with their requests in turn; each takes longer or less by a factor that scatters so much."""
    draw, moved = Random(5), []
    for cell in cells:
        now, records = 0, []
        for record in cell.records:
            first, last = record.first_content_ns or 0, record.last_content_ns or 0
            span = round((last - first) * math.exp(draw.gauss(0, scatter)))
            start, now = now, now + MS + span
            times = replace(record, start_ns=start, first_content_ns=start + MS, last_content_ns=now, end_ns=now)
            records.append(times)
        moved.append(replace(cell, records=records))
    return moved


def in_line(of_a_draft: float, k: int, at: float) -> float:
    del at
    return 10 + of_a_draft * k


def predicted(cells: Sequence[CellRun]) -> Economy:
    lengths = sorted({cell.cell.k or 0 for cell in cells})
    found = analyse_sweep(one_after_another(cells), economy_lengths=lengths).economy
    assert found is not None
    return found


def test_steps_without_a_draft_tell_what_speculation_costs_at_any_k() -> None:
    found = predicted(drafted_sweep(1, partial(in_line, 1), (0, 1, 2, 4, 6), (1,), found=0.5, overhead_ms=8))
    # Shorter drafts leave more steps without one, which is not modelled.
    assert found.errors[-1] < 0.06
    assert [each.high / (each.measured or 1) > 1.1 for each in found.predictions] == [True, True, True]


def test_what_nothing_tells_lies_between_the_two_ways_in_which_a_step_may_cost_more() -> None:
    for overhead, drafts in ((8.0, 0.0), (4.0, 1.0), (0.0, 3.0)):
        cells = drafted_sweep(1, partial(in_line, drafts), (0, 2, 4, 6), (1,), overhead_ms=overhead)
        for each in predicted(cells).predictions:
            # It is taken to grow with k.
            assert each.predicted == each.high
            assert each.low - 1e-6 <= (each.measured or 0) * 1.005
            assert (each.measured or 0) <= each.high * 1.005


def test_requests_that_scatter_too_much_do_not_tell_it() -> None:
    cells = drafted_sweep(1, partial(in_line, 1), (0, 2, 6), (1,), found=0.5, overhead_ms=2)
    ends = [cell for cell in cells if cell.cell.k != 2]
    steady, wild = (predict(one_after_another(ends, scatter), (0, 2, 6)) for scatter in (0.02, 1.0))
    (told,), (untold,) = steady.predictions, wild.predictions
    assert told.low < told.predicted < told.high
    assert untold.predicted == untold.low
    # It may be faster than it is predicted to be, so it is measured next.
    longest = contrasts(points_of(one_after_another(ends, 1.0))).of(load(1), 6, 0)
    assert longest is not None
    assert untold.predicted < 0.95 * max(1.0, longest.speed_up.value or 0) < untold.high
    assert wild.winners == ((load(1), 2),)


def test_the_economy_says_why_it_predicts_nothing() -> None:
    cells = timed_sweep(1, latency_ms, (0, 6), (1, 2))
    found = predict(cells, (0, 2, 4, 6))
    assert not found.predictions
    assert set(found.refused.values()) == {Missing.NO_RECORDS}
    assert set(predict(cells[:2], (0, 2, 4, 6)).refused.values()) == {Missing.NO_COMMON_PROMPT}


def test_a_point_has_its_figures() -> None:
    cells = drafted_sweep(1, step_ms, (0, 4), (8,))
    analysis = analyse_sweep(cells, goals=objectives({"itl": 10}))
    without, point = analysis.points
    assert (without.k, without.tokens_per_step.value, without.length.value) == (0, 1.0, None)
    assert without.step_time_ms.value == pytest.approx(step_ms(0, 8))
    assert point.step_time_ms.value == pytest.approx(step_ms(4, 8))
    assert point.tokens_per_step.value == point.length.value
    assert point.itl_ms.value == pytest.approx(step_ms(4, 8) / (point.tokens_per_step.value or 1), rel=0.01)
    assert point.goodput is not None
    assert point.engine == "vllm"


def test_repeats_that_scatter_widen_the_intervals_of_figures() -> None:
    steady, scattered = (
        analyse_sweep(timed_sweep(1, latency_ms, (0,), (4,), repeats=3, of_run=of_run, of_prompt=0.05)).points[0]
        for of_run in (0.0, 0.4)
    )
    assert steady.itl_ms.high is not None
    assert scattered.itl_ms.high is not None
    assert scattered.itl_ms.high - (scattered.itl_ms.value or 0) > 3 * (steady.itl_ms.high - (steady.itl_ms.value or 0))
    assert scattered.throughput.has_interval
    assert scattered.itl_ms.low is not None
    assert scattered.itl_ms.low >= 0
    assert scattered.throughput.n == 3
    once = analyse_sweep(timed_sweep(1, latency_ms, (0,), (4,), repeats=1)).points[0].throughput
    assert (once.low, once.reason) == (None, Missing.NO_INTERVAL)


def test_the_running_batch_is_the_mean_of_the_engines_gauge() -> None:
    series = [SeriesFigures("u", {"engine": str(i)}, {"avg": value}) for i, value in enumerate((3.0, 5.0))]
    other = SeriesFigures("u", {}, {"avg": 99.0})
    metrics = {
        "vllm:num_requests_running": MetricFigures("gauge", "", None, series),
        "vllm:num_requests_waiting": MetricFigures("gauge", "", None, [other]),
    }
    (cell,) = timed_sweep(1, latency_ms, (0,), (1,), repeats=1)
    (told,) = points_of([replace(cell, server_metrics=ServerMetrics([], 0, 1, metrics))]).values()
    assert (figures_of(told).running, figures_of(told).engines) == (4, 2)
    (untold,) = points_of([cell]).values()
    alone = figures_of(untold)
    assert (alone.by_gauge, alone.engines) == (False, 1)
    assert alone.running == pytest.approx(0.95, abs=0.05), "one request in flight, less its time to first token"


def test_a_gauge_that_was_read_too_seldom_is_not_taken() -> None:
    seldom = MetricFigures("gauge", "", None, [SeriesFigures("u", {}, {"avg": 0.0})])
    metrics = ServerMetrics([], 0, 1, {"vllm:num_requests_running": seldom})
    (cell,) = timed_sweep(1, latency_ms, (0,), (4,), of_prompt=0.01, repeats=1)
    (told,) = points_of([replace(cell, server_metrics=metrics)]).values()
    found = figures_of(told)
    assert not found.by_gauge
    assert found.running == pytest.approx(3.8, abs=0.2)


def test_objectives_give_the_highest_load_and_its_best_draft_length() -> None:
    cells = timed_sweep(2, latency_ms, (0, 2, 4), (1, 4, 16, 64), of_both=0.01, of_prompt=0.05)
    # Latencies in ms: k = 0 10.25, 11, 14, 26; k = 2 6.5, 7.8, 12.8, 32.8; k = 4 6.0, 7.7, 14.5, 41.8.
    answer = analyse_sweep(cells, slos=parse_slos(["itl.avg <= 13.5", "error_rate == 0"])).slo
    assert answer is not None
    assert answer.highest == load(16)
    assert (answer.best, answer.ties) == (2, ())
    assert answer.highest_of == {0: load(4), 2: load(16), 4: load(4)}
    none = analyse_sweep(cells, slos=parse_slos(["itl.avg <= 1"])).slo
    assert none is not None
    assert (none.highest, none.best) == (None, None)
    assert none.outcomes[0].missed[0].figure.value == pytest.approx(10.25, rel=0.1)


@pytest.mark.parametrize("text", ["ttft.p99 <= base", "ttft.p99", "nothing <= 3"])
def test_a_wrong_objective_is_an_error_that_names_its_option(text: str) -> None:
    with pytest.raises(ConfigError, match="--slo"):
        parse_slos([text])


def test_cells_that_failed_are_told_and_the_others_stay() -> None:
    cells = [*timed_sweep(1, latency_ms, (0, 4), (1, 2)), CellRun(cell=Cell(6, load(1)), reason="the server died")]
    analysis = analyse_sweep(cells)
    assert analysis.failed == ((Cell(6, load(1)), "the server died"),)
    assert analysis.lengths == [0, 4]
    assert [a < b for a, b in pairwise(analysis.loads)] == [True]


def test_a_sweep_over_load_alone_has_figures_and_no_speed_up() -> None:
    runs = [CellRun(cell=Cell(None, load(at)), records=[timed(i, 5 + at) for i in range(6)]) for at in (1, 2)]
    analysis = analyse_sweep(runs, slos=parse_slos(["itl.avg <= 6.5"]))
    assert [point.k for point in analysis.points] == [None, None]
    assert not analysis.answers.choices
    assert analysis.slo is not None
    assert analysis.slo.highest == load(1)


def test_categories_are_judged_by_themselves() -> None:
    cells = timed_sweep(
        4, lambda k, at: 10.0 if not k else 6.0, (0, 4), (1,), of_both=0.02, categories=("code", "talk"), prompts=20
    )
    analysis = analyse_sweep(cells)
    assert list(analysis.categories) == ["code", "talk"]
    for answers in analysis.categories.values():
        found = answers.speed_up(load(1), 4)
        assert found is not None
        assert found.speed_up.n == 10
        assert found.verdict is Verdict.FASTER


def test_a_step_that_is_quicker_with_a_draft_than_without_is_not_to_be_trusted() -> None:
    def step_ms(k: int, value: float) -> float:
        return 10.0 if k == 2 and value == 4 else 20.0 + k

    found = analyse_sweep(drafted_sweep(1, step_ms, [0, 2, 4], [1, 4], prompts=12))
    assert [(point.load, point.k) for point in found.quick_steps] == [(load(4), 2)]
    assert list(sentences(found))[-1].startswith(
        "Not to be trusted: k 2 at concurrency 4. A decode step took less time"
    )
    honest = analyse_sweep(drafted_sweep(1, lambda k, value: 20.0 + k, [0, 2, 4], [1, 4], prompts=12))
    assert honest.quick_steps == []
    assert not any("trusted" in sentence for sentence in sentences(honest))
