"""Say what came of a response that has ended: success or failure, its moments, its message for the next turn."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import sub
from sys import intern
from typing import Any, NamedTuple

from aiperf_spec.models.response import ParsedResponse, last_usage
from aiperf_spec.models.run import ErrorKind, RequestError

_FEW = 3


def request_failure(responses: list[ParsedResponse], *, is_stream: bool) -> RequestError | None:
    """Return why the request failed, or None.

    A stream succeeds if some choice finished or the end mark came; a body if it holds a choice. Either fails on a
    server's error, even after tokens, on a choice that finished by abortion or error, and where no token came at all.
    """
    for response in responses:
        if response.error is not None:
            kind = ErrorKind.MALFORMED if response.malformed else ErrorKind.SERVER_ERROR
            return RequestError(kind, response.error)
    if any("abort" in response.finish_reasons for response in responses):
        return RequestError(ErrorKind.ABORTED, "the server aborted the request (finish_reason: abort)")
    if any("error" in response.finish_reasons for response in responses):
        return RequestError(ErrorKind.SERVER_ERROR, "the server failed within the response (finish_reason: error)")
    if is_stream:
        if not any(response.finish_reasons or response.is_done for response in responses):
            return RequestError(ErrorKind.INCOMPLETE, "the stream ended without a finish_reason or [DONE]")
    elif not any(response.choice_indices for response in responses):
        return RequestError(ErrorKind.MALFORMED, "the server sent a body without choices")
    if any(response.is_content for response in responses):
        return None
    usage = last_usage(responses)
    # A response may be all special tokens: then usage counts what no text shows. Without either there is nothing
    # that could be measured, and a success with zero tokens would only flatter the averages.
    if usage is None or not usage.completion_tokens:
        return RequestError(ErrorKind.EMPTY, "the server sent no token")
    return None


def finish_reason(responses: Sequence[ParsedResponse]) -> str | None:
    """Return why the answer ended, in the server's word; of several choices, why the last to end did."""
    found = next((each.finish_reasons[-1] for each in reversed(responses) if each.finish_reasons), None)
    # A run keeps one for each request, and the parser makes a new string of each.
    return None if found is None else intern(found)


class Timing(NamedTuple):
    """The moments that latencies are made of, in ns of the monotonic clock; None where the moment never came."""

    first_content_ns: int | None = None
    last_content_ns: int | None = None
    chunk_gaps_ns: array[int] | None = None


def timing(responses: list[ParsedResponse], *, is_stream: bool) -> Timing:
    """Return a response's timing: of content responses only, so that trailing usage never lengthens it.

    A body that came in one piece has an end, but no first token and no gaps.
    """
    if not is_stream:
        return Timing(last_content_ns=responses[-1].arrival_ns if responses else None)
    stamps: list[int] = []
    for response in responses:
        if response.is_content:
            stamps += response.arrivals_ns or (response.arrival_ns,)
    if not stamps:
        return Timing(chunk_gaps_ns=array("I"))
    return Timing(stamps[0], stamps[-1], pack_gaps(list(map(sub, stamps[1:], stamps))))


def unread_fields(responses: list[ParsedResponse]) -> tuple[str, ...]:
    """Return the unknown fields that carried text in most events of a stream without content, and in 3 at least.

    What stands beside a role or a finish reason alone is a gateway's own data.
    """
    if not any(response.unread_fields for response in responses):
        return ()
    found = Counter(name for response in responses for name in dict.fromkeys(response.unread_fields))
    without = sum(1 for response in responses if response.choice_indices and not response.is_content)
    return tuple(name for name, times in found.items() if times >= _FEW and 2 * times > without)


def pack_gaps(gaps: Sequence[int]) -> array[int]:
    """Return gaps in ns as an array: of 4 bytes each, or of 8 where one is over 4.2 s or below zero.

    A run keeps every gap, for exact percentiles; this halves what that takes.
    """
    try:
        return array("I", gaps)
    except OverflowError:
        return array("q", gaps)


def answer_pieces(responses: Iterable[ParsedResponse]) -> list[str]:
    """Return the texts of an answer as they came: its reasoning, and then the rest.

    Reasoning that a server sends under two keys, in two events or as content too, is there once.
    """
    responses = list(responses)
    reasoning = [response.reasoning for response in responses if response.reasoning]
    texts = [response.text for response in responses if response.text]
    if not reasoning:
        return texts
    if reasoning[::2] == reasoning[1::2]:
        reasoning = reasoning[::2]
    return texts if reasoning == texts[: len(reasoning)] else [*reasoning, *texts]


def whole_answer(responses: list[ParsedResponse]) -> str:
    """Return all that an answer says: its reasoning, its text, then each tool call on a line, without its id."""
    text = "".join(answer_pieces(responses))
    if not [response for response in responses if response.tool_calls]:  # quicker than any()
        return text
    # Engines make up a new id for each call.
    calls = ({key: value for key, value in call.items() if key != "id"} for call in _tool_calls(responses))
    return "\n".join([text, *(json.dumps(call, sort_keys=True, default=str) for call in calls)])


def answer_message(responses: list[ParsedResponse]) -> dict[str, Any]:
    """Return the assistant's message: its content, and its tool calls where it made some.

    Reasoning is left out, as chat templates leave it out of earlier turns. `content` is null only beside tool calls.
    """
    content = "".join(response.text for response in responses)
    calls = _tool_calls(responses)
    if not calls:
        return {"role": "assistant", "content": content}
    return {"role": "assistant", "content": content or None, "tool_calls": calls}


def _tool_calls(responses: list[ParsedResponse]) -> list[dict[str, Any]]:
    # A stream brings a call in pieces: id and name first, then its arguments bit by bit, told apart by the index.
    whole: dict[Any, dict[str, Any]] = {}
    for response in responses:
        for position, piece in enumerate(response.tool_calls):
            index = piece.get("index")
            call = whole.setdefault(index if isinstance(index, int) else position, {})
            _add_piece(call, piece)
    return list(whole.values())


def _add_piece(call: dict[str, Any], piece: dict[str, Any]) -> None:
    for key, value in piece.items():
        if key == "index" or value is None:
            continue
        known = call.get(key)
        if isinstance(value, dict):
            inner = known if isinstance(known, dict) else {}
            call[key] = inner
            _add_piece(inner, value)
        elif key == "arguments" and isinstance(known, str) and isinstance(value, str):
            call[key] = known + value
        else:
            call[key] = value
