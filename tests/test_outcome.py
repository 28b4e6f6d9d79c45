from __future__ import annotations

import pytest

from aiperf_spec.models.response import ParsedResponse, Usage
from aiperf_spec.models.run import ErrorKind
from aiperf_spec.wire.outcome import request_failure

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
