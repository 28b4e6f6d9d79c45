"""Read one event, or one whole body, of an OpenAI-compatible response.

The shapes are those of chat and text completions of the OpenAI API as vLLM 0.32.0, SGLang 0.5.23, llama.cpp b11434 and
the documents of TensorRT-LLM show them (`tests/wire`). Whatever a server sends, `parse_event` returns; it never raises.
"""

import json
from typing import Any

import orjson

from aiperf_spec.models.response import ParsedResponse, Usage
from aiperf_spec.wire.sse import SSEEvent

_NO_TEXT = frozenset({"role", "name"})
"""Fields of a delta whose text is none of the answer's."""
_SHOWN = 200
"""Characters of an unreadable event that its error message shows."""

_IN_ITEMS = 3
"""Keys of a path that leads to a field of each item of a list, such as ("choices", "*", "stats")."""

Paths = tuple[tuple[str, ...], ...]


def parse_event(
    event: SSEEvent, arrival_ns: int, payload_paths: Paths, timing_paths: Paths = ()
) -> ParsedResponse | None:
    """Return what the event says; None for one without data, or with null.

    `payload_paths` are the places where the adapters' engines put their objects, `timing_paths` those of their own
    timing.
    """
    data = event.data
    if event.type == b"error":
        return ParsedResponse(arrival_ns, error=_error_text(data))
    if data == b"[DONE]":
        return ParsedResponse(arrival_ns, is_done=True)
    try:
        obj = orjson.loads(data)
    except orjson.JSONDecodeError:
        stripped = data.strip()
        if not stripped:
            return None
        if stripped == b"[DONE]":
            return ParsedResponse(arrival_ns, is_done=True)
        try:
            # Python's reader takes NaN and infinity, which servers send although JSON has neither.
            # Some servers put a byte order mark before a body.
            obj = json.loads(data.decode("utf-8", "replace").removeprefix("\ufeff"))
        except (ValueError, RecursionError):
            text = f"the server sent what is not JSON: {_start(data)}"
            return ParsedResponse(arrival_ns, error=text, malformed=True)
    if obj is None:
        return None  # llama.cpp says so that it begins to answer one more prompt
    if not isinstance(obj, dict):
        text = f"the server sent JSON that is no object: {_start(data)}"
        return ParsedResponse(arrival_ns, error=text, malformed=True)
    return _parse_object(obj, arrival_ns, payload_paths, timing_paths)


def _parse_object(obj: dict[str, Any], arrival_ns: int, payload_paths: Paths, timing_paths: Paths) -> ParsedResponse:
    response = ParsedResponse(arrival_ns)
    error = obj.get("error")
    if error or isinstance(error, dict):
        response.error = message_of(error)
        return response
    if obj.get("object") == "error":
        response.error = message_of(obj)
        return response
    choices = obj.get("choices")
    if isinstance(choices, list):
        for position, choice in enumerate(choices):
            if isinstance(choice, dict):
                _read_choice(choice, position, response)
    usage = obj.get("usage")
    if isinstance(usage, dict):
        response.usage = _usage(usage)
    response.spec_decode_stats = _capture(obj, payload_paths)
    for path in timing_paths:
        if path[0] in obj and isinstance(found := _capture(obj, (path,)), dict):
            response.engine_timings = {**(response.engine_timings or {}), path: found}
    return response


def _read_choice(choice: dict[str, Any], position: int, response: ParsedResponse) -> None:
    index = choice.get("index")
    index = index if type(index) is int else position
    if index not in response.choice_indices:
        response.choice_indices += (index,)
    finish_reason = choice.get("finish_reason")
    if isinstance(finish_reason, str) and finish_reason:
        response.finish_reasons += (finish_reason,)
    text = choice.get("text")
    if text and isinstance(text, str):
        response.text += text
        response.is_content = True
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        delta = choice.get("message")
        if not isinstance(delta, dict):
            return
    content = delta.get("content")
    if content and isinstance(content, str | list):
        response.text += content if isinstance(content, str) else _parts_text(content)
        response.is_content = True
    if len(delta) == 1 and "content" in delta:
        return
    # vLLM moved from `reasoning_content` to `reasoning`; some servers send both with the same text.
    reasoning = delta.get("reasoning_content") or delta.get("reasoning")
    if reasoning and isinstance(reasoning, str):
        response.reasoning += reasoning
        response.is_content = True
    calls = delta.get("tool_calls")
    if calls or delta.get("function_call"):
        response.is_content = True
        if isinstance(calls, list):
            response.tool_calls += tuple(call for call in calls if isinstance(call, dict))
    refusal = delta.get("refusal")
    if refusal and isinstance(refusal, str):
        response.text += refusal
        response.is_content = True
    if not response.is_content:
        _read_rare_content(delta, response)


def _read_rare_content(delta: dict[str, Any], response: ParsedResponse) -> None:
    filled = {name: value for name, value in delta.items() if value and name not in _NO_TEXT}
    if not filled:
        return
    # OpenRouter puts reasoning into `reasoning_details`, with or without `reasoning`; others send `thinking`.
    thinking, details, audio = filled.get("thinking"), filled.get("reasoning_details"), filled.get("audio")
    reasoning = thinking if isinstance(thinking, str) else _parts_text(details) if isinstance(details, list) else ""
    response.reasoning += reasoning
    spoken = isinstance(audio, dict) and bool(audio.get("data") or audio.get("transcript"))
    response.is_content = bool(reasoning) or spoken
    if not response.is_content:
        response.unread_fields += tuple(name for name, value in filled.items() if _carries_text(value))


def _carries_text(value: Any) -> bool:
    parts = value if isinstance(value, list) else [value]
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return any(text and isinstance(text, str) for text in texts)


def _parts_text(parts: list[Any]) -> str:
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))


def _usage(usage: dict[str, Any]) -> Usage | None:
    details = usage.get("prompt_tokens_details")
    parsed = Usage(
        _token_count(usage.get("prompt_tokens")),
        _token_count(usage.get("completion_tokens")),
        _token_count(usage.get("total_tokens")),
        _token_count(details.get("cached_tokens")) if isinstance(details, dict) else None,
    )
    # SGLang sends running usage with some keys null; an object without a single count is no report.
    return None if parsed == Usage(None, None) else parsed


def _token_count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**53 else None


def _capture(obj: dict[str, Any], payload_paths: Paths) -> Any:
    found: list[Any] = []
    taken = None
    for path in payload_paths:
        # Of several places below one key, the first that holds something counts: an engine may fill two.
        first = path[0]
        if first not in obj or first == taken:
            continue
        if len(path) == _IN_ITEMS and path[1] == "*":
            # As `_collect` does, without its calls: every chunk has choices.
            leaf, items = path[2], obj[first]
            for item in items if isinstance(items, list) else ():
                if isinstance(item, dict) and (value := item.get(leaf)) and isinstance(value, dict | list):
                    found.append(value)
        else:
            _collect(obj, path, 0, found)
        if found:
            taken = first
    if len(found) > 1:
        return found
    return found[0] if found else None


def _collect(node: Any, path: tuple[str, ...], depth: int, found: list[Any]) -> None:
    for position in range(depth, len(path)):
        key = path[position]
        if key == "*":
            if isinstance(node, list):
                for item in node:
                    _collect(item, path, position + 1, found)
            return
        if not isinstance(node, dict):
            return
        node = node.get(key)
    if node and isinstance(node, dict | list):
        found.append(node)


def message_of(error: Any) -> str:
    """Return the message in a server's error, however it is wrapped; at worst the error itself as text."""
    # A loop and not a recursion: a server may nest deeper than Python calls.
    while not isinstance(error, str) and (inner := _inner(error)) is not None:
        error = inner
    if isinstance(error, str):
        return error
    try:
        return json.dumps(error, ensure_ascii=False, default=str)
    except RecursionError:
        return "the server sent an error that is nested too deeply to be shown"


def _inner(error: Any) -> Any:
    if isinstance(error, dict):
        values = (error.get(key) for key in ("message", "error", "detail", "msg"))
        return next((value for value in values if value and isinstance(value, str | dict | list)), None)
    return error[0] if isinstance(error, list) and error else None


def _error_text(data: bytes) -> str:
    try:
        return message_of(json.loads(data.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return data.decode("utf-8", "replace") or "the server sent an error event without a message"


def _start(data: bytes) -> str:
    text = data[: 4 * _SHOWN].decode("utf-8", "replace")
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
