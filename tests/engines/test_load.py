"""What happens to a run under way at every engine: time-outs, aborts, a restart, and several client processes."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from aiperf_spec.load.stop import Stop
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.run import ErrorKind, RequestRecord
from aiperf_spec.models.server_metrics import Agreement
from aiperf_spec.profiling import Hooks
from tests.acceptance_figures import figures_of
from tests.engines.runs import CODE, PROMPTS, assert_read_from_its_bytes, profiled, summed, write_prompts, write_rows
from tests.engines.server import Server, counted

pytestmark = pytest.mark.engine
LONG = {"text": CODE, "output_length": 1500}


async def assert_exact_again(server: Server, folder: Path) -> None:
    """Hold a run after the incident against the counters: nothing of the incident is left at the server."""
    with counted(server) as grown:
        result = await profiled(server, input_file=write_prompts(folder, CODE), extra_inputs={"ignore_eos": True})
    assert grown == summed(result.records)
    assert grown


async def test_what_takes_too_long_fails_alone(server: Server, tmp_path: Path) -> None:
    short: dict[str, Any] = {"text": CODE, "output_length": 8}
    file = write_rows(tmp_path, short, LONG, short)
    settings: dict[str, Any] = {"extra_inputs": {"ignore_eos": True}}
    *_, long, quick = (await profiled(server, input_file=file, **settings)).profiled()
    # Far from both, on a log scale, however fast the machine is.
    between = ((long.end_ns - long.start_ns) * (quick.end_ns - quick.start_ns)) ** 0.5 / 1e9
    with counted(server) as grown:
        result = await profiled(server, input_file=file, request_timeout_seconds=between, **settings)
    first, late, last = result.profiled()
    assert late.error is not None
    assert (late.error.kind, figures_of(late)) == (ErrorKind.READ_TIMEOUT, DropReason.FAILED)
    for record in (first, last):
        assert_read_from_its_bytes(server, record)
    # The server worked for the request that was given up, and for nobody's figures.
    ours = summed(result.records)
    assert all(grown[name] >= ours[name] for name in ours)
    assert result.reconciliation is not None
    assert result.reconciliation.requests_silent == {"failed": 1}
    await assert_exact_again(server, tmp_path)


async def test_an_abort_in_mid_stream_is_on_the_servers_side_alone(server: Server, tmp_path: Path) -> None:
    stops: list[Stop] = []

    def stop_after_two(record: RequestRecord) -> None:
        if record.index == 1:
            stops[0].request("a test")

    hooks = Hooks(sinks=[stop_after_two], on_stop=stops.append)
    short = {"text": CODE, "output_length": 24}
    file = write_rows(tmp_path, short, short, LONG, LONG)
    with counted(server) as grown:
        result = await profiled(
            server, hooks, input_file=file, concurrency=3, max_tokens=1500, extra_inputs={"ignore_eos": True}
        )
    kinds = sorted(str(record.error.kind) if record.error else "" for record in result.records)
    assert kinds.count("cancelled") >= 1
    assert kinds.count("") >= 1
    ours = summed(result.records)
    assert all(grown[name] >= ours[name] for name in ours)
    assert grown["spec_decode_num_drafts"] > ours["spec_decode_num_drafts"]
    await assert_exact_again(server, tmp_path)


async def test_two_workers_keep_every_byte_of_long_answers(server: Server) -> None:
    settings: dict[str, Any] = {"workers": 2, "concurrency": 4, "request_count": 12, "max_tokens": 600}
    with counted(server) as grown:
        result = await profiled(server, input_file=PROMPTS, extra_inputs={"ignore_eos": True}, **settings)
    assert len(result.records) == 12
    for record in result.records:
        assert_read_from_its_bytes(server, record)
        assert record.output_tokens == 600
    assert grown == summed(result.records)
    assert result.reconciliation is not None
    assert result.reconciliation.agreement is Agreement.EXACT


async def test_a_server_that_dies_and_returns(server: Server, tmp_path: Path) -> None:
    """Kill the server under load, start it again, and see every request accounted for."""
    stops: list[Stop] = []
    seen: list[RequestRecord] = []
    under_way, missed, back = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def restart() -> None:
        await under_way.wait()
        await asyncio.to_thread(server.stop, signal.SIGKILL)
        # One that starts in no time would be back between two requests.
        await missed.wait()
        server.start()
        await asyncio.to_thread(server.wait_until_ready)
        back.set()

    def count(record: RequestRecord) -> None:
        seen.append(record)
        if len(seen) == 6:
            under_way.set()
        if record.error is not None:
            missed.set()
        if back.is_set() and sum(each.succeeded for each in seen[-8:]) == 8:
            stops[0].request("a test")

    # On a schedule, because a closed loop would have spent all its requests on refused connections in no time.
    settings = {"request_rate": 4.0, "arrival_pattern": "constant", "benchmark_duration": 300.0}
    restarting = asyncio.create_task(restart())
    hooks = Hooks(sinks=[count], on_stop=stops.append)
    result = await profiled(server, hooks, input_file=PROMPTS, **settings)
    await restarting
    records = result.profiled()
    kinds = {str(record.error.kind) for record in records if record.error}
    died = [record for record in records if record.error and record.error.kind != "cancelled"]
    assert kinds <= {"ConnectError", "ReadError", "RemoteProtocolError", "incomplete", "http_status", "cancelled"}
    assert died
    assert all(figures_of(record) == DropReason.FAILED for record in died)
    before = [record for record in records if record.succeeded and record.start_ns < died[0].start_ns]
    after = [record for record in records if record.succeeded and record.start_ns > died[-1].start_ns]
    assert before
    assert len(after) >= 8
    for record in before + after:
        assert_read_from_its_bytes(server, record)
    # The new server's counters began at zero: nothing can be compared, and the report says so.
    assert result.reconciliation is not None
    assert result.reconciliation.agreement is Agreement.RESET
    await assert_exact_again(server, tmp_path)
