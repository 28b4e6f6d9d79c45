"""When a run gives up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest

from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import ErrorRateError, NoContactError, SpecProfileError
from aiperf_spec.load.failing import FailureWatch
from aiperf_spec.load.model import Model
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.models.run import ErrorKind, Phase, RequestRecord
from aiperf_spec.profiling import Hooks, profile
from tests.answering import OK
from tests.records import failed, record

REFUSED = failed(0, ErrorKind.CONNECT_ERROR, message="no connection: h:1: Connection refused")
SERVER_ERROR = failed(0, ErrorKind.HTTP_STATUS, status=500)
GOOD = record(0, start=0, contents=(5, 9), tokens=2)


def watch(expected: int | None = 100, **settings: Any) -> FailureWatch:
    return FailureWatch(ProfileConfig(url="http://h:1", **settings), Model("m", None, ()), expected)


def looked(at: FailureWatch, *records: RequestRecord) -> list[SpecProfileError | None]:
    return [at.look(each) for each in records]


@pytest.mark.parametrize(("concurrency", "needed"), [(1, 3), (3, 3), (8, 8)])
def test_the_first_requests_are_as_many_as_the_concurrency_and_3_at_least(concurrency: int, needed: int) -> None:
    *before, last = looked(watch(concurrency=concurrency), *[REFUSED] * needed)
    assert before == [None] * (needed - 1)
    assert isinstance(last, NoContactError)
    assert last.message == (
        f"the first {needed} requests all failed, so the run stopped: no connection: h:1: Connection refused"
    )
    assert last.remedy is not None
    assert last.remedy.endswith("; --keep-going sends the rest")


def test_the_address_is_named_where_the_server_answered() -> None:
    gone = failed(0, ErrorKind.HTTP_STATUS, status=404, message="HTTP 404 Not Found")
    at = FailureWatch(ProfileConfig(url="http://h:1/x?key=secret"), Model("m", None, ()), 9)
    *_, last = looked(at, gone, gone, gone)
    assert last is not None
    assert "requests to http://h:1/x/v1/chat/completions all failed" in last.message


@pytest.mark.parametrize("other", [GOOD, SERVER_ERROR])
def test_any_other_answer_is_contact(other: RequestRecord) -> None:
    assert looked(watch(), REFUSED, REFUSED, other, *[REFUSED] * 20) == [None] * 23


def test_warm_up_counts_and_what_was_cancelled_does_not() -> None:
    cancelled, warmup = failed(0, ErrorKind.CANCELLED), replace(REFUSED, phase=Phase.WARMUP)
    assert [each is None for each in looked(watch(), warmup, cancelled, warmup, REFUSED)] == [True, True, True, False]


def test_whoever_wants_them_all_sent_gets_them_sent() -> None:
    assert looked(watch(keep_going=True), *[REFUSED] * 20) == [None] * 20


def test_a_share_ends_the_run_once_nothing_can_save_it() -> None:
    at = watch(expected=20, max_error_rate=0.1)
    assert looked(at, SERVER_ERROR, GOOD, SERVER_ERROR) == [None] * 3
    # 2 of 20 are not more than a tenth; a third one is, whatever the other 16 would have been.
    found = at.look(SERVER_ERROR)
    assert isinstance(found, ErrorRateError)
    assert found.message == "3 of 4 requests failed, more than --max-error-rate 0.1 allows"
    assert found.remedy == "look into the server's log"


def test_a_share_of_an_unknown_number_is_taken_of_30_at_least() -> None:
    at = watch(expected=None, max_error_rate=0.5)
    assert looked(at, *[SERVER_ERROR] * 15) == [None] * 15
    assert at.look(SERVER_ERROR) is not None
    at = watch(expected=None, max_error_rate=0.5)
    assert not any(looked(at, *[GOOD] * 40, *[SERVER_ERROR] * 40))
    assert at.look(SERVER_ERROR) is not None


def test_the_end_judges_those_that_ended() -> None:
    at = watch(expected=100, max_error_rate=0.5)
    assert not any(looked(at, GOOD, SERVER_ERROR))
    assert at.verdict() is None
    assert at.look(SERVER_ERROR) is None
    assert isinstance(at.verdict(), ErrorRateError)
    assert watch(max_error_rate=0.0).verdict() is None


def test_none_may_fail_at_a_rate_of_0() -> None:
    assert isinstance(watch(max_error_rate=0.0).look(SERVER_ERROR), ErrorRateError)


def run(respond: Any, **settings: Any) -> Any:
    config = ProfileConfig(
        url="http://h", model="m", streaming=False, server_metrics=False, request_count=40, **settings
    )
    return profile(config, Hooks(transport=httpx.MockTransport(respond)))


@pytest.mark.parametrize("load", [{"concurrency": 4}, {"request_rate": 2000.0}])
def test_a_run_without_contact_stops_and_keeps_what_it_has(load: dict[str, Any]) -> None:
    result = run(lambda _: httpx.Response(401, json={"error": "no"}), **load)
    assert isinstance(result.failure, NoContactError)
    assert result.stopped_by is None
    failed_, cancelled = (summarise(result.records).failed, summarise(result.records).cancelled)
    assert failed_ >= max(load.get("concurrency", 0), 3)
    assert failed_ + cancelled < 40


def test_a_run_stops_at_its_error_rate_and_keeps_its_figures() -> None:
    answered: list[int] = []

    def respond(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            answered.append(0)
        return httpx.Response(200, json=OK) if len(answered) % 2 else httpx.Response(500)

    result = run(respond, max_error_rate=0.1)
    assert isinstance(result.failure, ErrorRateError)
    summary = summarise(result.records)
    assert (summary.succeeded, summary.failed) == (5, 5)
