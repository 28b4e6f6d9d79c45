"""Version skew: an engine that adds, renames or drops a field."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from aiperf_spec.adapters.registry import BUILT_IN, AdapterRegistry
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.response import ParsedResponse
from aiperf_spec.profiling import Hooks, profile_async
from aiperf_spec.render.notices import notice_text
from aiperf_spec.wire.chunk import parse_event
from aiperf_spec.wire.sse import SSEEvent
from tests.derive_expected import WIRE
from tests.raw_server import Call, send_stream, serving

Change = Callable[[dict[str, Any]], object]

FILES = {
    "vllm": ("chat-nonstream-timing.json", ("metrics", "speculative_decoding"), "vLLM", "0.32.0"),
    "sglang": ("chat-nonstream-n1.json", ("sglext", "spec_tokens_details"), "SGLang", "0.5.23"),
    "tensorrt_llm": ("chat-nonstream-n1.json", ("choices", 0, "speculative_decoding"), "TensorRT-LLM", "19311"),
}


def body_of(engine: str) -> dict[str, Any]:
    return dict(json.loads((WIRE / engine / FILES[engine][0]).read_text()))


def payload_in(body: Any, path: tuple[Any, ...]) -> dict[str, Any]:
    for key in path:
        body = body[key]
    assert isinstance(body, dict)
    return body


def read(registry: AdapterRegistry, body: dict[str, Any]) -> Any:
    response = parse_event(SSEEvent(json.dumps(body).encode()), 0, registry.payload_paths, registry.timing_paths)
    assert isinstance(response, ParsedResponse)
    record, reason = registry.read([response], several_sequences=False)
    return record if reason is None else reason


def read_changed(engine: str, change: Change, times: int = 3) -> tuple[Any, list[str]]:
    registry, body = AdapterRegistry(BUILT_IN), body_of(engine)
    change(payload_in(body, FILES[engine][1]))
    results = [read(registry, body) for _ in range(times)]
    assert all(result == results[0] for result in results)
    return results[0], registry.warnings


def rename(old: str, new: str) -> Change:
    return lambda payload: payload.__setitem__(new, payload.pop(old))


@pytest.mark.parametrize("engine", FILES)
def test_nothing_is_said_of_what_is_known(engine: str) -> None:
    record, warnings = read_changed(engine, lambda payload: None)
    assert record.engine == engine
    assert warnings == []


@pytest.mark.parametrize("engine", FILES)
def test_a_field_that_is_new(engine: str) -> None:
    """The record stands as it was, and one notice names engine, field and version."""
    plain, _ = read_changed(engine, lambda payload: None)
    record, warnings = read_changed(engine, lambda payload: payload.__setitem__("tree_width", 4))
    assert record == plain
    [warning] = warnings
    _, _, name, version = FILES[engine]
    assert warning.startswith(f"{name} ")
    assert version in warning
    assert "with tree_width, which is ignored" in warning


SIGNATURE = {"vllm": "num_spec_steps", "sglang": "spec_verify_ct", "tensorrt_llm": "total_draft_tokens"}
NEEDED = {"vllm": "num_draft_tokens", "tensorrt_llm": "acceptance_rate"}


@pytest.mark.parametrize(
    ("engine", "field", "reason"),
    [
        *((engine, field, DropReason.UNRECOGNIZED) for engine, field in SIGNATURE.items()),
        *((engine, field, DropReason.MALFORMED) for engine, field in NEEDED.items()),
    ],
)
def test_a_field_that_is_gone_or_renamed(engine: str, field: str, reason: DropReason) -> None:
    _, _, name, version = FILES[engine]
    got, warnings = read_changed(engine, lambda payload: payload.pop(field))
    assert got == reason
    [warning] = warnings
    assert warning.startswith(f"{name} ")
    assert version in warning
    assert f"without {field}" in warning
    got, warnings = read_changed(engine, rename(field, "total"))
    assert got == reason
    [warning] = warnings
    assert f"without {field}, so such requests have no record and with total, which is ignored" in warning


def test_a_field_that_may_be_missing() -> None:
    """vLLM's `summary` has no arrays; nothing is wrong with that."""
    record, warnings = read_changed("vllm", lambda payload: payload.pop("per_step_drafted"))
    assert record.per_step_drafted is None
    assert warnings == []


def test_figures_beside_acceptance() -> None:
    """A new field beside `speculative_decoding` is named with its place; a renamed object leaves nothing to read."""
    registry, body = AdapterRegistry(BUILT_IN), body_of("vllm")
    body["metrics"]["prefill_time_ms"] = 3.5
    assert read(registry, body).engine == "vllm"
    [warning] = registry.warnings
    assert "vLLM" in warning
    assert "metrics.prefill_time_ms" in warning
    body = body_of("vllm")
    body["metrics"] = {"spec_decode": body["metrics"]["speculative_decoding"]}
    assert read(registry, body) == DropReason.ABSENT
    [warning] = registry.warnings
    assert "metrics.prefill_time_ms, metrics.spec_decode" in warning


def test_one_notice_grows_and_stays_short() -> None:
    """Fields that come one by one join the engine's notice; a server that invents them without end does not."""
    registry = AdapterRegistry(BUILT_IN)
    for number in range(100):
        body = body_of("vllm")
        payload_in(body, FILES["vllm"][1])[f"field_{number}" + "x" * 1000] = number
        read(registry, copy.deepcopy(body))
    [warning] = registry.warnings
    assert "field_3" in warning
    assert "field_9" not in warning
    assert len(warning) < 500


@pytest.mark.parametrize("body", [{"metrics": {"cpu": 3}}, {"metrics": {"usage": {"a": 1}}}, {"metrics": [1]}])
def test_other_metrics_are_nobodys(body: dict[str, Any]) -> None:
    registry = AdapterRegistry(BUILT_IN)
    assert read(registry, {"choices": [{"index": 0, "text": "a"}], **body}) == DropReason.ABSENT
    assert registry.warnings == []


def test_an_object_of_nobody_is_only_unrecognized() -> None:
    registry = AdapterRegistry(BUILT_IN)
    body = {"choices": [], "metrics": {"speculative_decoding": {"steps": 3, "num_spec_steps": 3}}}
    assert read(registry, body) == DropReason.UNRECOGNIZED
    assert registry.warnings == []


async def test_a_run_against_another_version_has_one_notice() -> None:
    stream = (WIRE / "vllm" / "chat-stream-timing-usage.sse").read_bytes()
    renamed = stream.replace(b'"num_draft_tokens"', b'"num_drafted"').replace(b'"queue_time_ms"', b'"queue_[b]s"')

    async def respond(call: Call, writer: asyncio.StreamWriter) -> None:
        await send_stream(writer, renamed)

    async with serving(respond) as server:
        result = await profile_async(ProfileConfig(url=server.url, model="m", request_count=4, concurrency=2), Hooks())
    assert [record.drop_reason for record in result.records] == [DropReason.MALFORMED] * 4
    timing = result.records[0].server_timing
    assert timing is not None
    assert (timing.queue_time_ms, timing.time_to_first_token_ms) == (None, 1219.8158259998308)
    [notice] = [notice for notice in result.notices if notice.kind == "adapter"]
    assert notice_text(notice) == (
        "vLLM reports acceptance otherwise than in version 0.32.0, which this was written against: without "
        "num_draft_tokens, so such requests have no record and with metrics.queue_[b]s, num_drafted, which are ignored"
    )
