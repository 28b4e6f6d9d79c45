from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_spec.models.response import ParsedResponse, Usage
from aiperf_spec.models.run import ErrorKind
from aiperf_spec.wire.outcome import Timing, answer_message, finish_reason, request_failure, timing, unread_fields
from aiperf_spec.wire.response_reader import ResponseReader

OPENER = ParsedResponse(1, choice_indices=(0,))
TOKEN = ParsedResponse(2, text="a", is_content=True, choice_indices=(0,))
FINISH = ParsedResponse(3, choice_indices=(0,), finish_reasons=("stop",))
USAGE = ParsedResponse(4, usage=Usage(3, 1, 4))
ZERO_USAGE = ParsedResponse(4, usage=Usage(3, 0, 3))
DONE = ParsedResponse(5, is_done=True)
ERROR = ParsedResponse(6, error="out of memory")
UNREADABLE = ParsedResponse(6, error="the server sent what is not JSON: x", malformed=True)
ABORT = ParsedResponse(3, choice_indices=(0,), finish_reasons=("abort",))
BODY = ParsedResponse(9, text="a", is_content=True, choice_indices=(0,), finish_reasons=("stop",), usage=Usage(3, 1))
EMPTY_BODY = ParsedResponse(9, choice_indices=(0,), finish_reasons=("stop",))


def kind_of(responses: list[ParsedResponse], *, is_stream: bool = True) -> ErrorKind | None:
    error = request_failure(responses, is_stream=is_stream)
    return None if error is None else error.kind


@pytest.mark.parametrize(
    "responses",
    [
        [OPENER, TOKEN, FINISH, USAGE, DONE],
        [OPENER, TOKEN, FINISH],
        [TOKEN, DONE],
        [OPENER, FINISH, USAGE, DONE],
        [TOKEN, FINISH, ZERO_USAGE],
    ],
    ids=["whole", "no end mark", "no finish reason", "special tokens only", "usage says zero"],
)
def test_a_stream_that_succeeds(responses: list[ParsedResponse]) -> None:
    assert request_failure(responses, is_stream=True) is None


def test_a_body_that_succeeds() -> None:
    assert request_failure([BODY], is_stream=False) is None


def test_a_body_may_have_no_finish_reason() -> None:
    assert request_failure([ParsedResponse(9, text="a", is_content=True, choice_indices=(0,))], is_stream=False) is None


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_choice_that_ended_in_an_error_fails(is_stream: bool) -> None:
    failed = ParsedResponse(3, text="a", is_content=True, choice_indices=(0,), finish_reasons=("error",))
    responses = [TOKEN, failed, USAGE, DONE] if is_stream else [failed]
    found = request_failure(responses, is_stream=is_stream)
    assert found is not None
    assert (found.kind, found.message) == (
        ErrorKind.SERVER_ERROR,
        "the server failed within the response (finish_reason: error)",
    )


@pytest.mark.parametrize(
    "responses",
    [
        [ERROR],
        [OPENER, TOKEN, ERROR],
        [OPENER, TOKEN, ERROR, USAGE, DONE],
        [OPENER, TOKEN, FINISH, USAGE, DONE, ERROR],
        [ABORT, ERROR],
    ],
)
@pytest.mark.parametrize("is_stream", [True, False])
def test_a_server_error_fails_even_after_tokens(responses: list[ParsedResponse], is_stream: bool) -> None:
    error = request_failure(responses, is_stream=is_stream)
    assert error is not None
    assert (error.kind, error.message) == (ErrorKind.SERVER_ERROR, "out of memory")


def test_an_unreadable_event_fails_as_malformed() -> None:
    assert kind_of([OPENER, TOKEN, UNREADABLE, FINISH, DONE]) is ErrorKind.MALFORMED


def test_the_first_error_counts() -> None:
    assert kind_of([UNREADABLE, ERROR]) is ErrorKind.MALFORMED
    assert kind_of([ERROR, UNREADABLE]) is ErrorKind.SERVER_ERROR


@pytest.mark.parametrize("is_stream", [True, False])
def test_an_aborted_choice_fails(is_stream: bool) -> None:
    assert kind_of([TOKEN, ABORT, USAGE, DONE], is_stream=is_stream) is ErrorKind.ABORTED


@pytest.mark.parametrize("responses", [[], [OPENER], [OPENER, TOKEN], [OPENER, TOKEN, USAGE]])
def test_a_stream_without_an_end_is_incomplete(responses: list[ParsedResponse]) -> None:
    assert kind_of(responses) is ErrorKind.INCOMPLETE


@pytest.mark.parametrize("responses", [[], [USAGE]])
def test_a_body_without_choices_is_malformed(responses: list[ParsedResponse]) -> None:
    assert kind_of(responses, is_stream=False) is ErrorKind.MALFORMED


@pytest.mark.parametrize(
    "responses",
    [
        [DONE],
        [OPENER, FINISH, DONE],
        [OPENER, FINISH, ZERO_USAGE, DONE],
        [FINISH, ParsedResponse(4, usage=Usage(3, None))],
    ],
)
def test_a_stream_without_a_token_is_empty(responses: list[ParsedResponse]) -> None:
    assert kind_of(responses) is ErrorKind.EMPTY


def test_a_body_without_a_token_is_empty() -> None:
    assert kind_of([EMPTY_BODY], is_stream=False) is ErrorKind.EMPTY


def content(at: int) -> ParsedResponse:
    return ParsedResponse(at, text="x", is_content=True)


def other(at: int) -> ParsedResponse:
    return ParsedResponse(at, usage=Usage(1, 2))


@pytest.mark.parametrize(
    ("responses", "expected"),
    [
        ([], Timing(None, None, array("q"))),
        ([other(5), other(9)], Timing(None, None, array("q"))),
        ([content(10)], Timing(10, 10, array("q"))),
        ([content(10), content(30), content(31)], Timing(10, 31, array("q", [20, 1]))),
        ([content(10), content(10)], Timing(10, 10, array("q", [0]))),
        ([other(1), content(10), other(15), content(30), other(90), other(95)], Timing(10, 30, array("q", [20]))),
    ],
    ids=["nothing", "no content", "one", "three", "two at once", "openers, pings and trailers count for nothing"],
)
def test_a_stream(responses: list[ParsedResponse], expected: Timing) -> None:
    assert timing(responses, is_stream=True) == expected


@pytest.mark.parametrize(
    ("responses", "end"), [([], None), ([content(10)], 10), ([other(10)], 10), ([content(3), content(5), other(8)], 8)]
)
def test_a_body_ends_when_all_of_it_came(responses: list[ParsedResponse], end: int | None) -> None:
    assert timing(responses, is_stream=False) == Timing(None, end, None)


@given(st.lists(st.tuples(st.integers(0, 10**18), st.booleans()), max_size=30))
def test_gaps_add_up_to_the_time_between_first_and_last(moments: list[tuple[int, bool]]) -> None:
    responses = [content(at) if counts else other(at) for at, counts in sorted(moments)]
    moment = timing(responses, is_stream=True)
    assert moment.chunk_gaps_ns is not None
    if moment.first_content_ns is None or moment.last_content_ns is None:
        assert not moment.chunk_gaps_ns
    else:
        assert sum(moment.chunk_gaps_ns) == moment.last_content_ns - moment.first_content_ns
        assert len(moment.chunk_gaps_ns) == sum(counts for _, counts in moments) - 1
        assert min(moment.chunk_gaps_ns, default=0) >= 0


def test_the_text_of_all_responses() -> None:
    responses = [ParsedResponse(0, text="a", is_content=True), ParsedResponse(1), ParsedResponse(2, text="b")]
    assert answer_message(responses) == {"role": "assistant", "content": "ab"}


def test_reasoning_is_left_out() -> None:
    responses = [ParsedResponse(0, reasoning="hm", is_content=True), ParsedResponse(1, text="a", is_content=True)]
    assert answer_message(responses) == {"role": "assistant", "content": "a"}


def test_tool_calls_are_put_together_from_their_pieces() -> None:
    pieces: list[list[dict[str, Any]]] = [
        [{"index": 0, "id": "1", "type": "function", "function": {"name": "f", "arguments": ""}}],
        [{"index": 0, "function": {"arguments": '{"a"'}}],
        [{"index": 1, "id": "2", "type": "function", "function": {"name": "g", "arguments": "{}"}}],
        [{"index": 0, "id": None, "function": {"arguments": ": 1}"}}],
    ]
    assert answer_message([ParsedResponse(0, tool_calls=tuple(calls)) for calls in pieces]) == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
            {"id": "2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        ],
    }


def test_a_whole_message_keeps_its_calls() -> None:
    call = b'{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}'
    body = b'{"choices": [{"index": 0, "message": {"content": "x", "tool_calls": [' + call + b", " + call + b"]}}]}"
    reader = ResponseReader(())
    reader.feed(body, 0)
    reader.finish(0)
    message = answer_message(reader.responses)
    assert message["content"] == "x"
    assert [made["function"]["name"] for made in message["tool_calls"]] == ["f", "f"]


@pytest.mark.parametrize(
    ("times", "empty", "content", "named"),
    [(3, 2, 50, ("thought",)), (3, 3, 0, ()), (2, 0, 50, ()), (0, 2, 5, ())],
    ids=["most", "half", "a role and a finish reason", "none"],
)
def test_a_field_is_named_where_most_chunks_without_content_carry_text_in_it(
    times: int, empty: int, content: int, named: tuple[str, ...]
) -> None:
    chunk = ParsedResponse(0, choice_indices=(0,))
    responses = [replace(chunk, unread_fields=("thought",))] * times + [chunk] * empty
    responses += [replace(chunk, text="a", is_content=True)] * content + [ParsedResponse(0, usage=Usage(1, 2))] * 9
    assert unread_fields(responses) == named


def test_the_last_finish_reason_says_why_an_answer_ended() -> None:
    ended = [content(1), ParsedResponse(arrival_ns=2, finish_reasons=("length",)), other(3)]
    assert finish_reason(ended) == "length"
    assert finish_reason([*ended, ParsedResponse(arrival_ns=4, finish_reasons=("stop",))]) == "stop"
    assert finish_reason([content(1), other(2)]) is None
