"""Waiting for a server: until it lists the model and has answered one token, and not beyond the time given."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import pytest

from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import ServerUnavailableError
from aiperf_spec.models.run import RunResult
from aiperf_spec.profiling import Hooks, profile
from tests.answering import OK

Respond = Callable[[httpx.Request], httpx.Response] | Callable[[httpx.Request], Coroutine[None, None, httpx.Response]]
LISTED = {"data": [{"id": "m"}]}


def run(respond: Respond, **settings: Any) -> RunResult:
    values: dict[str, Any] = {"model": "m", "ready_timeout": 60, "request_count": 1, **settings}
    config = ProfileConfig.create(url="http://h", streaming=False, server_metrics=False, **values)
    return profile(config, Hooks(transport=httpx.MockTransport(respond)))


def test_it_waits_until_the_model_is_listed() -> None:
    asked: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        asked.append(request.method)
        if request.method == "GET":
            listed = [{"id": "other"}, {"id": "m"}][: max(0, len(asked) - 2)]
            return httpx.Response(200, json={"data": listed})
        return httpx.Response(200, json=OK)

    assert [record.succeeded for record in run(respond).records] == [True]
    # Nothing listed twice, then another, then it: one token. Once more for what the model is called, and the run.
    assert asked == ["GET"] * 4 + ["POST", "GET", "POST"]


@pytest.mark.parametrize("status", [404, 429, 500, 503])
def test_it_waits_until_a_token_was_answered(status: int) -> None:
    bodies: list[dict[str, Any]] = []

    def respond(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=LISTED)
        bodies.append(json.loads(request.content))
        return httpx.Response(200, json=OK) if len(bodies) > 2 else httpx.Response(status, text="not loaded")

    result = run(respond, max_tokens=50, extra_inputs={"max_tokens": 70, "top_k": 4})
    assert [record.error for record in result.records] == [None]
    # Asked as the run asks, for one token.
    assert [body["max_tokens"] for body in bodies] == [1, 1, 1, 70]
    assert {body["top_k"] for body in bodies} == {4}
    assert [record.index for record in result.records] == [0]


def test_an_answer_that_is_an_error_is_none() -> None:
    asked: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=LISTED)
        asked.append(request.method)
        return httpx.Response(200, json=OK if len(asked) > 1 else {"error": {"message": "loading", "code": 503}})

    assert run(respond).records[0].succeeded
    assert len(asked) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 422])
def test_what_waiting_does_not_mend_is_left_to_the_run(status: int) -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=LISTED) if request.method == "GET" else httpx.Response(status, text="no")

    assert [record.status for record in run(respond, ready_timeout=3600).records] == [status]


@pytest.mark.parametrize("models", [b"<html>", b"[]", b'{"data": "none"}'])
def test_a_server_that_lists_nothing_is_ready_when_it_answers(models: bytes) -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=models) if request.method == "GET" else httpx.Response(200, json=OK)

    assert run(respond, ready_timeout=3600).records[0].succeeded


def test_a_model_that_is_listed_by_another_name_is_asked_in_the_end() -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        answer = {"data": [{"id": "other"}]} if request.method == "GET" else OK
        return httpx.Response(200, json=answer)

    assert run(respond, ready_timeout=0.1).records[0].succeeded


def refused(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused")


async def silent(request: httpx.Request) -> httpx.Response:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize(
    ("respond", "said"),
    [
        (refused, "it does not answer"),
        (silent, "it has not answered in time"),
        (lambda request: httpx.Response(503), "it answers HTTP 503 to a GET of its models"),
        (
            lambda request: httpx.Response(404, text="no such model"),
            "a request for one token failed: HTTP 404 Not Found: no such model",
        ),
    ],
)
def test_a_server_that_is_not_ready_in_time(respond: Respond, said: str) -> None:
    with pytest.raises(ServerUnavailableError, match=r"not ready within 0.1 s \(--ready-timeout\): ") as raised:
        run(respond, ready_timeout=0.1)
    assert raised.value.message.endswith(said)


def test_an_empty_list_is_not_ready_without_a_model() -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"data": []})

    with pytest.raises(ServerUnavailableError, match="it lists no model"):
        run(respond, model=None, ready_timeout=0.1)
