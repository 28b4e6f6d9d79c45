"""The block with which a run ends: its figures, and its lines at several widths."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aiperf_spec.analysis.answer import Setup, answer_of, setup_of
from aiperf_spec.analysis.report import analyse
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.drafter import ServerDrafter
from aiperf_spec.models.run import DatasetInfo, ErrorKind, RequestRecord, RunResult
from aiperf_spec.models.server_metrics import Agreement, CountName, ReconciledCount, Reconciliation
from aiperf_spec.render.answer import agreement, answer_block, setup_parts
from tests.records import failed, record
from tests.test_tables import a_run, shown


def eight(**changes: Any) -> list[RequestRecord]:
    """Return 8 prompts of two categories, each asked twice: coding accepts 3 of 5 a step, math 1 of 5, or nearly."""
    return [
        replace(
            record(
                i,
                start=0,
                contents=(10 + i % 8, 110),
                tokens=1 + 40,
                histogram={3: 10 - i % 2} if i % 8 < 4 else {1: 10, 0: 1 + i % 3},
                category="coding" if i % 8 < 4 else "math",
            ),
            prompt_id=f"prompt-{i % 8}",
            **changes,
        )
        for i in range(16)
    ]


def counted(difference: int, kind: Agreement) -> Reconciliation:
    steps = ReconciledCount("verify steps", "vllm:steps", 100, None if not kind.known else 100 + difference)
    return Reconciliation(kind, 16, {}, None, settled=True, counts=(steps,))


def block(result: RunResult, width: int, *, with_analysis: bool = True) -> str:
    analysis = analyse(result.records) if with_analysis else None
    return shown(answer_block(result, answer_of(result, summarise(result.records), analysis)), width)


def test_the_answer_holds_the_pooled_figures_of_the_analysis() -> None:
    result = replace(a_run(eight()), server_version="0.32.0", reconciliation=counted(0, Agreement.EXACT))
    summary, analysis = summarise(result.records), analyse(result.records)
    answer = answer_of(result, summary, analysis)
    assert (answer.length, answer.rate) == (analysis.run.length, analysis.run.rate)
    assert answer.length.n == 8
    assert answer.best is not None
    assert answer.worst is not None
    assert answer.best == ("coding", 4.0)
    assert answer.worst[0] == "math"
    assert 1 < answer.worst[1] < 2
    assert answer.setup == Setup(("vllm",), "0.32.0", None, (5,))
    assert answer.summary.acceptance.requests == answer.summary.succeeded == answer.summary.due == 16


def test_the_block_is_short_and_says_what_was_run_first() -> None:
    result = replace(
        a_run(eight()),
        server_version="0.32.0",
        reconciliation=counted(0, Agreement.EXACT),
        dataset=DatasetInfo("p.jsonl", "p.jsonl", 8, has_categories=True, turns=8),
    )
    lines = block(result, 100).splitlines()
    assert 6 <= len(lines) <= 10
    assert lines[1].startswith("vLLM 0.32.0, k 5  meta-llama/Llama-3.1-8B-Instruct  chat, streaming, concurrency 4")
    assert "8 prompts x 2" in lines[1] + lines[2]
    text = " ".join(" ".join(lines).split())
    assert "(95 %: " in text
    assert ", 8 prompts) best coding 4.00, worst math" in text
    assert "TTFT p50 14 p99 17 ms ITL p50 " in text
    assert "16 of 16 succeeded and reported; the server's counters agree" in text


@pytest.mark.parametrize("width", [40, 60, 72, 80, 120])
def test_no_width_loses_a_figure(width: int) -> None:
    result = replace(a_run(eight()), server_version="0.32.0", reconciliation=counted(7, Agreement.SERVER_MORE))
    text = block(result, width)
    assert max(map(len, text.splitlines())) <= width
    assert " ".join(text.replace("─", "").split()) == " ".join(block(result, 1000).replace("─", "").split())


def test_few_prompts_and_a_missing_analysis_give_no_interval_and_say_why() -> None:
    few = [each for each in eight() if each.prompt_id in ("prompt-0", "prompt-5")]
    assert "(n too small for an interval: 2 prompts)" in block(a_run(few), 120)
    assert "(no interval without records)" in block(a_run(eight()), 120, with_analysis=False)
    same = [record(i, start=0, contents=(5, 9), tokens=9, histogram={2: 4}) for i in range(6)]
    assert "(no interval: every prompt gave the same" in block(a_run(same), 120)


def test_what_spoils_the_requests_is_counted() -> None:
    records = [
        *eight(),
        record(16, start=0, contents=(5, 9), tokens=9, reason=DropReason.MALFORMED),
        failed(17, ErrorKind.HTTP_STATUS, status=500),
        failed(18, ErrorKind.CANCELLED),
    ]
    text = " ".join(block(a_run(records), 80).split())
    assert "17 of 19 succeeded, 1 failed, 1 cancelled; 16 of 17 reported acceptance (1 malformed);" in text
    assert "no server counters to compare" in text


def test_without_success_only_that_is_said() -> None:
    text = block(a_run([failed(0, ErrorKind.CONNECT_ERROR)]), 80)
    assert "0 of 1 succeeded, 1 failed" in text
    assert "Acceptance" not in text
    assert "tok/s" not in text


def test_without_acceptance_there_is_no_length() -> None:
    silent = [record(i, start=0, contents=(5, 9), tokens=9, reason=DropReason.ABSENT) for i in range(6)]
    text = block(a_run(silent), 80)
    assert "0 of 6 reported acceptance" in text
    assert "Acceptance length" not in text
    assert "counters" not in text


def test_a_body_at_once_has_a_latency_alone() -> None:
    whole = eight(streaming=False, first_content_ns=None, chunk_gaps_ns=None)
    text = block(a_run(whole, streaming=False), 100)
    assert "Latency p50 " in text
    assert "TTFT" not in text


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "no server counters to compare"),
        (counted(0, Agreement.EXACT), "the server's counters agree"),
        (counted(3, Agreement.SERVER_MORE), "the server counted 3 verify steps more"),
        (counted(-1, Agreement.SERVER_FEWER), "the server counted 1 verify step fewer"),
        (counted(0, Agreement.MIXED), "the server's counters differ"),
        (counted(0, Agreement.RESET), "the server's counters cannot be compared"),
    ],
)
def test_how_the_server_s_counters_stand_is_said(found: Reconciliation | None, said: str) -> None:
    assert agreement(found) == said


def test_the_setup_comes_from_responses_else_from_the_server() -> None:
    drafter = ServerDrafter(engine="sglang", method="EAGLE3", depth=3, branches=1, verified=4, drafts_chains=True)
    silent = [record(0, start=0, contents=(5, 9), tokens=9, reason=DropReason.ABSENT)]
    result = replace(a_run(silent), owned_by="sglang", drafter=drafter, server_version="0.5\x1b[1m")
    setup = setup_of(result, summarise(silent))
    assert setup == Setup(("sglang",), "0.5\x1b[1m", "EAGLE3", (3,))
    assert setup_parts(setup) == ["SGLang 0.5\\x1b[1m", "EAGLE3", "k 3"]
    assert setup_parts(Setup(("acme",), None, None, (2, 4))) == ["acme", "k 2, 4"]
    assert setup_parts(Setup()) == []


def test_the_servers_counters_answer_where_no_request_reported() -> None:
    silent = [replace(each, acceptance=None, drop_reason=DropReason.ABSENT) for each in eight()]
    names = (CountName.VERIFY_STEPS, CountName.PROPOSED, CountName.ACCEPTED)
    counts = tuple(ReconciledCount(name, "m", 0, n) for name, n in zip(names, (100, 500, 123), strict=True))
    found = Reconciliation(Agreement.SERVER_MORE, 0, {"absent": 16}, 16, settled=True, counts=counts)
    result = replace(a_run(silent), reconciliation=found)
    text = block(result, 100)
    assert "Acceptance length  2.23  (server's counters, all traffic)" in text
    assert "Draft acceptance   24.6 %" in text
    assert "counters" not in block(replace(result, reconciliation=None), 100)
    assert "counters, all traffic" not in block(replace(a_run(eight()), reconciliation=found), 100)
