"""Draft totals of requests without verify steps: pooled, shown, written and read back, and in no other figure."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from aiperf_spec.analysis.answer import answer_of
from aiperf_spec.analysis.server_acceptance import exact_length
from aiperf_spec.artifacts.read.records import read_record
from aiperf_spec.artifacts.read.summary_file import SummaryFile, summary_of
from aiperf_spec.artifacts.write.record_lines import record_line
from aiperf_spec.artifacts.write.summary_files import summary_json
from aiperf_spec.load.notices import run_notices
from aiperf_spec.metrics.pooled_totals import pool_totals
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.draft_totals import DraftTotals
from aiperf_spec.models.run import ErrorKind, NoticeKind, RequestRecord
from aiperf_spec.models.server_metrics import Agreement, Reconciliation
from aiperf_spec.render.answer import answer_block
from aiperf_spec.render.draft_totals import totals_table
from aiperf_spec.render.notices import notice_text
from aiperf_spec.render.server_side import reconciliation_table
from aiperf_spec.server_metrics.reconciliation import reconcile
from tests.records import failed, record
from tests.test_analysis_cli import words
from tests.test_server_metrics import measured, recorded
from tests.test_tables import a_run, shown


def with_totals(index: int, start: int = 0, **changes: Any) -> RequestRecord:
    """Return a success of 90 ms whose engine reported 10 drafts, 4 of them accepted, in 2 to 7 steps."""
    totals = DraftTotals(
        **{
            "engine": "llama_cpp",
            "num_draft_tokens": 10,
            "num_accepted_draft_tokens": 4,
            "fewest_steps": 2,
            "most_steps": 7,
            "completion_tokens": 12,
            **changes,
        }
    )
    made = record(index, start=start, contents=(10, 89), tokens=12, reason=DropReason.TOTALS_ONLY)
    return replace(made, draft_totals=totals)


FOUR = [with_totals(index) for index in range(4)]


def page(steps: int, proposed: int, accepted: int) -> str:
    counts = {"drafts": steps, "draft_tokens": proposed, "accepted_tokens": accepted}
    names = ((f"llamacpp:spec_decode_num_{name}_total", value) for name, value in counts.items())
    return "".join(f"# HELP {name} x\n# TYPE {name} counter\n{name} {value}\n" for name, value in names)


def against(steps: int, proposed: int, accepted: int, records: list[RequestRecord] = FOUR) -> Reconciliation:
    found = reconcile(records, measured(recorded(page(0, 0, 0), page(steps, proposed, accepted))))
    assert found is not None
    return found


def test_the_length_lies_between_the_bounds_of_the_steps() -> None:
    pooled = pool_totals(FOUR)
    assert (pooled.requests, pooled.proposed, pooled.accepted, pooled.left_out) == (4, 40, 16, 0)
    assert (pooled.rate_percent, pooled.least_length, pooled.greatest_length) == (40.0, 1 + 16 / 28, 3.0)


def test_no_figure_of_records_is_made_of_totals() -> None:
    summary = summarise([*FOUR, record(9, start=0, contents=(1, 2), tokens=4, histogram={3: 1})])
    assert (summary.acceptance.requests, summary.acceptance.length) == (1, 4.0)
    assert summary.record_stats["spec_decode_acceptance_length"].count == 1
    assert summary.drop_reasons == {DropReason.TOTALS_ONLY: 4}
    assert summary.run_values["total_draft_tokens"] == 5
    assert summary.run_values["draft_totals_draft_tokens"] == 40


def test_totals_of_a_whole_batch_count_where_the_request_ran_alone() -> None:
    batch = {"whole_batch": True, "fewest_steps": 3, "most_steps": 3}
    alone, last = with_totals(0, 0, **batch), with_totals(3, 400, **batch)
    beside = [with_totals(1, 100, **batch), with_totals(2, 150, **batch)]
    assert pool_totals([alone, *beside, last]).requests == 2
    assert pool_totals([alone, *beside, last]).left_out == 2
    failing = replace(failed(4, ErrorKind.READ_ERROR), start_ns=410_000_000, end_ns=420_000_000)
    assert pool_totals([alone, last, failing]).requests == 1
    assert pool_totals([with_totals(1, 100), with_totals(2, 150)]).left_out == 0


def test_a_line_is_read_as_it_was_written() -> None:
    line = record_line(FOUR[0], 0)
    assert read_record(line).draft_totals == FOUR[0].draft_totals
    assert read_record(line).drop_reason is DropReason.TOTALS_ONLY
    assert json.loads(line)["spec_decode_draft_totals"]["most_steps"] == 7
    assert "draft_totals" not in json.loads(record_line(replace(FOUR[0], draft_totals=None), 0))


@pytest.mark.parametrize("change", [{"num_accepted_draft_tokens": 11}, {"most_steps": 1}, {"fewest_steps": "2"}])
def test_a_line_whose_totals_contradict_each_other_is_no_record(change: dict[str, Any]) -> None:
    line = json.loads(record_line(FOUR[0], 0))
    line["spec_decode_draft_totals"] |= change
    with pytest.raises(ValueError, match=r"draft|steps|int"):
        read_record(json.dumps(line).encode())


def test_the_summary_file_has_keys_of_its_own_and_is_read_back() -> None:
    result = a_run(FOUR)
    written = json.loads(summary_json(result, summarise(FOUR)))
    assert written["draft_totals_draft_acceptance_rate"] == {"unit": "%", "avg": 40.0}
    assert written["draft_totals_greatest_acceptance_length"]["avg"] == 3.0
    assert "spec_decode_overall_draft_acceptance_rate" not in written
    read = summary_of(SummaryFile.model_validate(written))
    assert read.run_values["draft_totals_least_acceptance_length"] == 1 + 16 / 28
    assert "1.57 to 3.00" in shown(totals_table(result, read) or "", 100)


def test_what_is_shown() -> None:
    result, summary = a_run(FOUR), summarise(FOUR)
    table = totals_table(result, summary)
    assert table is not None
    assert shown(table, 100).split("\n")[:4] == [
        "Acceptance of requests that reported no verify steps",
        "Draft acceptance rate  40.00 %  (16 of 40 draft tokens accepted)",
        "Acceptance length      1.57 to 3.00  (the bounds that the totals and the token counts give)",
        "4 requests reported draft totals only; no other table includes them.",
    ]
    block = words(shown(answer_block(result, answer_of(result, summary, None)), 100))
    assert "Acceptance length 1.57 to 3.00 (4 requests without verify steps)" in block
    assert "Draft acceptance 40.0 %" in block
    assert totals_table(result, summarise([record(1, start=0, contents=(1, 2), tokens=3, histogram={1: 1})])) is None


def test_counters_that_agree_on_the_drafts_give_the_length_exactly() -> None:
    found = against(20, 40, 16)
    assert (found.agreement, found.requests_reported, found.requests_silent) == (Agreement.EXACT, 4, {})
    assert exact_length(found) == 1.8
    result, summary = replace(a_run(FOUR), reconciliation=found), summarise(FOUR)
    assert "1.80  (by the verify steps that the server counted" in shown(totals_table(result, summary) or "", 100)
    block = words(shown(answer_block(result, answer_of(result, summary, None)), 100))
    assert "Acceptance length 1.80 (4 requests" in block
    told = shown(reconciliation_table(found), 100)
    assert "They agree exactly, over 4 requests that reported drafts, and some no verify steps." in told


@pytest.mark.parametrize("counted", [(20, 45, 16), (20, 40, 15)])
def test_counters_of_other_drafts_give_no_exact_length(counted: tuple[int, int, int]) -> None:
    found = against(*counted)
    assert found.agreement in (Agreement.SERVER_MORE, Agreement.SERVER_FEWER)
    assert exact_length(found) is None
    assert "more than our requests" in (text := shown(reconciliation_table(found), 100)) or "counted less" in text


def test_where_every_request_has_steps_they_are_compared_as_ever() -> None:
    ours = [record(9, start=0, contents=(1, 2), tokens=4, histogram={3: 1})]
    found = against(1, 5, 3, ours)
    assert (found.agreement, found.steps.difference, exact_length(found)) == (Agreement.EXACT, 0, None)


@pytest.mark.parametrize(
    ("inputs", "streaming", "said"),
    [
        ({}, True, "To have them, add --extra-inputs timings_per_token:true"),
        ({}, False, "leave --no-streaming out, and add --extra-inputs timings_per_token:true"),
        ({"timings_per_token": True}, True, "Some of their tokens came without text"),
    ],
)
def test_a_notice_says_what_to_do(inputs: dict[str, Any], streaming: bool, said: str) -> None:
    result = a_run(FOUR)
    config = result.config.model_copy(update={"extra_inputs": inputs, "streaming": streaming})
    notices = run_notices(replace(result, config=config), proxy=None, adapter_warnings=())
    [notice] = [each for each in notices if each.kind is NoticeKind.TOTALS_ONLY]
    assert notice_text(notice).startswith("4 requests of 4 reported draft totals but no verify steps")
    assert said in notice_text(notice)
