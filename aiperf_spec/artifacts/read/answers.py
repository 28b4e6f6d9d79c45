"""What single requests asked and were answered, read back from `profile_export_raw.jsonl`."""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from aiperf_spec.artifacts import names
from aiperf_spec.models.response import PromptAndAnswer
from aiperf_spec.models.run import Phase
from aiperf_spec.wire.chunk import parse_event
from aiperf_spec.wire.outcome import answer_pieces
from aiperf_spec.wire.sse import SSEEvent


def load_answers(folder: Path, indexes: Collection[int]) -> dict[int, PromptAndAnswer]:
    """Return the texts of these profiled requests by index; empty without a raw file, which only raw level writes."""
    found: dict[int, PromptAndAnswer] = {}
    path = folder / names.RAW_JSONL
    if not indexes or not path.is_file():
        return found
    with suppress(OSError), path.open("rb") as lines:
        for line in lines:
            try:
                row = orjson.loads(line)
                metadata = row["metadata"]
                if metadata["benchmark_phase"] == Phase.PROFILING and metadata["session_num"] in indexes:
                    found[metadata["session_num"]] = PromptAndAnswer(_prompt(row["payload"]), _answer(row["responses"]))
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
    packets = [
        [packet["value"] for packet in response.get("packets", ()) if packet["name"] == "data"]
        or [response.get("text", "")]
        for response in responses
    ]
    said = (parse_event(SSEEvent(data.encode()), 0, ()) for of_one in packets for data in of_one)
    return "".join(answer_pieces(each for each in said if each is not None))
