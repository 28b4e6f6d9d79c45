"""Read prompts from a JSONL file, or take the built-in ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson

from aiperf_spec.errors import InputFileError
from aiperf_spec.models.run import DatasetInfo
from aiperf_spec.workload.builtin import BUILTIN_PROMPTS
from aiperf_spec.workload.prompts import Prompt

_SHAPES = '{"text": "..."}, {"prompt": "..."} or {"messages": [...]}'


def load_prompts(path: Path | None) -> tuple[tuple[Prompt, ...], DatasetInfo]:
    """Return the prompts of a file, or the built-in ones for None.

    A line is {"text": ...}, {"prompt": ...} or {"messages": [...]}, each with an optional "category" and
    "question_id"; other keys are ignored. Raises `InputFileError` naming the file and the line.
    """
    if path is None:
        prompts = tuple(
            Prompt(id=f"builtin-{index}", text=text, category=category)
            for index, (category, text) in enumerate(BUILTIN_PROMPTS)
        )
        return prompts, DatasetInfo("built-in", None, len(prompts), has_categories=True)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputFileError(f"--input-file {str(path)!r}: {error.strerror or error}") from None
    prompts = tuple(_parse(data, path))
    if not prompts:
        raise InputFileError(f"--input-file {str(path)!r} holds no prompt", f"each line is {_SHAPES}")
    categorised = any(prompt.category is not None for prompt in prompts)
    return prompts, DatasetInfo(path.name, str(path), len(prompts), has_categories=categorised)


def _parse(data: bytes, path: Path) -> list[Prompt]:
    # Split on LF alone: str.splitlines would cut a prompt at a raw U+2028.
    prompts = []
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.strip():
            prompts.append(_prompt(_row(line, path, number), path, number))
    return prompts


def _fault(path: Path, number: int, what: str) -> InputFileError:
    return InputFileError(f"--input-file {str(path)!r}, line {number}: {what}", f"each line is {_SHAPES}")


def _row(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise _fault(path, number, "not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise _fault(path, number, f"not JSON ({error})") from None
    if not isinstance(row, dict):
        raise _fault(path, number, f"a {type(row).__name__}, not an object")
    return row


def _check_sendable(values: tuple[Any, ...], path: Path, number: int) -> None:
    # Python reads JSON that cannot be written again: NaN, lone surrogates, integers past 64 bits, deep nesting.
    # Said here, it names the line; met while sending, it would end the run.
    try:
        orjson.dumps(values)
        json.dumps(values, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _fault(path, number, f"cannot be sent as JSON ({error})") from None


def _prompt(row: dict[str, Any], path: Path, number: int) -> Prompt:
    category = row.get("category")
    if category is not None and not isinstance(category, str):
        raise _fault(path, number, f"category must be a string, got {category!r}")
    identity = row.get("question_id")
    identity = str(identity) if isinstance(identity, str | int) else f"line-{number}"
    given = [key for key in ("text", "prompt", "messages") if key in row]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise _fault(path, number, f"expected one of text, prompt and messages, found {found}")
    value = row[given[0]]
    _check_sendable((value, category, identity), path, number)
    if given[0] != "messages":
        if not isinstance(value, str) or not value:
            raise _fault(path, number, f"{given[0]} must be a non-empty string")
        return Prompt(identity, text=value, category=category or None)
    if not isinstance(value, list) or not value or not all(isinstance(message, dict) for message in value):
        raise _fault(path, number, "messages must be a non-empty list of objects")
    return Prompt(identity, messages=tuple(value), category=category or None)
