"""What a row sets beside its prompt: tokens, fields of the request body, and when it is sent."""

from typing import Any

from aiperf_spec.config.choices import DatasetType
from aiperf_spec.workload.prompts import TurnSettings

MAX_TOKENS_KEYS = ("max_tokens", "max_completion_tokens")
CARRIED = ("tools", "tool_choice")
"""Keys beside `messages` that change what a chat template makes of them."""
_UNSENT = (
    *("input_length", "hash_ids", "texts", "audio", "audios", "video", "videos", "lora", "lora_name"),
    *("temperature", "top_p", "top_k", "min_p", "seed", "stop", "n", "min_tokens", "ignore_eos", "response_format"),
)
"""Fields beside a prompt by which other tools set something; in a request body they stand under `extra`."""
_MAX_DELAY_MS = 86_400_000
_MAX_TIMESTAMP_MS = 1e15
_SET_ELSEWHERE = ("model", "stream", "stream_options", "messages", "prompt")


class RowFaultError(ValueError):
    """Say what is wrong with one row."""


def token_limit(row: dict[str, Any], within: str = "") -> int | None:
    """Return how many tokens the answer may have; None where the row does not say."""
    # AIPerf's name, that of vLLM's custom data sets, and those of request bodies.
    for key in ("output_length", "output_tokens", *MAX_TOKENS_KEYS):
        if (value := row.get(key)) is not None:
            if type(value) is not int or value < 1:
                raise RowFaultError(f"{within}{key} must be a whole number of tokens from 1, got {value!r}")
            return value
    return None


def timestamp_ms(row: dict[str, Any], within: str = "") -> float:
    """Return when the row is due; raises `RowFaultError` where it does not say."""
    value: Any = row.get("timestamp")
    if type(value) not in (int, float) or not 0 <= value <= _MAX_TIMESTAMP_MS:
        if value is None:
            raise RowFaultError("no timestamp, which --fixed-schedule needs in each row")
        raise RowFaultError(f"{within}timestamp must be milliseconds from 0, got {value!r}")
    return float(value)


def turn_settings(turn: Any, name: str, whole: TurnSettings, *, is_timed: bool) -> TurnSettings:
    """Return the settings of a turn, called `name` in errors; those of the `whole` row where it has none."""
    if not isinstance(turn, dict):
        return whole
    delay = turn.get("delay")
    if delay is not None and not (type(delay) in (int, float) and 0 <= delay <= _MAX_DELAY_MS):
        raise RowFaultError(f"{name}.delay must be milliseconds from 0 to {_MAX_DELAY_MS:,}, got {delay!r}")
    extra = {**(whole.extra or {}), **extra_fields(turn)}
    due_ms = timestamp_ms(turn, f"{name}.") if is_timed and turn.get("timestamp") is not None else None
    limit = token_limit(turn, f"{name}.") or whole.output_length
    return TurnSettings(limit, extra or None, float(delay or 0), due_ms)


def unsent_fields(row: Any, kind: DatasetType, *, is_timed: bool = False) -> set[str]:
    """Return the fields of a row that other tools read as settings, and that are neither sent nor kept to."""
    if not isinstance(row, dict) or (kind is DatasetType.RAW_PAYLOAD and body_of(row) is row):
        return set()
    unsent = _UNSENT if is_timed else ("timestamp", *_UNSENT)
    found = {key for key in (*unsent, "delay") if row.get(key) is not None}
    if "messages" not in row:
        found |= {key for key in CARRIED if row.get(key) is not None}
    elif row.get("system") is not None:
        found.add("system")
    if kind is DatasetType.MULTI_TURN:
        for number, turn in enumerate(row["turns"]):
            asking = unsent if number else (*unsent, "delay")
            found |= {f"turns[].{key}" for key in asking if isinstance(turn, dict) and turn.get(key) is not None}
    return found


def body_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return the request body that the row is, or that it has under `payload`, as in AIPerf's traces."""
    payload = row.get("payload")
    return payload if isinstance(payload, dict) and not {"messages", "prompt"} & row.keys() else row


def extra_fields(row: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the request body that the row sets."""
    value = row.get("extra")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RowFaultError("extra must be an object: fields of the request body")
    for key in _SET_ELSEWHERE:
        if key in value:
            raise RowFaultError(f"extra may not set {key!r}: options do, for the whole run")
    return value
