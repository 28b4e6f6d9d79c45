"""Coverage, step time, speed-up, drift, prompt length and outliers of runs made by hand."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import fmean

import pytest
from rich.console import Console

from aiperf_spec.analysis import Analysis, analyse
from aiperf_spec.analysis.drift import drift, longest_rejection
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.outliers import outliers, prompt_length
from aiperf_spec.analysis.speed import coverage, pooled_itl, speed_up, step_time
from aiperf_spec.artifacts.read.records import load_records
from aiperf_spec.artifacts.write.analysis_json import analysis_json
from aiperf_spec.config.settings import ReportSettings
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.response import PromptAndAnswer
from aiperf_spec.models.run import ErrorKind, Phase
from aiperf_spec.render.analysis import analysis_report
from tests.records import failed, record
from tests.simulated_runs import request, simulated_run


def shown(analysis: Analysis, **more: object) -> str:
    buffer = io.StringIO()
    console = Console(file=buffer, width=80, color_system=None, force_terminal=False, legacy_windows=False)
    console.print(analysis_report(analysis, **more))  # type: ignore[arg-type]
    return buffer.getvalue()


def test_coverage_leaves_the_prefills_token_out() -> None:
    records = [request(i, (1, 2, 3)) for i in range(6)]
    assert coverage(records).value == pytest.approx(9 / 10)
    records[0].output_tokens = 999  # a tokenizer's count; the engine's own stands in the record
    assert coverage(records).value == pytest.approx(9 / 10)


def test_time_per_step_and_token() -> None:
    records = [request(i, (1, 3)) for i in range(6)]
    assert step_time(records).value == pytest.approx(10)
    assert pooled_itl(records).value == pytest.approx(20 / 6)
    for each in records:
        each.first_content_ns = None
    assert step_time(records).reason is Missing.NO_TIMES
    assert step_time(records).value is None


def test_a_speed_up_is_the_product_of_its_parts() -> None:
    run = simulated_run(1, 40)
    found = speed_up(run, baseline_itl_ms=9.0)
    assert found.measured.value == pytest.approx(9.0 / (pooled_itl(run).value or 0))
    assert found.tokens_per_step is not None
    assert found.per_step is not None
    assert found.kept is not None
    assert found.tokens_per_step * found.per_step * found.kept == pytest.approx(found.measured.value)
    assert found.tokens_per_step == pytest.approx(analyse(run).run.length.value)
    assert found.per_step == pytest.approx(0.9)
    assert found.kept == pytest.approx(1)


def test_a_speed_up_against_a_run_without_speculation() -> None:
    run = simulated_run(1, 40)
    plain = [record(i, start=0, contents=(10, 10 + 9 * (20 + i)), tokens=21 + i) for i in range(9)]
    found = speed_up(run, baseline=plain)
    assert found.baseline_itl_ms == pytest.approx(9)
    assert found.baseline_requests == 9
    given = speed_up(run, baseline_itl_ms=9.0)
    assert found.measured.value == pytest.approx(given.measured.value)
    # No scatter in the baseline, yet fewer requests to know that from.
    assert (found.measured.low or 0) < (given.measured.low or 0)
    assert speed_up(run).measured.reason is Missing.NO_BASELINE
    assert speed_up([], baseline_itl_ms=9.0).reason is Missing.NO_TIMES
    assert speed_up(run, baseline=[]).reason is Missing.NO_TIMES


def test_steps_without_a_draft_are_decode_steps() -> None:
    run = [request(i, (4, 0, i % 5, 0), undrafted=i) for i in range(10)]
    accepted, verified, undrafted = 40 + 20, 40, 45
    found = analyse(run, ReportSettings(baseline_itl=10.0))
    assert found.run.length.value == pytest.approx(1 + accepted / verified)
    assert found.tokens_per_decode_step.value == pytest.approx(1 + accepted / (verified + undrafted))
    assert found.drafted_share.value == pytest.approx(verified / (verified + undrafted))
    # The last step of each accepted nothing, so that none of them can have been cut.
    assert (found.undrafted_steps, found.undrafted_at_most) == (undrafted, undrafted)
    assert found.step_time_ms.value == pytest.approx(10)
    assert found.coverage.value == pytest.approx((accepted + verified) / (accepted + verified + undrafted + 10))
    speed = found.speed_up
    assert speed.tokens_per_step == pytest.approx(found.tokens_per_decode_step.value)
    assert speed.per_step == pytest.approx(1)
    assert speed.kept == pytest.approx(1)
    assert speed.measured.value == pytest.approx(speed.tokens_per_step)
    text = " ".join(shown(found).split())
    assert "Tokens per decode step 1.71" in text
    assert "Decode steps with a draft (%) 47.06" in text
    assert "45 decode steps ran without a draft and gave one token each." in text
    assert "Length by output tokens so far is not given: some steps ran without a draft" in " ".join(
        shown(analyse([request(i, (1,) * 10, undrafted=4) for i in range(6)])).split()
    )


def test_a_drafter_that_drafts_for_every_step_is_shown_as_before() -> None:
    # Every last step was cut by one token, which hides no step: nothing ran without a draft anywhere.
    run = [request(i, (4, 0, 2), undrafted=-1) for i in range(6)]
    found = analyse(run)
    assert (found.drafted_share.value, found.undrafted_at_most) == (1, 0)
    assert found.tokens_per_decode_step.value == found.run.length.value
    assert found.coverage.value == pytest.approx(8 / 9)
    assert "without a draft" not in shown(found)
    assert "Tokens per decode step" not in shown(found)


def test_a_real_n_gram_drafter_left_more_than_half_of_the_steps_without_a_draft() -> None:
    found = analyse(load_records(Path(__file__).parent / "aiperf" / "vllm-speedbench").records)
    assert found.run.length.value == pytest.approx(2.01, abs=0.005)
    assert found.step_time_ms.value == pytest.approx(29.7, abs=0.05)
    assert found.drafted_share.value == pytest.approx(0.46, abs=0.005)
    assert (found.undrafted_steps, found.undrafted_at_most) == (558, 606)
    # 478 verify steps gave 962 of 1,520 decoded tokens; the 16 others are the prompts' own.
    assert found.coverage.value == pytest.approx(962 / 1536)
    text = " ".join(shown(found).split())
    assert "Time per decode step (ms) 29.70" in text
    assert "Decode steps with a draft (%) 46.14" in text
    assert "558 to 606 decode steps ran without a draft" in text


def test_a_request_in_which_no_step_had_a_draft_counts_among_the_decode_steps() -> None:
    silent = record(9, start=0, contents=(10, 110), tokens=11, reason=DropReason.ZERO_STEP)
    found = analyse([*(request(i, (1, 0)) for i in range(5)), silent])
    assert found.drafted_share.value == pytest.approx(10 / 20)
    assert found.step_time_ms.value == pytest.approx(10)


def test_a_speed_up_is_taken_apart_by_the_engines_own_tokens_alone() -> None:
    run = simulated_run(1, 20)
    run[0].output_tokens = 999
    found = speed_up(run, baseline_itl_ms=9.0)
    assert found.measured.value is not None
    assert (found.kept, found.reason) == (None, Missing.OTHER_TOKEN_COUNT)
    said = " ".join(shown(analyse(run, ReportSettings(baseline_itl=9.0))).split())
    assert (
        "The speed-up is not split into its parts: --tokenizer and the engine count different numbers of tokens."
        in said
    )


def test_content_that_came_in_one_read_has_no_times() -> None:
    run = [request(i, (1, 3)) for i in range(6)]
    for each in run[:3]:
        each.last_content_ns = each.first_content_ns
    assert step_time(run).value == pytest.approx(10)
    assert step_time(run).n == 3
    assert pooled_itl(run).value == pytest.approx(20 / 6)
    assert step_time(run[:3]).reason is Missing.NO_TIMES


def test_drift_is_seen_within_responses() -> None:
    records = [request(i, (0,) * 10 + (2,) * 10) for i in range(6)]
    found = drift(records)
    assert [tenth.value for tenth in found.tenths] == [1] * 5 + [3] * 5
    assert found.change is not None
    assert (found.change.value, found.change.reason) == (2, Missing.NO_SPREAD)
    assert (found.longest_rejection, found.longest_in) == (10, 0)
    assert found.autocorrelation is not None
    # Of 19 products of neighbours 18 are +1 and one is -1; the squares are 20, their mean is 1.
    assert found.autocorrelation.value == pytest.approx((17 + 1) / 20)


def test_independent_steps_are_seldom_called_correlated() -> None:
    called, values = 0, []
    for seed in range(400):
        random = Random(seed)
        steps = (tuple(random.choices((0, 1, 4), k=random.randint(10, 40))) for _ in range(40))
        lag = drift([request(i, each) for i, each in enumerate(steps)]).autocorrelation
        assert lag is not None
        assert lag.low is not None
        assert lag.high is not None
        values.append(lag.value or 0.0)
        called += not lag.low <= 0 <= lag.high
    assert 0.03 <= called / 400 <= 0.075
    assert abs(fmean(values)) < 0.005


def test_buckets_go_by_tokens_put_out_before() -> None:
    found = drift([request(i, (3,) * 20) for i in range(6)])
    assert [(bucket.start, bucket.end) for bucket in found.buckets] == [(0, 64), (64, None)]
    # Steps start after 1, 5, 9 ... tokens: 16 of them before the 64th.
    assert [bucket.length.value for bucket in found.buckets] == [4, 4]
    assert drift([request(0, (1,) * 3)]).buckets[0].end is None


def test_short_responses_and_engines_without_steps_have_no_drift() -> None:
    assert drift([request(0, (1, 0, 1), per_step=False)]).reason is Missing.NO_PER_STEP
    short = drift([request(i, (1, 0, 0)) for i in range(6)])
    assert (short.responses, short.tenths, short.longest_rejection) == (0, (), 2)
    assert drift([request(i, (4,) * 12) for i in range(6)]).autocorrelation is not None
    assert longest_rejection([]) == 0


def test_outliers_need_enough_steps() -> None:
    records = [
        request(0, (0,) * 5),
        request(1, (1,) * 12),
        request(2, (0,) * 10, category="math"),
        request(3, (4,) * 30),
    ]
    found = outliers(records, 2)
    assert [(each.index, each.prompt_id, each.category) for each in found.requests] == [
        (2, "prompt-2", "math"),
        (1, "prompt-1", None),
    ]
    assert (found.considered, found.left_out) == (3, 1)
    assert outliers(records, 0).requests == ()


def test_a_prompt_is_one_of_the_worst_once_whatever_its_repeats() -> None:
    repeats = [request(i, (i % 3,) * 12, prompt=f"prompt-{i % 2}") for i in range(12)]
    second_turn = request(12, (1,) * 12, prompt="prompt-0", turn=1)
    found = outliers([*repeats, second_turn], 5)
    assert [(each.prompt_id, each.turn_index, each.index) for each in found.requests] == [
        ("prompt-0", 0, 0),
        ("prompt-1", 0, 3),
        ("prompt-0", 1, 12),
    ]
    assert found.considered == 13


def test_prompt_length_is_correlated_by_rank() -> None:
    falling = [request(i, (4 - i // 3,) * 10) for i in range(12)]
    found = prompt_length(falling)
    assert found.correlation.value == pytest.approx(-0.95, abs=0.03)
    assert found.correlation.high is not None
    assert found.correlation.high < -0.8
    assert [(each.shortest, each.longest) for each in found.quarters] == [
        (10, 12),
        (13, 15),
        (16, 18),
        (19, 21),
    ]
    assert [quarter.length.value for quarter in found.quarters] == [5, 4, 3, 2]
    same = [request(i, (1,) * 10) for i in range(6)]
    assert prompt_length(same).correlation.value is None
    assert prompt_length(falling[:3]).correlation.reason is Missing.TOO_FEW


def test_prompts_of_one_length_make_one_quarter() -> None:
    records = [request(i, (i % 3,) * 10) for i in range(8)]
    for each in records:
        each.input_tokens = 7
    assert len(prompt_length(records).quarters) == 1


def test_failed_and_warm_up_requests_are_in_no_analysis() -> None:
    warm = replace(request(90, (4,) * 40), phase=Phase.WARMUP)
    bad = failed(91, ErrorKind.HTTP_STATUS, status=500)
    run = simulated_run(1, 20)
    assert analyse([*run, warm, bad]) == analyse(run)


def test_a_run_without_acceptance_has_reasons_and_shows_nothing() -> None:
    analysis = analyse([record(i, start=0, contents=(5, 6), tokens=2) for i in range(6)])
    assert analysis.run.length.value is None
    assert analysis.run.what_if.reason is Missing.NO_RECORDS
    assert shown(analysis).strip() == ""
    assert b'"no_records"' in analysis_json(analysis)
    assert analyse([]).run.requests == 0


def test_the_report_fits_eighty_columns_and_says_what_is_an_estimate() -> None:
    run = [replace(each, category="a long name of a category of prompts") for each in simulated_run(2, 60)]
    text = shown(
        analyse(run, ReportSettings(draft_cost=0.2, baseline_itl=12.5)),
        by_category=True,
        texts={each.index: PromptAndAnswer("[bold]asked[/bold]", "got\x1b[31m") for each in run},
    )
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "(estimate)" in text
    assert "not measured" in text
    assert "Best k' at a draft cost of 0.2" in " ".join(text.split())
    assert "Position acceptance, a long name" in text
    assert "[bold]asked[/bold]" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (
            [request(i, (1, 0), k=None, proposed=6) for i in range(6)],
            "add --assume-chain if you know that it drafts chains",
        ),
        ([request(i, (1, 0), k=3, proposed=5) for i in range(6)], "does not say which"),
        ([request(i, (1, 0), per_step=False) for i in range(6)], "does not report single steps"),
        ([request(i, (1, 0)) for i in range(4)], "n too small"),
    ],
)
def test_what_is_missing_is_said(run: list, words: str) -> None:  # type: ignore[type-arg]
    assert words in " ".join(shown(analyse(run)).split())
