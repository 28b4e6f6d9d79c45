"""vLLM with a draft model and `summary` figures, with usage forced on everybody; and with figures turned off."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from aiperf_spec.analysis.server_acceptance import ServerAcceptance, server_acceptance
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.run import RequestRecord
from aiperf_spec.models.server_metrics import Agreement
from aiperf_spec.profiling import Hooks
from tests.acceptance_figures import figures_of
from tests.engines.conftest import Serve
from tests.engines.runs import (
    CODE,
    PATHS,
    PROMPTS,
    events_of,
    profiled,
    read_directly,
    speculation,
    summed,
    write_prompts,
)
from tests.engines.vllm_process import Engine, Setup, counted

pytestmark = pytest.mark.engine
NONE = Setup(k=4, level="none")
SUMMARY = Setup(drafter="draft", k=3, level="summary", options=("--enable-force-include-usage",))


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "body"])
@pytest.mark.parametrize("endpoint", ["chat", "completions"])
async def test_none_is_absent_and_says_what_to_turn_on(
    serve: Serve, tmp_path: Path, endpoint: str, streaming: bool
) -> None:
    engine = serve(NONE)
    file = write_prompts(tmp_path, CODE)
    with counted(engine) as grown:
        result = await profiled(engine, input_file=file, endpoint_type=endpoint, streaming=streaming)
    [record] = result.records
    assert record.error is None
    assert figures_of(record) == DropReason.ABSENT == read_directly(events_of(record))
    assert record.server_timing is None
    assert [notice.values["owned_by"] for notice in result.notices if notice.kind == "no_acceptance"] == ["vllm"]
    assert speculation(grown)
    assert result.reconciliation is not None
    assert result.reconciliation.agreement is Agreement.SERVER_MORE
    assert result.reconciliation.requests_silent == {"absent": 1}


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "body"])
@pytest.mark.parametrize("endpoint", ["chat", "completions"])
async def test_summary_of_a_draft_model(serve: Serve, tmp_path: Path, endpoint: str, streaming: bool) -> None:
    engine = serve(SUMMARY)
    file = write_prompts(tmp_path, CODE)
    with counted(engine) as grown:
        result = await profiled(engine, input_file=file, endpoint_type=endpoint, streaming=streaming, max_tokens=96)
    [record] = result.records
    assert record.raw is not None
    figures = read_directly(engine.ask(PATHS[endpoint], record.raw.payload))
    assert isinstance(figures, dict), figures
    assert figures_of(record) == figures == read_directly(events_of(record))
    assert (figures["k"], figures["per_step_accepted"], figures["per_step_drafted"]) == (3, None, None)
    assert speculation(grown) == summed(result.records)


async def test_forced_usage_reports_to_those_who_opted_out(serve: Serve, tmp_path: Path) -> None:
    engine = serve(SUMMARY)
    off = {"stream_options": {"include_usage": False}}
    [record] = (await profiled(engine, input_file=write_prompts(tmp_path, CODE), extra_inputs=off)).records
    assert record.usage is not None
    assert isinstance(figures_of(record), dict)
    assert figures_of(record) == read_directly(events_of(record))


@pytest.mark.parametrize("concurrency", [1, 8])
async def test_the_sum_is_the_servers(serve: Serve, concurrency: int) -> None:
    engine = serve(SUMMARY)
    with counted(engine) as grown:
        result = await profiled(engine, input_file=PROMPTS, concurrency=concurrency, request_count=16)
    assert len([record for record in result.records if record.acceptance is not None]) == 16
    assert speculation(grown) == summed(result.records)
    assert result.reconciliation is not None
    assert result.reconciliation.agreement is Agreement.EXACT


async def test_a_server_that_dies_and_returns(serve: Serve) -> None:
    """Kill the server under load, start it again, and see every request accounted for."""
    engine = serve(SUMMARY)
    seen: list[RequestRecord] = []
    under_way, back = asyncio.Event(), asyncio.Event()

    async def restart() -> None:
        await under_way.wait()
        await asyncio.to_thread(engine.stop, signal.SIGKILL)
        engine.start()
        await asyncio.to_thread(engine.wait_until_ready)
        back.set()

    def count(record: RequestRecord) -> None:
        seen.append(record)
        if len(seen) == 6:
            under_way.set()

    # On a schedule, because a closed loop would have spent all its requests on refused connections in no time.
    settings = {"request_rate": 4.0, "arrival_pattern": "constant", "benchmark_duration": 75.0}
    restarting = asyncio.create_task(restart())
    result = await profiled(engine, Hooks(sinks=[count]), input_file=PROMPTS, **settings)
    await restarting
    assert back.is_set()
    records = result.profiled()
    died = [record for record in records if record.error is not None]
    kinds = {str(record.error.kind) for record in died if record.error}
    assert kinds <= {"ConnectError", "ReadError", "RemoteProtocolError", "incomplete"}
    assert died
    assert all(figures_of(record) == DropReason.FAILED for record in died)
    before = [record for record in records if record.succeeded and record.start_ns < died[0].start_ns]
    after = [record for record in records if record.succeeded and record.start_ns > died[-1].start_ns]
    assert before
    assert after, "the server took longer than the run to come back"
    assert all(figures_of(record) == read_directly(events_of(record)) for record in before + after)
    # The new server's counters began at zero: nothing can be compared, and the report says so.
    assert result.reconciliation is not None
    assert result.reconciliation.agreement is Agreement.RESET


async def test_the_engine_is_the_same_after_its_return(serve: Serve, tmp_path: Path) -> None:
    engine: Engine = serve(SUMMARY)
    with counted(engine) as grown:
        result = await profiled(engine, input_file=write_prompts(tmp_path, CODE))
    assert speculation(grown) == summed(result.records)


async def test_the_counters_say_at_none_what_the_requests_say_at_summary(serve: Serve) -> None:
    """Profile the same prompts at both levels, and find the acceptance of the one in the counters of the other."""
    found = {}
    for level in ("summary", "none"):
        engine = serve(Setup(k=5, level=level))
        result = await profiled(engine, input_file=PROMPTS, request_count=16)
        counted = server_acceptance(result.reconciliation)
        assert isinstance(counted, ServerAcceptance)
        assert len(counted.reached) == 5
        found[level] = counted, summarise(result.records).acceptance
    (counted, silent), (beside, reported) = found["none"], found["summary"]
    assert (silent.requests, reported.requests) == (0, 16)
    assert reported.length is not None
    assert reported.rate_percent is not None
    assert (beside.length, beside.rate) == pytest.approx((reported.length, reported.rate_percent))
    assert counted.length == pytest.approx(reported.length, rel=0.005)
    assert counted.rate == pytest.approx(reported.rate_percent, rel=0.005)
    assert counted.positions == pytest.approx(beside.positions, rel=0.005)
