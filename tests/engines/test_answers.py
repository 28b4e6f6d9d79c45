"""Answers that are reasoning, at the engines that make it: content like any other, and a record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.derive_expected import texts_of
from tests.engines.conftest import Serve
from tests.engines.runs import CODE, assert_read_from_its_bytes, events_of, profiled, summed, write_rows
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
