"""Answers that are reasoning or a call of a tool, at the engines that make it: content like any other, and a record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.derive_expected import texts_of
from tests.engines.conftest import Serve
from tests.engines.runs import (
    CODE,
    assert_read_from_its_bytes,
    assert_totals_are_the_servers,
    events_of,
    profiled,
    summed,
    write_rows,
)
from tests.engines.server import Engine, counted

pytestmark = pytest.mark.engine
streamed_or_not = pytest.mark.parametrize("streaming", [True, False], ids=["stream", "body"])


@streamed_or_not
async def test_reasoning_is_content(serve: Serve, engine: Engine, tmp_path: Path, streaming: bool) -> None:
    if engine.reasoning is None:
        pytest.skip(f"no tiny model of {engine.name} reasons")
    server = serve(engine, engine.reasoning(tmp_path))
    file = write_rows(tmp_path, {"text": CODE}, {"text": "import os\n"})
    with counted(server) as grown:
        result = await profiled(server, input_file=file, streaming=streaming)
    for record in result.records:
        said = assert_read_from_its_bytes(server, record)
        assert "record" in said or not (streaming or engine.bodies_report)
        content, reasoning = map("".join, zip(*map(texts_of, events_of(record)), strict=True))
        assert reasoning
        assert not content
        if streaming:
            first = next(
                at for at, event in zip(arrivals(record), events_of(record), strict=False) if any(texts_of(event))
            )
            assert record.first_content_ns == first
    if streaming or engine.bodies_report:
        assert grown == summed(result.records)


def arrivals(record: Any) -> list[int]:
    return [at for at, _ in record.raw.events]


FLAGS = {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "boolean"}}, "required": ["a", "b"]}
TOOL = {"type": "function", "function": {"name": "choose", "description": "Choose", "parameters": FLAGS}}
"""Booleans end, where a tiny model writes a number's digits until it is cut off."""


@streamed_or_not
async def test_a_call_of_a_tool_is_content(serve: Serve, engine: Engine, tmp_path: Path, streaming: bool) -> None:
    if engine.tools is None:
        pytest.skip(f"{engine.name} holds no answer to a grammar here")
    server = serve(engine, engine.tools(tmp_path))
    file = write_rows(tmp_path, {"text": CODE}, {"text": "import os\n"})
    asked = {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False}
    with counted(server) as grown:
        result = await profiled(server, input_file=file, streaming=streaming, max_tokens=64, extra_inputs=asked)
    assert len(result.records) == 2
    for record in result.records:
        said = assert_read_from_its_bytes(server, record)
        assert said.get("drop", "totals_only") == "totals_only"
        calls = [(at, call) for at, event in timed(record) for call in calls_of(event)]
        assert [name for _, call in calls if (name := call["function"].get("name"))] == ["choose"]
        arguments = json.loads("".join(call["function"].get("arguments") or "" for _, call in calls))
        assert [type(arguments[name]) for name in ("a", "b")] == [bool, bool]
        if streaming:
            assert record.first_content_ns == calls[0][0]
            assert record.last_content_ns == calls[-1][0]
        assert record.output_tokens
    if all(record.acceptance for record in result.records):
        assert grown == summed(result.records)
    else:
        assert_totals_are_the_servers(result.records, grown)


def timed(record: Any) -> list[tuple[int, dict[str, Any]]]:
    return list(zip(arrivals(record), events_of(record), strict=False))


def calls_of(event: dict[str, Any]) -> list[dict[str, Any]]:
    said = [choice.get("delta") or choice.get("message") or {} for choice in event.get("choices") or ()]
    return [call for each in said for call in each.get("tool_calls") or ()]
