from __future__ import annotations

from typing import Any

from aiperf_spec.models.response import ParsedResponse
from aiperf_spec.wire.answer import answer_message
from aiperf_spec.wire.response_reader import ResponseReader


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
