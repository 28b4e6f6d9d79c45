"""The grammar of `--extra-inputs`."""

import json
import math
from collections.abc import Mapping
from typing import Any

from aiperf_spec.config.secret_names import is_secret_input
from aiperf_spec.errors import ConfigError


def parse_extra_inputs(texts: list[str]) -> dict[str, Any]:
    """Turn the values of `--extra-inputs` into one mapping; a later value wins.

    Each is a JSON object, or `key:value` pairs with commas between them. In pairs true, false, null and numbers are
    read as such, a value that begins with [ or { as JSON, and all else as a string. Dotted keys are not split. Raises
    `ConfigError` naming the text.
    """
    stripped = [text.strip() for text in texts]
    return merge_extra_inputs(*(_json_object(text) if text.startswith("{") else _pairs(text) for text in stripped))


def merge_extra_inputs(*given: Mapping[str, Any]) -> dict[str, Any]:
    """Return one mapping of several; a later value wins, but the keys of `stream_options` are put together."""
    merged: dict[str, Any] = {}
    for key, value in (pair for each in given for pair in each.items()):
        both = key == "stream_options" and isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = {**merged[key], **value} if both else value
    return merged


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = _JSON.decode(text)
    except (ValueError, RecursionError) as error:
        raise _fault(text, f"not a JSON object: {error}") from None
    return dict(value)


def _fault(text: str, problem: str, quoted: str | None = None, remedy: str | None = None) -> ConfigError:
    # What names a secret is not shown: the text ends up in the logs of whatever runs this.
    if is_secret_input(text):
        return ConfigError(f"--extra-inputs: {problem}", remedy)
    return ConfigError(f"--extra-inputs {text!r}: {problem}" + ("" if quoted is None else f" at {quoted!r}"), remedy)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large a number")
    return number


_JSON = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def _pairs(text: str) -> dict[str, Any]:
    pairs: dict[str, Any] = {}
    position = 0
    while position < len(text):
        key, colon, _ = text[position:].partition(":")
        if not colon or not key.strip() or "," in key:
            remedy = 'put commas between pairs only, or give a JSON object: \'{"key": "a,b"}\''
            raise _fault(text, "expected key:value", text[position:], remedy)
        position += len(key) + 1
        pairs[key.strip()], position = _value(text, position)
    if not pairs:
        raise ConfigError("--extra-inputs: expected key:value or a JSON object, got nothing")
    return pairs


def _value(text: str, start: int) -> tuple[Any, int]:
    while start < len(text) and text[start] == " ":
        start += 1
    if text[start : start + 1] in ("[", "{"):
        try:
            value, end = _JSON.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            raise _fault(text, f"not JSON: {error}", text[start:]) from None
        if text[end : end + 1] not in ("", ","):
            raise _fault(text, "expected a comma", text[end:])
        return value, end + 1
    end = text.find(",", start)
    end = len(text) if end < 0 else end
    return _coerce(text[start:end].strip()), end + 1


def _coerce(text: str) -> Any:
    named = {"true": True, "false": False, "null": None, "none": None}
    if text.lower() in named:
        return named[text.lower()]
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        # "nan", "inf" and "1_000" are numbers to Python only; JSON has none of them.
        if (kind is int or math.isfinite(number)) and "_" not in text:
            return number
    return text
