"""Turn a response into the message that the next turn of its conversation carries."""

from __future__ import annotations

from typing import Any

from aiperf_spec.models.response import ParsedResponse


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
            _add(call, piece)
    return list(whole.values())


def _add(call: dict[str, Any], piece: dict[str, Any]) -> None:
    for key, value in piece.items():
        if key == "index" or value is None:
            continue
        known = call.get(key)
        if isinstance(value, dict):
            inner = known if isinstance(known, dict) else {}
            call[key] = inner
            _add(inner, value)
        elif key == "arguments" and isinstance(known, str) and isinstance(value, str):
            call[key] = known + value
        else:
            call[key] = value
