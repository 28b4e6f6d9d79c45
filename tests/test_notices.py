"""What a run has to say beside its figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.load.notices import run_notices
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.drafter import ServerDrafter
from aiperf_spec.models.run import DatasetInfo, Notice, NoticeKind, RequestRecord, RunResult
from aiperf_spec.render.notices import notice_text
from tests.records import MS, record


def notices(records: list[RequestRecord], **settings: Any) -> list[Notice]:
    extra = settings.pop("extra_inputs", {})
    result = RunResult(
        config=ProfileConfig(url="http://h", temperature=0, extra_inputs=extra),
        url="http://h/v1",
        model="m",
        dataset=DatasetInfo("built-in", None, 35, has_categories=True),
        wall_offset_ns=0,
        records=records,
        **{"owned_by": None, **settings},
    )
    return list(run_notices(result, proxy=None, adapter_warnings=()))


def connecting(records: list[RequestRecord]) -> list[Notice]:
    return [notice for notice in notices(records) if notice.kind is NoticeKind.CONNECTING]


def connected(index: int, ttft_ms: int, connect_ms: float | None) -> RequestRecord:
    made = record(index, start=0, contents=(ttft_ms, ttft_ms + 10), tokens=2, histogram={1: 2})
    return replace(made, connect_ns=None if connect_ms is None else round(connect_ms * MS))


@pytest.mark.parametrize(
    "connects", [[None] * 20, [4.7] * 20, [0.0], [], [None] * 19 + [4.7]], ids=["none", "all", "0", "empty", "one"]
)
def test_connections_that_cost_little_are_not_worth_a_word(connects: list[float | None]) -> None:
    assert connecting([connected(index, 100, connect) for index, connect in enumerate(connects)]) == []


def test_connections_that_move_the_median() -> None:
    [notice] = connecting([connected(index, 100, 5.0) for index in range(20)])
    assert notice_text(notice) == (
        "20 requests of 20 opened a connection, and TTFT includes that time: its p50 is 100.0 ms, 95.0 ms without, "
        "its p99 is 100.0 ms, 95.0 ms without. See http_connect. --warmup-request-count opens connections before the "
        "run"
    )


def test_connections_that_move_the_tail_alone() -> None:
    [notice] = connecting([*(connected(index, 100, None) for index in range(19)), connected(19, 180, 80.0)])
    assert (notice.values["count"], notice.values["of"], list(notice.values["moved"])) == (1, 20, ["p99"])
    assert notice_text(notice).startswith(
        "1 request of 20 opened a connection, and TTFT includes that time: its p99 is "
    )


def silent(index: int, tokens: int = 9, *fields: str, finish: str = "length") -> RequestRecord:
    made = record(index, start=0, contents=(5, 9), tokens=tokens, reason=DropReason.ABSENT)
    return replace(made, silencing_fields=fields, finish_reason=finish)


REPORTED = record(0, start=0, contents=(5, 9), tokens=9, histogram={1: 2})
ASKED = {"return_spec_tokens_details": True}


def test_requests_that_an_engine_never_reports_on_are_named_beside_the_averages() -> None:
    stopped = [silent(i, 9, "stop", finish="stop") for i in (1, 2)]
    others = [silent(3, 9, "use_beam_search"), silent(4, 1), silent(5), silent(6, 9, "stop")]
    (notice,) = [each for each in notices([REPORTED, *stopped, *others]) if each.kind is NoticeKind.SILENT]
    assert notice_text(notice) == (
        "4 requests of 7 reported no acceptance, and no average includes them: "
        "2 requests ended by a stop string, for which vLLM reports nothing; "
        "1 request with beam search, for which vLLM reports nothing; "
        "1 answer of one token, for which no verify step runs (raise --max-tokens)"
    )
    assert NoticeKind.NO_ACCEPTANCE not in {each.kind for each in notices([REPORTED, *stopped])}
    assert NoticeKind.SILENT not in {each.kind for each in notices([REPORTED, silent(5)])}


@pytest.mark.parametrize("owner", ["vllm", None])
def test_a_flag_that_may_be_on_is_not_advised_where_all_requests_are_such(owner: str | None) -> None:
    stopped = [silent(i, 9, "stop", finish="stop") for i in range(2)]
    (notice,) = [each for each in notices(stopped, owned_by=owner) if each.kind is NoticeKind.NO_ACCEPTANCE]
    assert "- 2 requests ended by a stop string, for which vLLM reports nothing" in notice_text(notice)
    assert "--per-request-spec-decode-metrics" not in notice_text(notice)
    (mixed,) = [
        each for each in notices([*stopped, silent(3)], owned_by=owner) if each.kind is NoticeKind.NO_ACCEPTANCE
    ]
    assert "2 requests ended by a stop string" in notice_text(mixed)
    assert "--per-request-spec-decode-metrics" in notice_text(mixed)


def test_an_sglang_that_was_asked_is_not_said_to_run_without_a_drafter_where_it_has_one() -> None:
    def said(records: list[RequestRecord], **settings: Any) -> str:
        found = notices(records, owned_by="sglang", extra_inputs=ASKED, **settings)
        return notice_text(next(each for each in found if each.kind is NoticeKind.NO_ACCEPTANCE))

    assert "1 answer of one token, for which no verify step runs" in said([silent(0, 1)])
    assert "without speculative decoding" not in said([silent(0, 1)])
    assert "runs without speculative decoding" in said([silent(0)])
    drafts = ServerDrafter(engine="sglang", method="EAGLE3")
    assert "without speculative decoding" not in said([silent(0)], drafter=drafts)
    assert "runs without speculative decoding" in said([silent(0)], drafter=replace(drafts, method=None))
