"""vLLM with an n-gram drafter and `detailed` figures: every kind of request, its record or drop reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aiperf_spec.load.stop import Stop
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.run import ErrorKind, RequestRecord
from aiperf_spec.models.server_metrics import Agreement
from aiperf_spec.profiling import Hooks
from tests.acceptance_figures import figures_of
from tests.engines.conftest import Serve
from tests.engines.runs import (
    CODE,
    PATHS,
    PROMPTS,
    events_of,
    payload_of,
    profiled,
    read_directly,
    speculation,
    summed,
    write_prompts,
)
from tests.engines.vllm_process import Engine, Setup, counted

pytestmark = pytest.mark.engine
SETUP = Setup(options=("--enable-per-request-metrics",))


@pytest.fixture
def engine(serve: Serve) -> Engine:
    return serve(SETUP)


def direct_body(endpoint: str, record: RequestRecord) -> dict[str, Any]:
    assert record.raw is not None
    assert ("messages" in record.raw.payload) is (endpoint == "chat")
    return record.raw.payload


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "body"])
@pytest.mark.parametrize("endpoint", ["chat", "completions"])
async def test_a_record_is_what_a_direct_request_gets(
    engine: Engine, tmp_path: Path, endpoint: str, streaming: bool
) -> None:
    file = write_prompts(tmp_path, CODE)
    with counted(engine) as grown:
        result = await profiled(engine, input_file=file, endpoint_type=endpoint, streaming=streaming, max_tokens=96)
    [record] = result.records
    direct = engine.ask(PATHS[endpoint], direct_body(endpoint, record))
    figures = read_directly(direct)
    assert isinstance(figures, dict), figures
    assert figures_of(record) == figures == read_directly(events_of(record))
    assert figures["per_step_accepted"]
    assert speculation(grown) == summed(result.records)
    assert result.reconciliation is not None
    assert result.reconciliation.agreement is Agreement.EXACT


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "body"])
@pytest.mark.parametrize("endpoint", ["chat", "completions"])
async def test_the_server_times_requests_too(engine: Engine, tmp_path: Path, endpoint: str, streaming: bool) -> None:
    file = write_prompts(tmp_path, CODE)
    [record] = (await profiled(engine, input_file=file, endpoint_type=endpoint, streaming=streaming)).records
    timing, sent = record.server_timing, events_of(record)
    assert timing is not None
    metrics = next(event["metrics"] for event in reversed(sent) if event.get("metrics"))
    assert timing.time_to_first_token_ms == metrics["time_to_first_token_ms"]
    assert timing.mean_itl_ms == metrics["mean_itl_ms"]
    assert timing.tokens_per_second == metrics["tokens_per_second"]
    # What the engine measured within a request took place while the request was in flight here.
    assert timing.queue_time_ms is not None
    assert timing.time_to_first_token_ms is not None
    assert timing.generation_time_ms is not None
    spent = timing.queue_time_ms + timing.time_to_first_token_ms + timing.generation_time_ms
    assert 0 < spent <= (record.end_ns - record.start_ns) / 1e6


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "body"])
@pytest.mark.parametrize(
    ("endpoint", "several"),
    [
        pytest.param("chat", {"extra_inputs": {"n": 2, "seed": 7}, "temperature": 1}, id="chat-n"),
        pytest.param("completions", {"extra_inputs": {"n": 2, "seed": 7}, "temperature": 1}, id="completions-n"),
        pytest.param("completions", {"batch_size_text": 2}, id="completions-prompts"),
    ],
)
async def test_several_sequences(
    engine: Engine, tmp_path: Path, endpoint: str, streaming: bool, several: dict[str, Any]
) -> None:
    file = write_prompts(tmp_path, CODE, "import os\n")
    settings: dict[str, Any] = {"endpoint_type": endpoint, "streaming": streaming, "request_count": 1, **several}
    [record] = (await profiled(engine, input_file=file, max_tokens=24, **settings)).records
    assert record.error is None
    assert figures_of(record) == DropReason.MULTI_SEQUENCE
    assert payload_of(events_of(record)) is None
    assert record.server_timing is None


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "body"])
@pytest.mark.parametrize("endpoint", ["chat", "completions"])
async def test_one_token_has_no_step(engine: Engine, tmp_path: Path, endpoint: str, streaming: bool) -> None:
    file = write_prompts(tmp_path, CODE)
    with counted(engine) as grown:
        result = await profiled(engine, input_file=file, endpoint_type=endpoint, streaming=streaming, max_tokens=1)
    [record] = result.records
    assert figures_of(record) == DropReason.ZERO_STEP == read_directly(events_of(record))
    assert record.output_tokens == 1
    assert not speculation(grown)


async def test_without_usage_vllm_reports_nothing(engine: Engine, tmp_path: Path) -> None:
    off = {"stream_options": {"include_usage": False}}
    result = await profiled(engine, input_file=write_prompts(tmp_path, CODE), extra_inputs=off)
    [record] = result.records
    assert (record.error, record.usage, record.server_timing) == (None, None, None)
    assert figures_of(record) == DropReason.ABSENT
    [notice] = [notice for notice in result.notices if notice.kind == "no_acceptance"]
    assert notice.values["owned_by"] == "vllm"
    assert notice.values["usage_off"] is True


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param({"structured_outputs": {"regex": "[a-z ]{60}"}}, id="regex"),
        pytest.param({"response_format": {"type": "json_object"}}, id="json"),
        pytest.param({"stop": ["\n\n"]}, id="stop"),
        pytest.param({"stop": ["def"], "include_stop_str_in_output": True}, id="stop-included"),
        pytest.param({"logprobs": True, "top_logprobs": 2}, id="logprobs"),
        pytest.param({"stream_options": {"include_usage": True, "continuous_usage_stats": True}}, id="running-usage"),
    ],
)
async def test_what_requests_may_ask_for(engine: Engine, tmp_path: Path, extra: dict[str, Any]) -> None:
    file = write_prompts(tmp_path, CODE)
    with counted(engine) as grown:
        result = await profiled(engine, input_file=file, extra_inputs=extra)
    [record] = result.records
    assert record.error is None
    figures = read_directly(engine.ask(PATHS["chat"], direct_body("chat", record)))
    assert figures_of(record) == figures == read_directly(events_of(record))
    assert speculation(grown) == summed(result.records)


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "body"])
@pytest.mark.parametrize(
    ("settings", "status", "said"),
    [
        pytest.param({"model": "no-such-model"}, 404, "no-such-model", id="model"),
        pytest.param({"max_tokens": 4000}, 400, "max_model_len", id="too-many-tokens"),
        pytest.param({"prompt": CODE * 200}, 400, "2048", id="too-long-prompt"),
    ],
)
async def test_refusals(
    engine: Engine, tmp_path: Path, streaming: bool, settings: dict[str, Any], status: int, said: str
) -> None:
    prompt = settings.get("prompt", CODE)
    given = {name: value for name, value in settings.items() if name != "prompt"}
    file = write_prompts(tmp_path, prompt)
    [record] = (await profiled(engine, input_file=file, streaming=streaming, **given)).records
    assert record.error is not None
    assert (record.error.kind, record.error.status) == (ErrorKind.HTTP_STATUS, status)
    assert said in record.error.message
    [event] = engine.ask(PATHS["chat"], direct_body("chat", record))
    assert event["error"]["message"] in record.error.message
    assert figures_of(record) == DropReason.FAILED


@pytest.mark.parametrize("concurrency", [1, 8, 64])
async def test_the_sum_is_the_servers(engine: Engine, concurrency: int) -> None:
    with counted(engine) as grown:
        result = await profiled(
            engine, input_file=PROMPTS, concurrency=concurrency, request_count=max(2 * concurrency, 16)
        )
    assert len(result.records) == max(2 * concurrency, 16)
    assert [record.error for record in result.records if record.error is not None] == []
    for record in result.records:
        assert figures_of(record) == read_directly(events_of(record))
    assert speculation(grown) == summed(result.records)
    assert grown["request_success"] == len(result.records)
    assert result.reconciliation is not None
    assert result.reconciliation.agreement is Agreement.EXACT
    assert [notice for notice in result.notices if notice.kind == "adapter"] == []


async def test_an_abort_in_mid_stream_is_on_the_servers_side_alone(engine: Engine, tmp_path: Path) -> None:
    stops: list[Stop] = []

    def stop_after_two(record: RequestRecord) -> None:
        if record.index == 1:
            stops[0].request("a test")

    file = write_prompts(tmp_path, CODE)
    hooks = Hooks(sinks=[stop_after_two], on_stop=stops.append)
    with counted(engine) as grown:
        long = write_rows(tmp_path, [(CODE, 24), (CODE, 24), (CODE, 1500), (CODE, 1500)])
        result = await profiled(engine, hooks, input_file=long, concurrency=3, max_tokens=1500)
    kinds = sorted(str(record.error.kind) if record.error else "" for record in result.records)
    assert kinds.count("cancelled") >= 1
    assert kinds.count("") >= 1
    ours, theirs = summed(result.records), speculation(grown)
    assert all(theirs[name] >= ours[name] for name in ours)
    assert theirs["spec_decode_num_drafts"] > ours["spec_decode_num_drafts"]
    # What was cancelled is gone from the server too: a run after it is exact again.
    with counted(engine) as grown:
        result = await profiled(engine, input_file=file)
    assert speculation(grown) == summed(result.records)


def write_rows(folder: Path, rows: list[tuple[str, int]]) -> Path:
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps({"text": text, "output_length": tokens}) + "\n" for text, tokens in rows))
    return file
