"""What a run has to say beside its figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.load.notices import run_notices
from aiperf_spec.models.run import DatasetInfo, Notice, NoticeKind, RequestRecord, RunResult
from aiperf_spec.render.notices import notice_text
from tests.records import MS, record


def connecting(records: list[RequestRecord]) -> list[Notice]:
    result = RunResult(
        config=ProfileConfig(url="http://h", temperature=0),
        url="http://h/v1",
        model="m",
        owned_by=None,
        dataset=DatasetInfo("built-in", None, 35, has_categories=True),
        wall_offset_ns=0,
        records=records,
    )
    notices = run_notices(result, proxy=None, adapter_warnings=())
    return [notice for notice in notices if notice.kind is NoticeKind.CONNECTING]


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
