"""Gates: their grammar, what they name, and how they end."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from rich.console import Console

from aiperf_spec.analysis.comparison.mismatches import RunSettings
from aiperf_spec.analysis.figure_names import FigureName, resolve
from aiperf_spec.analysis.gate_figures import Figures
from aiperf_spec.analysis.gates import Gate, GateResult, Reference, evaluate, parse_gate
from aiperf_spec.analysis.intervals import percentile_interval, share_interval
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.report import length, rate
from aiperf_spec.errors import ConfigError, SpecProfileError
from aiperf_spec.metrics.stats import statistic_of
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.metrics.table import RECORD_METRICS, RUN_METRICS, Group, RecordMetric, RunMetric
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.run import ErrorKind
from aiperf_spec.render.gates import gates_table
from tests.records import failed, record
from tests.simulated_runs import request, simulated_run

POOLED = "spec_decode_token_weighted_acceptance_length"
RUN = simulated_run(1, 60)


def outcome(
    expression: str, figures: Figures | None = None, base: Figures | None = None, *, strict: bool = False
) -> bool:
    (result,) = evaluate([expression], figures or Figures(RUN), base, strict=strict)
    return result.passed


@pytest.mark.parametrize(
    ("expression", "name", "sign", "bound"),
    [
        ("acceptance_length >= 2.1", FigureName(POOLED, None, None), ">=", 2.1),
        ("acceptance_length[coding]>=2.5", FigureName(POOLED, None, "coding"), ">=", 2.5),
        ("spec_decode_acceptance_length > 2", FigureName("spec_decode_acceptance_length", "avg", None), ">", 2),
        ("acceptance_length.p10 > 1.5", FigureName("spec_decode_acceptance_length", "p10", None), ">", 1.5),
        ("time_to_first_token.p99 <= 200", FigureName("time_to_first_token", "p99", None), "<=", 200),
        ("time_to_first_token.p99[a b, c] <= 2e2", FigureName("time_to_first_token", "p99", "a b, c"), "<=", 200),
        ("time_to_first_token[qa].max < .5", FigureName("time_to_first_token", "max", "qa"), "<", 0.5),
        ("  error_rate<=0.01 ", FigureName("error_rate", None, None), "<=", 0.01),
        ("draft_acceptance_rate != -1", FigureName("spec_decode_overall_draft_acceptance_rate", None, None), "!=", -1),
        ("steps >= 10", FigureName("spec_decode_steps", "avg", None), ">=", 10),
        ("request_throughput > 1", FigureName("request_throughput", None, None), ">", 1),
        ("request_throughput.avg > 1", FigureName("request_throughput", None, None), ">", 1),
        ("ttft.p42 <= 9", FigureName("time_to_first_token", "p42", None), "<=", 9),
        ("itl[qa] <= 9", FigureName("inter_token_latency", "avg", "qa"), "<=", 9),
        ("accept_length >= 2", FigureName(POOLED, None, None), ">=", 2),
        ("accept_length.p1 >= 2", FigureName("spec_decode_acceptance_length", "p1", None), ">=", 2),
        ("client_event_loop_lag.p99 <= 5", FigureName("client_event_loop_lag", "p99", None), "<=", 5),
    ],
)
def test_expressions_mean_figures(expression: str, name: FigureName, sign: str, bound: float) -> None:
    assert parse_gate(expression) == Gate(expression, name, sign, bound)


@pytest.mark.parametrize("text", ["0.97 * base", "0.97*base", "base * 0.97"])
def test_base_may_have_a_factor_on_either_side(text: str) -> None:
    gate = parse_gate(f"acceptance_length >= {text}")
    assert (gate.bound, gate.relative) == (0.97, Reference.BASE)
    assert parse_gate("acceptance_length >= base").bound == 1


@pytest.mark.parametrize(
    ("expression", "message", "remedy"),
    [
        ("aceptance_length >= 2", "no metric is named 'aceptance_length'", "the nearest name is acceptance_length"),
        ("ttfx.p99 <= 2", "no metric is named 'ttfx'", "the nearest name is ttft"),
        ("time_to_first_tokn <= 2", "no metric is named", "time_to_first_token"),
        ("time_to_first_token.p100 <= 2", "no statistic 'p100'", "time_to_first_token.p10"),
        ("client_event_loop_lag[qa] <= 2", "of the whole run", "write client_event_loop_lag alone"),
        ("error_rate.p99 <= 2", "one number and has no statistic 'p99'", "write error_rate alone"),
        ("acceptance_length", "not a condition", "METRIC >= NUMBER"),
        ("acceptance_length => 2", "not a condition", "METRIC >= NUMBER"),
        ("acceptance_length >= two", "'two' is neither a number", "METRIC >= NUMBER"),
        ("acceptance_length >= nan", "'nan' is neither a number", "METRIC >= NUMBER"),
        ("acceptance_length >= 1e999", "'1e999' is neither a number", "METRIC >= NUMBER"),
        ("acceptance_length >= 2 * best * 2", "two factors of best", "METRIC >= NUMBER"),
        ("acceptance_length >= 2 * base * 2", "two factors of base", "METRIC >= NUMBER"),
        ("acceptance_length.p50.avg >= 2", "two statistics", "METRIC >= NUMBER"),
        ("acceptance_length == true", "is a number, not true or false", "METRIC >= NUMBER"),
        ("reconciled >= true", "no order", "== or !="),
        ("reconciled == 1", "is true or false, not a number", "reconciled == true"),
        ("reconciled[qa] == true", "of the whole run", "write reconciled alone"),
        ("", "not a condition", "METRIC >= NUMBER"),
    ],
)
def test_wrong_expressions_are_named_with_what_is_right(expression: str, message: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_gate(expression)
    error: SpecProfileError = caught.value
    assert error.message.startswith(f"--require {expression!r}: ")
    assert message in error.message
    assert remedy in (error.remedy or "")


@pytest.mark.parametrize("metric", [*RECORD_METRICS, *RUN_METRICS], ids=lambda metric: metric.tag)
def test_a_row_of_a_table_is_named_by_its_label_and_its_tag(metric: RecordMetric | RunMetric) -> None:
    assert parse_gate(f"{metric.tag} > 1").name.tag == metric.tag
    unit = f" ({metric.unit})" if metric.unit in ("ms", "%") else ""
    named = parse_gate(f"{metric.label}{unit} > 1").name.tag
    alike = [each.tag for each in (*RECORD_METRICS, *RUN_METRICS) if each.label == metric.label]
    # Totals have a table of their own, whose names are those of the main one.
    assert named == alike[0] or metric.group is Group.TOTALS


def test_every_percentile_is_that_of_the_values() -> None:
    figures = Figures(RUN)
    values = sorted(record.acceptance.length or 0 for record in RUN if record.acceptance)
    for q in range(1, 100):
        (result,) = evaluate([f"acceptance_length.p{q} >= 1"], figures)
        assert result.figure.value == pytest.approx(np.percentile(values, q))


def test_the_clients_own_lag_is_a_figure_of_the_run() -> None:
    lags = [1.0, 2.0, 3.0, 10.0]
    figures = Figures(RUN, loop_lag=partial(statistic_of, lags))
    assert outcome("client_event_loop_lag.p50 == 2.5", figures)
    assert outcome("client_event_loop_lag == 4", figures)
    (result,) = evaluate(["client_event_loop_lag.p42 <= 5"], Figures(RUN, loop_lag=lambda name: None))
    assert "a finished run has p1, p5" in shown([result])


def test_a_wrong_category_lists_those_there_are() -> None:
    figures = Figures([request(i, (1, 2), category=name) for i, name in enumerate(("qa", "coding") * 6)])
    (result,) = evaluate(["acceptance_length[codng] >= 1"], figures)
    assert not result.passed
    assert "there is no such category; the run has coding, qa." in shown([result])


def test_the_pooled_length_is_what_the_short_name_means() -> None:
    summary = summarise(RUN)
    (pooled, mean, lowest) = (
        result.figure.value
        for result in evaluate(
            ["acceptance_length > 0", "acceptance_length.avg > 0", "acceptance_length.min > 0"], Figures(RUN)
        )
    )
    assert pooled == pytest.approx(summary.run_values[POOLED])
    assert mean == pytest.approx(summary.record_stats["spec_decode_acceptance_length"].avg)
    assert lowest == summary.record_stats["spec_decode_acceptance_length"].min
    assert pooled != pytest.approx(mean)


def test_values_are_held_against_their_bounds() -> None:
    value = length(RUN).value or 0
    assert outcome(f"acceptance_length >= {value - 0.001}")
    assert not outcome(f"acceptance_length >= {value + 0.001}")
    assert outcome("output_sequence_length.max < 1000")
    assert outcome("error_rate == 0")
    assert outcome("coverage_of_requests >= 0.95")
    assert outcome("coverage >= 0.9")
    assert outcome("step_time <= 10.001")
    assert outcome("request_count == 60")
    assert outcome("drafted_share == 1")


def test_steps_without_a_draft_are_gated_on() -> None:
    figures = Figures([request(i, (3, 0, i % 3), undrafted=3) for i in range(6)])
    assert outcome("acceptance_length >= 2.33", figures)
    assert outcome("tokens_per_decode_step == 1.6666666666666665", figures)
    assert outcome("drafted_share == 0.5", figures)
    assert outcome("coverage >= 0.63", figures)
    assert outcome("coverage <= 0.64", figures)
    whole = Figures([record(i, start=0, contents=(5, 5), tokens=9) for i in range(6)])
    assert not outcome("inter_token_latency <= 1", whole)
    assert not outcome("inter_token_latency.max <= 1", whole)


def test_strict_asks_the_end_of_the_interval() -> None:
    found = length(RUN)
    assert found.value is not None
    assert found.low is not None
    between = (found.value + found.low) / 2
    assert outcome(f"acceptance_length >= {between}")
    assert not outcome(f"acceptance_length >= {between}", strict=True)
    assert outcome(f"acceptance_length >= {found.low - 0.001}", strict=True)
    above = (found.value + (found.high or 0)) / 2
    assert outcome(f"acceptance_length <= {above}")
    assert not outcome(f"acceptance_length <= {above}", strict=True)
    assert outcome("request_throughput > 0", strict=True)
    assert outcome("acceptance_length != 9", strict=True)
    assert not outcome(f"acceptance_length != {above}", strict=True)


def test_strict_fails_where_n_is_too_small() -> None:
    few = Figures(RUN[:4])
    assert outcome("acceptance_length >= 1", few)
    (result,) = evaluate(["acceptance_length >= 1"], few, strict=True)
    assert (result.passed, result.reason) == (False, Missing.TOO_FEW)
    (result,) = evaluate(["request_latency.p99 <= 9999"], Figures(RUN), strict=True)
    assert (result.passed, result.reason) == (False, Missing.TOO_FEW_FOR_RANK)
    assert outcome("request_latency.p50 <= 9999", strict=True)


def test_base_is_the_other_runs_figure() -> None:
    better = Figures(simulated_run(1, 60, shift=0.05))
    base = Figures(RUN)
    assert outcome("acceptance_length > base", better, base)
    assert not outcome("acceptance_length >= 0.97 * base", base, better)
    assert outcome("request_latency.p50 <= 1.5 * base", better, base)
    # Paired, the interval is far narrower than either run's own: the same run passes a strict gate below 1.
    assert outcome("acceptance_length >= 0.97 * base", base, base, strict=True)
    assert not outcome("acceptance_length >= 1.03 * base", base, base)
    assert outcome("request_latency >= 0.99 * base", base, base, strict=True)
    # All requests of both runs have the same: nothing says how much others would differ.
    (same,) = evaluate(["time_to_first_token >= 0.99 * base"], base, base, strict=True)
    assert (same.passed, same.reason) == (False, Missing.NO_SPREAD)
    assert outcome("draft_acceptance_rate >= 0.99 * base", base, base, strict=True)
    with pytest.raises(ConfigError, match="which run is base"):
        outcome("acceptance_length >= base")


def test_best_is_the_best_candidates_figure() -> None:
    best, base = Figures(simulated_run(1, 60, shift=0.05)), Figures(RUN)

    def met(bound: str, figures: Figures, *, strict: bool = False) -> bool:
        (result,) = evaluate([f"acceptance_length >= {bound}"], figures, base, best=best, strict=strict)
        return result.passed

    assert [met("0.5 * best", base), met("best * 0.5", base, strict=True), met("best", base)] == [True, True, False]
    assert met("base", best, strict=True)
    # The best is not held against itself, whose difference scatters by nothing.
    assert met("best", best, strict=True)
    with pytest.raises(ConfigError, match="best of several candidates") as caught:
        evaluate(["acceptance_length >= 0.98 * best"], best, base)
    assert caught.value.remedy == "compare BASE CANDIDATE CANDIDATE... takes this gate"


def test_ids_pair_in_a_gate_only_within_the_same_prompts() -> None:
    told = RunSettings(prompts="a.jsonl", prompts_path="/a.jsonl")

    def strict(settings: RunSettings) -> bool:
        runs = [[replace(each, prompt_hash="") for each in simulated_run(1, 60, shift=shift)] for shift in (0, 0.05)]
        base, better = Figures(runs[0], settings=told), Figures(runs[1], settings=settings)
        return outcome("acceptance_length > 1.01 * base", better, base, strict=True)

    assert strict(told)
    assert not strict(replace(told, prompts_path="/elsewhere/a.jsonl"))
    assert not strict(RunSettings())


def test_a_metric_without_a_value_fails_and_says_so() -> None:
    silent = Figures([record(i, start=0, contents=(5, 6), tokens=2, reason=DropReason.ABSENT) for i in range(6)])
    for expression in (
        "acceptance_length >= 0",
        "acceptance_length.avg >= 0",
        "coverage >= 0",
        "total_draft_tokens >= 0",
    ):
        (result,) = evaluate([expression], silent)
        assert not result.passed
        assert "there is no value" in shown([result])
    (result,) = evaluate(["acceptance_length[nowhere] >= 0"], Figures(RUN))
    assert "no value of category nowhere" in shown([result])
    (result,) = evaluate(["acceptance_length >= base"], Figures(RUN), silent)
    assert not result.passed
    assert "the base run has no value" in shown([result])


def test_shares_of_requests() -> None:
    bad = [failed(90 + i, ErrorKind.HTTP_STATUS, status=500) for i in range(3)]
    figures = Figures([*RUN, *bad])
    (result,) = evaluate(["error_rate <= 0.01"], figures)
    assert result.figure.value == pytest.approx(3 / 63)
    assert not result.passed
    assert outcome("coverage_of_requests == 1", figures)


@pytest.mark.parametrize(("known", "passed"), [(True, True), (False, False), (None, False)])
def test_facts_are_handed_in(known: bool | None, passed: bool) -> None:
    figures = Figures(RUN, flags={"reconciled": known})
    (result,) = evaluate(["reconciled == true"], figures)
    assert result.passed == passed
    assert ("counters were not read" in shown([result])) == (known is None)
    assert outcome("reconciled != true", figures) == (known is False)


def test_categories_have_figures_of_their_own() -> None:
    mixed = [request(i, (4,) * 5, category="easy") for i in range(6)]
    mixed += [request(i + 6, (0,) * 5, category="hard") for i in range(6)]
    figures = Figures(mixed)
    assert outcome("acceptance_length[easy] == 5", figures)
    (result,) = evaluate(["acceptance_length[easy] == 5"], figures, strict=True)
    assert (result.passed, result.reason) == (False, Missing.NO_SPREAD)
    assert "every prompt gave the same value, so" in shown([result], strict=True)
    assert outcome("acceptance_length[hard] == 1", figures)
    assert outcome("output_sequence_length[hard].max == 6", figures)
    assert outcome("request_count[hard] == 6", figures)


def test_every_tag_of_the_tables_can_be_named() -> None:
    from aiperf_spec.metrics.table import RECORD_METRICS, RUN_METRICS

    for metric in RECORD_METRICS:
        assert resolve(metric.tag, None, None) == FigureName(metric.tag, "avg", None)
        assert resolve(metric.tag, "p99", None).statistic == "p99"
    for run_metric in RUN_METRICS:
        assert resolve(run_metric.tag, None, None) == FigureName(run_metric.tag, None, None)


def test_the_interval_of_a_percentile_lies_between_values() -> None:
    values = [float(i) for i in range(1, 101)]
    found = percentile_interval(values, range(100), 50, 50.5)
    # P(40 <= B <= 59) = 0.954 for B ~ Bin(100, 1 / 2).
    assert (found.low, found.high) == (40, 60)
    high = percentile_interval(values, range(100), 99, 99.0)
    assert (high.low, high.high, high.reason) == (97, None, Missing.TOO_FEW_FOR_RANK)
    thousand = percentile_interval([float(i) for i in range(1000)], range(1000), 99, 989.0)
    assert thousand.low is not None
    assert 980 < thousand.low < 989 < (thousand.high or 0) < 999


def test_the_interval_of_a_share_is_wilsons() -> None:
    none, some = share_interval([(0, 1)] * 20), share_interval([(i < 5, 1) for i in range(20)])
    assert none.low == 0
    assert none.n == 20
    assert none.high == pytest.approx(0.161, abs=1e-3)
    assert some.low == pytest.approx(0.112, abs=1e-3)
    assert some.high == pytest.approx(0.469, abs=1e-3)
    assert share_interval([]).value is None
    assert share_interval([(1, 9)] * 4).reason is Missing.TOO_FEW


def shown(results: list[GateResult], *, strict: bool = False) -> str:
    buffer = io.StringIO()
    console = Console(file=buffer, width=80, color_system=None, force_terminal=False, legacy_windows=False)
    console.print(gates_table(results, strict=strict))
    text = buffer.getvalue()
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    return " ".join(text.split())


def test_the_table_says_what_was_gated_on() -> None:
    expressions = [
        "acceptance_length >= 2.1",
        "acceptance_length.avg >= 9",
        "request_latency.p50 <= 0.9 * base",
        "reconciled == true",
    ]
    results = evaluate(expressions, Figures(RUN), Figures(RUN), strict=True)
    text = shown(results, strict=True)
    assert "pooled" in text
    assert "mean" in text
    assert "p50" in text
    assert "not known" in text
    assert "--strict" in text
    (relative,) = evaluate(["acceptance_length >= 0.97 * base"], Figures(RUN), Figures(RUN), strict=True)
    assert relative.apart is not None
    assert f"value minus bound +{relative.apart.value:.4f}" in shown([relative])
    assert not all(result.passed for result in results)
    assert math.isclose(results[2].threshold or 0, 0.9 * (results[2].figure.value or 0))


def test_a_rates_interval_ends_at_100_as_in_the_tables() -> None:
    zeros = (0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 4)
    run = [
        record(index, start=index, contents=(1, 2), tokens=9, histogram={0: few, 5: 10 - few} if few else {5: 10})
        for index, few in enumerate(zeros)
    ]
    found = Figures(run).find(parse_gate("draft_acceptance_rate <= 100").name)
    assert found.value == pytest.approx(90)
    assert found == rate(run)
    assert found.high == 100
    assert outcome("draft_acceptance_rate <= 100", Figures(run), strict=True)
