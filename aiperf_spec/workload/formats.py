"""Turn a row of a prompt file into a prompt: one function for each shape that people use.

Shapes read from their sources: SPEED-Bench (nvidia/SPEED-Bench), Spec-Bench (hemingkx/Spec-Bench `question.jsonl`),
MT-Bench (FastChat `question.jsonl`), ShareGPT (`ShareGPT_V3_unfiltered_cleaned_split.json`), and AIPerf's own
`single_turn`, `multi_turn` and `random_pool` (0.13.0).
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import orjson

from aiperf_spec.config.choices import DatasetType, EndpointType
from aiperf_spec.workload.prompts import Messages, Prompt, TurnSettings
from aiperf_spec.workload.row_settings import (
    CARRIED,
    RowFaultError,
    body_of,
    extra_fields,
    timestamp_ms,
    token_limit,
    turn_settings,
)

_TEXT = '{"text": "..."}, {"prompt": "..."} or {"messages": [...]}'
_QUESTION = '{"question_id": 81, "category": "...", "turns": ["...", "..."]}'
EXPECTED: dict[DatasetType, str] = {
    DatasetType.SINGLE_TURN: _TEXT,
    DatasetType.RANDOM_POOL: _TEXT,
    DatasetType.MULTI_TURN: '{"session_id": "...", "turns": [{"text": "..."}, {"text": "..."}]}',
    DatasetType.SPEED_BENCH: '{"question_id": "...", "category": "...", "messages": [{"role": ..., "content": ...}]}',
    DatasetType.SPEC_BENCH: _QUESTION,
    DatasetType.MT_BENCH: _QUESTION,
    DatasetType.SHAREGPT: '{"conversations": [{"from": "human", "value": "..."}, {"from": "gpt", "value": "..."}]}',
    DatasetType.RAW_PAYLOAD: 'a request body: {"messages": [...], ...} for chat, {"prompt": ..., ...} for completions',
}
"""What a row of each type looks like, for messages."""

PLACEHOLDER = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING SPECDEC_BENCH"
"""How a SPEED-Bench prompt begins until its preparation has fetched the real text."""

_BODY_KEYS = {"stream", "max_tokens", "max_completion_tokens", "temperature", "top_p", "stop", "seed", "n"}
_USERS = ("human", "user")
_ANSWERS = ("gpt", "assistant", "chatgpt", "model", "bing", "bard")


def detect(rows: Iterable[Any]) -> set[DatasetType]:
    """Return the types that the rows look like, by their keys; rows that look like none are left out."""
    return {kind for row in rows if isinstance(row, dict) and (kind := _look(row)) is not None}


def _look(row: dict[str, Any]) -> DatasetType | None:
    if isinstance(row.get("conversations"), list):
        return DatasetType.SHAREGPT
    turns = row.get("turns")
    if isinstance(turns, list):
        of_texts = bool(turns) and isinstance(turns[0], str)
        return DatasetType.SPEC_BENCH if of_texts and "question_id" in row else DatasetType.MULTI_TURN
    if "messages" in row:
        if "model" in row and _BODY_KEYS & row.keys():
            return DatasetType.RAW_PAYLOAD
        return DatasetType.SPEED_BENCH if {"question_id", "category"} <= row.keys() else DatasetType.SINGLE_TURN
    if body_of(row) is not row:
        return DatasetType.RAW_PAYLOAD
    return DatasetType.SINGLE_TURN if {"text", "prompt", "text_input"} & row.keys() else None


def to_prompt(
    row: Any, kind: DatasetType, fallback_id: str, endpoint: EndpointType, *, is_timed: bool = False
) -> Prompt:
    """Return the row's prompt; `fallback_id` names it where the row does not. Raises `RowFaultError`.

    `is_timed` says that rows are sent at their timestamps: then each needs one.
    """
    if not isinstance(row, dict):
        raise RowFaultError(f"a {type(row).__name__}, not an object")
    if kind is DatasetType.RAW_PAYLOAD:
        prompt = _raw_payload(body_of(row), fallback_id, endpoint)
        return replace(prompt, due_ms=timestamp_ms(row)) if is_timed else prompt
    category = row.get("category")
    if category is not None and not isinstance(category, str):
        raise RowFaultError(f"category must be a string, got {category!r}")
    turns, extra = _TURNS[kind](row)
    extra = {**extra, **extra_fields(row)}
    whole = TurnSettings(token_limit(row), extra or None)
    settings = [whole] * len(turns)
    if kind is DatasetType.MULTI_TURN:
        named = enumerate(row["turns"])
        settings = [turn_settings(turn, f"turns[{number}]", whole, is_timed=is_timed) for number, turn in named]
    due_ms = None
    if is_timed and (due_ms := settings[0].due_ms) is None:
        due_ms = timestamp_ms(row)
    if isinstance(system := row.get("system"), str) and system and "messages" not in row:
        turns[0] = ({"role": "system", "content": system}, *_as_messages(turns[0]))
    if endpoint is not EndpointType.CHAT and any(_has_image(turn) for turn in turns):
        raise RowFaultError(f"an image cannot be sent to {endpoint}, which takes text alone")
    identity = _identity(row, fallback_id)
    _check_sendable((turns, category, identity, [each.extra for each in settings]))
    _check_content(turns)
    first, *later = turns
    if later and any(isinstance(n := (each.extra or {}).get("n"), int | float) and n > 1 for each in settings):
        raise RowFaultError("a conversation goes on from one answer, but extra.n asks for more")
    first_settings = settings[0]._replace(delay_ms=0.0, due_ms=None)
    return Prompt(
        identity,
        text=first if isinstance(first, str) else None,
        messages=None if isinstance(first, str) else first,
        category=category or None,
        output_length=first_settings.output_length,
        extra=first_settings.extra,
        later=tuple(_as_messages(turn) for turn in later),
        later_settings=() if settings[1:] == [first_settings] * len(later) else tuple(settings[1:]),
        due_ms=due_ms,
    )


_Turn = str | Messages
_Turns = tuple[list[_Turn], dict[str, Any]]


def _as_messages(turn: _Turn) -> Messages:
    return ({"role": "user", "content": turn},) if isinstance(turn, str) else turn


def _identity(row: dict[str, Any], fallback: str) -> str:
    for key in ("question_id", "session_id", "id"):
        value = row.get(key)
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return str(value)
    return fallback


def _check_sendable(values: Any) -> None:
    # Python reads JSON that cannot be written again: NaN, lone surrogates, integers past 64 bits, deep nesting.
    # Said here, it names the line; met while sending, it would end the run.
    try:
        orjson.dumps(values)
        json.dumps(values, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise RowFaultError(f"cannot be sent as JSON ({error})") from None


def _check_content(turns: list[_Turn]) -> None:
    for turn in turns:
        for text in (turn,) if isinstance(turn, str) else (message.get("content") for message in turn):
            if isinstance(text, str) and text.startswith(PLACEHOLDER):
                raise RowFaultError("SPEED-Bench's placeholder stands where its preparation would put the prompt")


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise RowFaultError(f"{name} must be a non-empty string")
    return value


def _messages(value: Any, name: str = "messages") -> Messages:
    if not isinstance(value, list) or not value or not all(isinstance(message, dict) for message in value):
        raise RowFaultError(f"{name} must be a non-empty list of objects")
    return tuple(value)


def _carried(row: dict[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in CARRIED if row.get(key) is not None}


def _single_turn(row: dict[str, Any]) -> _Turns:
    given = [key for key in ("text", "prompt", "text_input", "messages") if key in row]
    if not given and "input_length" in row:
        raise RowFaultError("input_length without a text, which is not made up here (text_input holds one in a trace)")
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise RowFaultError(f"expected one of text, prompt and messages, found {found}")
    value = row[given[0]]
    if given[0] == "messages":
        return [_messages(value)], _carried(row)
    return [_with_images(_text(value, given[0]), row)], {}


def _with_images(text: str, row: dict[str, Any]) -> _Turn:
    given = row.get("images") or row.get("image") or []
    urls = given if isinstance(given, list) else [given]
    if not all(isinstance(url, str) and url[:8].lower().startswith(("http://", "https://", "data:")) for url in urls):
        raise RowFaultError("image must be a file or a URL (http, https or data), or a list of them")
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return ({"role": "user", "content": [{"type": "text", "text": text}, *parts]},) if parts else text


def _has_image(turn: _Turn) -> bool:
    return not isinstance(turn, str) and any(
        isinstance(part, dict) and part.get("type") == "image_url"
        for message in turn
        for part in (message["content"] if isinstance(message.get("content"), list) else ())
    )


def _multi_turn(row: dict[str, Any]) -> _Turns:
    turns: list[_Turn] = []
    for number, turn in enumerate(_list(row, "turns")):
        name = f"turns[{number}]"
        if not isinstance(turn, dict):
            turns.append(_text(turn, name))
        elif "messages" in turn:
            turns.append(_messages(turn["messages"], f"{name}.messages"))
        else:
            key = "prompt" if "prompt" in turn and "text" not in turn else "text"
            turns.append(_with_images(_text(turn.get(key), f"{name}.{key}"), turn))
    return turns, {}


def _questions(row: dict[str, Any]) -> _Turns:
    return [_text(turn, f"turns[{number}]") for number, turn in enumerate(_list(row, "turns"))], {}


def _list(row: dict[str, Any], key: str) -> list[Any]:
    value = row.get(key)
    if not isinstance(value, list) or not value:
        raise RowFaultError(f"{key} must be a non-empty list")
    return value


def _speed_bench(row: dict[str, Any]) -> _Turns:
    messages = _messages(row.get("messages"))
    roles = [message.get("role") for message in messages]
    # Answers that the row brings itself are history, and the row is one request as it stands.
    if any(role not in ("user", "system", "developer") for role in roles) or roles.count("user") < 2:
        return [messages], _carried(row)
    turns: list[_Turn] = []
    pending: list[dict[str, Any]] = []
    for message in messages:
        pending.append(message)
        if message["role"] == "user":
            turns.append(tuple(pending))
            pending = []
    if pending:
        turns[-1] = (*_as_messages(turns[-1]), *pending)
    return turns, _carried(row)


def _sharegpt(row: dict[str, Any]) -> _Turns:
    turns: list[_Turn] = []
    pending: list[dict[str, Any]] = []
    for number, entry in enumerate(_list(row, "conversations")):
        # SpecForge and others keep the keys of messages here.
        who, said = ("role", "content") if isinstance(entry, dict) and "from" not in entry else ("from", "value")
        speaker = entry.get(who) if isinstance(entry, dict) else None
        if speaker in _USERS or speaker == "system":
            text = _text(entry.get(said), f"conversations[{number}].{said}")
            pending.append({"role": "system" if speaker == "system" else "user", "content": text})
        elif speaker in _ANSWERS:
            # The file's answers are another model's: the server gives its own. What stands before the first
            # question answers nothing.
            if any(message["role"] == "user" for message in pending):
                turns.append(tuple(pending))
                pending = []
        else:
            raise RowFaultError(f"conversations[{number}].{who} must be human, gpt or system, got {speaker!r}")
    if any(message["role"] == "user" for message in pending):
        turns.append(tuple(pending))
    if not turns:
        raise RowFaultError("nobody asks anything: no entry is from human")
    return turns, {}


_TURNS = {
    DatasetType.SINGLE_TURN: _single_turn,
    DatasetType.RANDOM_POOL: _single_turn,
    DatasetType.MULTI_TURN: _multi_turn,
    DatasetType.SPEED_BENCH: _speed_bench,
    DatasetType.SPEC_BENCH: _questions,
    DatasetType.MT_BENCH: _questions,
    DatasetType.SHAREGPT: _sharegpt,
}


def _raw_payload(row: dict[str, Any], identity: str, endpoint: EndpointType) -> Prompt:
    key = "messages" if endpoint is EndpointType.CHAT else "prompt"
    if not row.get(key):
        raise RowFaultError(f"a request body for {endpoint} needs {key!r}")
    if key == "messages":
        _check_content([_messages(row[key])])
    if row.get("stream_options") is not None and not isinstance(row["stream_options"], dict):
        raise RowFaultError("stream_options must be an object")
    _check_sendable(row)
    return Prompt(identity, payload=row)
