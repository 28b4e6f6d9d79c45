"""Rows with times of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import InputFileError
from aiperf_spec.workload.prompts import Prompt, TurnSettings
from aiperf_spec.workload.trace import in_trace


def due(*times_ms: float, **settings: Any) -> list[float | None]:
    config = ProfileConfig.create(url="h", input_file=Path("t.jsonl"), fixed_schedule=True, **settings)
    prompts = [Prompt(str(time), text="a", due_ms=time) for time in times_ms]
    return [prompt.due_ms for prompt in in_trace(prompts, config)]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [0, 500.5, 1000, 1000]),
        ({"fixed_schedule_auto_offset": False}, [2000, 2500.5, 3000, 3000]),
        ({"fixed_schedule_start_offset": 2000}, [0, 500.5, 1000, 1000]),
        ({"fixed_schedule_start_offset": 2001}, [499.5, 999, 999]),
        ({"fixed_schedule_end_offset": 2999}, [0, 500.5]),
        ({"fixed_schedule_start_offset": 2400, "fixed_schedule_end_offset": 3000}, [100.5, 600, 600]),
    ],
)
def test_where_a_trace_starts_and_ends(settings: dict[str, Any], expected: list[float]) -> None:
    assert due(2000, 2500.5, 3000, 3000, **settings) == expected


def test_later_turns_keep_their_distance() -> None:
    settings = (TurnSettings(None, None, 5.0), TurnSettings(None, None, 0.0, 4000.0))
    later = (({"role": "user", "content": "b"},),) * 2
    prompt = Prompt("p", text="a", due_ms=1000, later=later, later_settings=settings)
    config = ProfileConfig.create(url="h", input_file=Path("t.jsonl"), fixed_schedule=True)
    [found] = in_trace([prompt], config)
    assert [each.due_ms for each in found.later_settings] == [None, 3000]
    assert found.content_hash == prompt.content_hash


@pytest.mark.parametrize(
    ("times", "settings", "told"),
    [
        ((1, 5, 4), {}, "timestamp 4 follows 5, in a file too large to sort"),
        ((1, 5), {"fixed_schedule_start_offset": 6}, "no timestamp lies within the offsets, the last one is 5"),
        ((1_777_420_998_000,), {"fixed_schedule_auto_offset": False}, "would be sent 20,572.0 days after the start"),
    ],
)
def test_what_no_trace_can_be(times: tuple[float, ...], settings: dict[str, Any], told: str) -> None:
    with pytest.raises(InputFileError, match=told):
        due(*times, **settings)


def test_no_prompt_is_no_trace() -> None:
    assert due() == []
