"""What vLLM measured itself: read, written, read back and shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from aiperf_spec.adapters.registry import BUILT_IN, AdapterRegistry
from aiperf_spec.artifacts.read.records import load_records
from aiperf_spec.artifacts.write.record_lines import record_line
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.metrics import summarise
from aiperf_spec.models.response import ParsedResponse
from aiperf_spec.models.run import DatasetInfo, OutputTiming, RequestRecord, RunResult, ServerTiming
from aiperf_spec.render.server_side import server_timing_table
from aiperf_spec.wire.chunk import parse_event
from aiperf_spec.wire.sse import SSEEvent
from tests.derive_expected import WIRE, captures, events_of
from tests.records import record

ENGINES = AdapterRegistry(BUILT_IN)
TIMING = ServerTiming(7.5, 0.25, 420.0, 4.4, 224.0)
FIELDS = {
    "time_to_first_token_ms": 7.5,
    "queue_time_ms": 0.25,
    "generation_time_ms": 420.0,
    "mean_itl_ms": 4.4,
    "tokens_per_second": 224.0,
}
# The example of vLLM's own page, docs/features/per_request_metrics.md of its main branch.
BY_KIND: dict[str, Any] = {
    "reasoning": {
        "token_count": 36,
        "time_to_first_token_ms": 108.22,
        "generation_time_ms": 160.0,
        "mean_itl_ms": 4.57,
        "tokens_per_second": 218.75,
    },
    "content": {
        "token_count": 20,
        "time_to_first_token_ms": 268.22,
        "generation_time_ms": 210.0,
        "mean_itl_ms": 11.05,
        "tokens_per_second": 90.5,
    },
    "unclassified_token_count": 2,
}
OUTPUT = OutputTiming(36, 20, 2, 108.22, 268.22, 160.0, 210.0, 4.57, 11.05)


def read(*metrics: Any) -> ServerTiming | None:
    found = []
    for each in metrics:
        response = parse_event(
            SSEEvent(json.dumps({"choices": [], "metrics": each}).encode()), 0, (), ENGINES.timing_paths
        )
        assert response is not None
        found.append(response)
    return ENGINES.server_timing(found)


def test_the_last_figures_count() -> None:
    assert read(FIELDS) == TIMING
    assert read({**FIELDS, "queue_time_ms": 9}, FIELDS) == TIMING
    assert read(FIELDS, None, {}) == TIMING
    assert read() is None


@pytest.mark.parametrize("value", [None, "3", True, -1, [3], {}, float("nan"), float("inf"), 10**400])
def test_a_figure_that_is_none(value: Any) -> None:
    timing = read({**FIELDS, "mean_itl_ms": value})
    assert timing == ServerTiming(7.5, 0.25, 420.0, None, 224.0)
    assert read(dict.fromkeys(FIELDS, value)) is None


def test_reasoning_and_content_are_read_apart() -> None:
    assert read({**FIELDS, "output_token_metrics": BY_KIND}) == replace(TIMING, output=OUTPUT)
    nothing = dict.fromkeys(BY_KIND["content"])
    none_yet = read(
        {"output_token_metrics": {"reasoning": BY_KIND["reasoning"], "content": {**nothing, "token_count": 0}}}
    )
    assert none_yet == ServerTiming(output=OutputTiming(36, 0, None, 108.22, None, 160.0, None, 4.57, None))


@pytest.mark.parametrize(
    "value", [None, 3, "x", [], {}, {"reasoning": 3, "content": []}, {"content": {"token_count": -1}}]
)
def test_other_shapes_of_them_cost_nothing_else(value: Any) -> None:
    assert read({**FIELDS, "output_token_metrics": value}) == TIMING


@pytest.mark.parametrize("capture", [p.name for p in captures() if p.parent.name == "vllm" and "timing" in p.name])
def test_captures(capture: str) -> None:
    """Hold what is read against the bytes: figures come with one sequence, mean_itl_ms from two tokens on."""
    events = events_of(WIRE / "vllm" / capture)
    parsed = [parse_event(SSEEvent(json.dumps(event).encode()), 0, (), ENGINES.timing_paths) for event in events]
    timing = ENGINES.server_timing([response for response in parsed if isinstance(response, ParsedResponse)])
    if "n2" in capture:
        assert timing is None
        return
    assert timing is not None
    sent = next(event["metrics"] for event in events if event.get("metrics"))
    assert {name: getattr(timing, name) for name in FIELDS} == {name: sent.get(name) for name in FIELDS}
    assert (timing.mean_itl_ms is None) is ("zerostep" in capture)


@pytest.mark.parametrize("capture", ["chat-stream-timings-per-token-usage.sse", "completions-nonstream.json"])
def test_the_last_of_llama_cpps_running_times_counts(capture: str) -> None:
    events = events_of(WIRE / "llama_cpp" / capture)
    parsed = [parse_event(SSEEvent(json.dumps(event).encode()), 0, (), ENGINES.timing_paths) for event in events]
    sent = events[-1]["timings"]
    assert sent["predicted_n"] in (40, 48)
    assert ENGINES.server_timing([each for each in parsed if each is not None]) == ServerTiming(
        time_to_first_token_ms=sent["prompt_ms"],
        generation_time_ms=sent["predicted_ms"],
        mean_itl_ms=sent["predicted_per_token_ms"],
    )


def streamed(index: int, timing: ServerTiming | None = None) -> RequestRecord:
    made = record(index, start=0, contents=[50, 470], tokens=96)
    made.server_timing = timing
    return made


def test_it_is_written_and_read_back(tmp_path: Path) -> None:
    file = tmp_path / "profile_export.jsonl"
    file.write_bytes(record_line(streamed(0, TIMING), 0) + record_line(streamed(1), 0))
    first, second = (json.loads(line) for line in file.read_text().splitlines())
    assert first["metrics"]["server_time_to_first_token"] == {"value": 7.5, "unit": "ms"}
    assert not [tag for tag in second["metrics"] if tag.startswith("server_")]
    loaded = load_records(tmp_path).records
    assert [each.server_timing for each in loaded] == [TIMING, None]
    assert summarise(loaded).record_stats["server_queue_time"].count == 1


def test_both_kinds_are_written_and_read_back(tmp_path: Path) -> None:
    made = streamed(0, replace(TIMING, output=OUTPUT))
    (tmp_path / "profile_export.jsonl").write_bytes(record_line(made, 0))
    metrics = json.loads((tmp_path / "profile_export.jsonl").read_text())["metrics"]
    assert metrics["server_content_tokens"] == {"value": 20, "unit": "tokens"}
    assert metrics["server_time_to_first_content_token"] == {"value": 268.22, "unit": "ms"}
    assert [each.server_timing for each in load_records(tmp_path).records] == [made.server_timing]


def shown(records: list[RequestRecord]) -> str:
    result = RunResult(
        config=ProfileConfig(url="http://h:1"),
        url="",
        model="m",
        owned_by=None,
        dataset=DatasetInfo("x", None, 1, False),
        wall_offset_ns=0,
        records=records,
    )
    table = server_timing_table(result)
    if table is None:
        return ""
    console = Console(width=80, no_color=True)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_the_table_is_there_only_where_figures_were_sent() -> None:
    assert shown([streamed(0)]) == ""
    lines = [line.split() for line in shown([streamed(0), streamed(1, TIMING)]).splitlines()]
    assert ["Queue", "(ms)", "1", "0.25", "–"] in lines
    assert ["TTFT", "(ms)", "1", "7.50", "50.00"] in lines
    assert ["First", "to", "last", "token", "(ms)", "1", "420.0", "420.0"] in lines
    assert ["ITL", "(ms)", "1", "4.40", "4.42"] in lines
    assert ["Tokens/s", "1", "224.0", "204.3"] in lines
    assert not [line for line in lines if "reasoning" in line or "content" in line]


def test_the_table_has_rows_for_reasoning_and_content() -> None:
    text = shown([streamed(0, replace(TIMING, output=OUTPUT))])
    rows = {line[:26].strip(): line[26:].split() for line in text.splitlines()}
    assert rows["TTFT of content (ms)"] == ["1", "268.2", "–"]
    assert rows["ITL of reasoning (ms)"] == ["1", "4.57", "–"]
    assert rows["Unclassified tokens"] == ["1", "2.00", "–"]
