"""Reading by comparison gives what parsing whole gives."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_spec.adapters.registry import BUILT_IN, AdapterRegistry
from aiperf_spec.models.response import ParsedResponse
from aiperf_spec.wire.parse import EventReader, parse_event
from aiperf_spec.wire.sse import SSEDecoder, SSEEvent

WIRE = Path(__file__).parent / "wire"
PATHS = AdapterRegistry(BUILT_IN).payload_paths


def same(events: list[SSEEvent]) -> None:
    reader, read = EventReader(PATHS), list[ParsedResponse]()
    for position, event in enumerate(events):
        reader.read([event], position, read)
    parsed = [parse_event(event, position, PATHS) for position, event in enumerate(events)]
    assert read == [response for response in parsed if response is not None]
    together: list[ParsedResponse] = []
    EventReader(PATHS).read(events, 7, together)
    assert [replace(response, arrival_ns=0) for response in together] == [replace(r, arrival_ns=0) for r in read]


TEXTS = st.one_of(st.text(max_size=6), st.sampled_from(["a", " b", '"', "\\", "\n", "é", "字", "\u2028", "", "\x7f"]))


def chunk(shape: str, text: str, finish: str | None, created: int) -> dict[str, Any]:
    delta = {"content": text, "reasoning": text, "reasoning_content": text}
    choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": finish}
    if shape == "text":
        choice["text"] = text
    elif shape == "both":
        choice["delta"] = {"content": text, "reasoning": "x"}
    elif shape == "twice":
        choice["delta"] = {"content": text}
        choice["message"] = {"content": "y"}
    else:
        choice["delta"] = {shape: delta[shape]}
    return {"id": "c", "created": created, "choices": [choice]}


SHAPES = st.sampled_from(["content", "reasoning", "reasoning_content", "text", "both", "twice"])
CHUNKS = st.builds(chunk, SHAPES, TEXTS, st.sampled_from([None, None, None, "stop"]), st.integers(1, 2))
SPELLINGS = st.sampled_from([{"separators": (",", ":")}, {}, {"ensure_ascii": False, "separators": (",", ":")}])


@given(st.lists(st.tuples(CHUNKS, SPELLINGS), max_size=12))
def test_any_sequence_of_chunks(chunks: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    same([SSEEvent(json.dumps(obj, **spelling).encode("utf-8", "replace")) for obj, spelling in chunks])


@given(
    st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([b'{"choices":[{"text":"a"}]}', b"[DONE]"])), max_size=8)
)
def test_any_bytes(events: list[bytes]) -> None:
    same([SSEEvent(data) for data in events])


@pytest.mark.parametrize(
    "data",
    [b'{"choices":[{"text":"a\x01"}]}', b'{"choices":[{"text":"\xff"}]}', b'{"choices":[{"text":"a","x":"b"}]}'],
)
def test_bytes_that_only_look_alike(data: bytes) -> None:
    same([SSEEvent(b'{"choices":[{"text":"z"}]}'), SSEEvent(data)])


@pytest.mark.parametrize("path", sorted(WIRE.glob("*/*.sse")), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_real_streams(path: Path) -> None:
    decoder = SSEDecoder()
    same([*decoder.decode(path.read_bytes()), *decoder.flush()])
