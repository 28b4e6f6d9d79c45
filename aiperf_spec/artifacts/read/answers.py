"""What single requests asked and were answered, read back from `profile_export_raw.jsonl`."""

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import orjson

from aiperf_spec.artifacts import names
from aiperf_spec.artifacts.read.files import UNREADABLE, existing, open_binary
from aiperf_spec.models.response import PromptAndAnswer, TokenChoice
from aiperf_spec.models.run import Phase
from aiperf_spec.wire.chunk import parse_event
from aiperf_spec.wire.outcome import answer_pieces
from aiperf_spec.wire.sse import SSEEvent
from aiperf_spec.wire.token_choices import token_choices

T = TypeVar("T")


def load_answers(folder: Path, indexes: Collection[int]) -> dict[int, PromptAndAnswer]:
    """Return the texts of these profiled requests by index; empty without a raw file, which only raw level writes."""
    return _load(folder, indexes, lambda row: PromptAndAnswer(_prompt(row["payload"]), _answer(row["responses"])))


def load_token_choices(folder: Path, indexes: Collection[int]) -> dict[int, list[TokenChoice]]:
    """Return the tokens of these profiled requests' answers by index; empty without a raw file."""
    return _load(folder, indexes, lambda row: token_choices(_events(row["responses"])))


def _load(folder: Path, indexes: Collection[int], read: Callable[[dict[str, Any]], T]) -> dict[int, T]:
    found: dict[int, T] = {}
    path = existing(folder, names.RAW_JSONL)
    if not indexes or path is None:
        return found
    with suppress(*UNREADABLE), open_binary(path) as lines:
        for line in lines:
            try:
                row = orjson.loads(line)
                metadata = row["metadata"]
                if metadata["benchmark_phase"] == Phase.PROFILING and metadata["session_num"] in indexes:
                    found[metadata["session_num"]] = read(row)
            except (ValueError, KeyError, TypeError, AttributeError):
                continue  # a killed run may cut its last line
            if len(found) == len(indexes):
                break
    return found


def _prompt(payload: dict[str, Any]) -> str:
    messages = payload.get("messages")
    asked = messages[-1].get("content") if isinstance(messages, list) and messages else payload.get("prompt")
    return asked if isinstance(asked, str) else orjson.dumps(asked).decode()


def _answer(responses: list[dict[str, Any]]) -> str:
    said = (parse_event(SSEEvent(data), 0, ()) for data in _events(responses))
    return "".join(answer_pieces(each for each in said if each is not None))


def _events(responses: list[dict[str, Any]]) -> Iterator[bytes]:
    for response in responses:
        packets = [packet["value"] for packet in response.get("packets", ()) if packet["name"] == "data"]
        yield from (data.encode() for data in packets or [response.get("text", "")])
