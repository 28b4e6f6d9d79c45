"""What only vLLM has: levels of reporting, usage forced on everybody, its own timing, and what requests may ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiperf_spec.analysis.server_acceptance import ServerAcceptance, server_acceptance
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.run import ErrorKind
from aiperf_spec.models.server_metrics import Agreement
from tests.acceptance_figures import figures_of
from tests.derive_expected import acceptance_of
from tests.engines.conftest import Serve
from tests.engines.runs import (
    CODE,
    PATHS,
    PROMPTS,
    assert_read_from_its_bytes,
    events_of,
    profiled,
    summed,
    write_prompts,
)
from tests.engines.server import Engine, Server, Setup, counted
from tests.engines.vllm import VLLM

pytestmark = [pytest.mark.engine, pytest.mark.parametrize("engine", [VLLM], indirect=True, ids=["vllm"])]
NONE = Setup("ngram", 5, ("--per-request-spec-decode-metrics", "none"))
SUMMARY = Setup(
    "ngram",
    5,
    ("--per-request-spec-decode-metrics", "summary", "--enable-force-include-usage", "--enable-per-request-metrics"),
)
streamed_or_not = pytest.mark.parametrize("streaming", [True, False], ids=["stream", "body"])
endpoints = pytest.mark.parametrize("endpoint", ["chat", "completions"])


@streamed_or_not
@endpoints
async def test_the_server_times_requests_too(server: Server, tmp_path: Path, endpoint: str, streaming: bool) -> None:
    file = write_prompts(tmp_path, CODE)
    [record] = (await profiled(server, input_file=file, endpoint_type=endpoint, streaming=streaming)).records
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


async def test_without_usage_vllm_reports_nothing(server: Server, tmp_path: Path) -> None:
    off = {"stream_options": {"include_usage": False}}
    result = await profiled(server, input_file=write_prompts(tmp_path, CODE), extra_inputs=off)
    [record] = result.records
    assert (record.error, record.usage, record.server_timing) == (None, None, None)
    assert figures_of(record) == DropReason.ABSENT
    [notice] = [notice for notice in result.notices if notice.kind == "no_acceptance"]
    assert notice.values["owned_by"] == "vllm"
    assert notice.values["usage_off"] is True


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param({}, id="plain"),
        pytest.param({"structured_outputs": {"regex": "[a-z ]{60}"}}, id="regex"),
        pytest.param({"response_format": {"type": "json_object"}}, id="json"),
        pytest.param({"stop": ["def"], "include_stop_str_in_output": True}, id="stop-included"),
        pytest.param({"logprobs": True, "top_logprobs": 2}, id="logprobs"),
        pytest.param({"stream_options": {"include_usage": True, "continuous_usage_stats": True}}, id="running-usage"),
    ],
)
async def test_a_record_is_what_a_direct_request_gets(server: Server, tmp_path: Path, extra: dict[str, Any]) -> None:
    file = write_prompts(tmp_path, CODE)
    with counted(server) as grown:
        result = await profiled(server, input_file=file, extra_inputs=extra)
    [record] = result.records
    assert record.raw is not None
    direct = acceptance_of("vllm", record.raw.payload, server.ask(PATHS["chat"], record.raw.payload))
    assert direct == assert_read_from_its_bytes(server, record)
    assert grown == summed(result.records)


@streamed_or_not
@pytest.mark.parametrize(
    ("settings", "status", "said"),
    [
        pytest.param({"model": "no-such-model"}, 404, "no-such-model", id="model"),
        pytest.param({"max_tokens": 4000}, 400, "max_model_len", id="too-many-tokens"),
    ],
)
async def test_refusals(
    server: Server, tmp_path: Path, streaming: bool, settings: dict[str, Any], status: int, said: str
) -> None:
    file = write_prompts(tmp_path, CODE)
    [record] = (await profiled(server, input_file=file, streaming=streaming, **settings)).records
    assert record.error is not None
    assert (record.error.kind, record.error.status) == (ErrorKind.HTTP_STATUS, status)
    assert said in record.error.message


async def test_64_at_once(server: Server) -> None:
    with counted(server) as grown:
        result = await profiled(server, input_file=PROMPTS, concurrency=64, request_count=128)
    assert len(result.records) == 128
    for record in result.records:
        assert_read_from_its_bytes(server, record)
    assert grown == summed(result.records)
    assert result.reconciliation is not None
    assert result.reconciliation.agreement is Agreement.EXACT


async def test_the_counters_say_at_none_what_the_requests_say_at_summary(serve: Serve, engine: Engine) -> None:
    """Profile the same prompts at both levels, and find the acceptance of the one in the counters of the other."""
    found = {}
    for setup in (SUMMARY, NONE):
        result = await profiled(serve(engine, setup), input_file=PROMPTS, request_count=16)
        counters = server_acceptance(result.reconciliation)
        assert isinstance(counters, ServerAcceptance)
        assert len(counters.reached) == 5
        found[setup] = counters, summarise(result.records).acceptance
    (silently, silent), (beside, reported) = found[NONE], found[SUMMARY]
    assert (silent.requests, reported.requests) == (0, 16)
    assert reported.length is not None
    assert reported.rate_percent is not None
    assert (beside.length, beside.rate) == pytest.approx((reported.length, reported.rate_percent))
    assert silently.length == pytest.approx(reported.length, rel=0.005)
    assert silently.rate == pytest.approx(reported.rate_percent, rel=0.005)
    assert silently.positions == pytest.approx(beside.positions, rel=0.005)


@streamed_or_not
@endpoints
async def test_none_is_absent_and_says_what_to_turn_on(
    serve: Serve, engine: Engine, tmp_path: Path, endpoint: str, streaming: bool
) -> None:
    server = serve(engine, NONE)
    file = write_prompts(tmp_path, CODE)
    with counted(server) as grown:
        result = await profiled(server, input_file=file, endpoint_type=endpoint, streaming=streaming)
    [record] = result.records
    assert assert_read_from_its_bytes(server, record) == {"drop": "absent"}
    assert record.server_timing is None
    assert [notice.values["owned_by"] for notice in result.notices if notice.kind == "no_acceptance"] == ["vllm"]
    assert grown
    assert result.reconciliation is not None
    assert result.reconciliation.agreement is Agreement.SERVER_MORE
    assert result.reconciliation.requests_silent == {"absent": 1}


@streamed_or_not
@endpoints
async def test_summary_has_no_steps(
    serve: Serve, engine: Engine, tmp_path: Path, endpoint: str, streaming: bool
) -> None:
    server = serve(engine, SUMMARY)
    file = write_prompts(tmp_path, CODE)
    with counted(server) as grown:
        result = await profiled(server, input_file=file, endpoint_type=endpoint, streaming=streaming, max_tokens=96)
    [record] = result.records
    figures = assert_read_from_its_bytes(server, record)["record"]
    assert (figures["k"], figures["per_step_accepted"], figures["per_step_drafted"]) == (5, None, None)
    assert grown == summed(result.records)


async def test_forced_usage_reports_to_those_who_opted_out(serve: Serve, engine: Engine, tmp_path: Path) -> None:
    server = serve(engine, SUMMARY)
    off = {"stream_options": {"include_usage": False}}
    [record] = (await profiled(server, input_file=write_prompts(tmp_path, CODE), extra_inputs=off)).records
    assert record.usage is not None
    assert "record" in assert_read_from_its_bytes(server, record)
