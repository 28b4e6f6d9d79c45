"""Load shapes and worker processes, against simulators."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sysconfig
import time
from pathlib import Path
from typing import Any

import pytest

from aiperf_spec.artifacts.read.records import load_records
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.load.loop_lag import LoopLagMonitor
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.models.run import ErrorKind, NoticeKind, Phase, RunResult
from aiperf_spec.profiling import Hooks, profile
from tests.support import Simulate

SCRIPT = str(Path(sysconfig.get_path("scripts")) / "spec-profile")


def run(url: str, **settings: Any) -> RunResult:
    return profile(ProfileConfig.create(url=url, temperature=0, server_metrics=False, **settings))


def test_an_open_loop_does_not_wait_for_a_slow_server(simulate: Simulate) -> None:
    # One response takes about 0.6 s; a closed loop would send two a second.
    url = simulate("vllm", prefill_time_ms=600.0).url
    result = run(url, request_rate=40, arrival_pattern="constant", request_count=40, max_tokens=2)
    records = result.profiled()
    starts = [record.start_ns for record in records]
    assert (max(starts) - min(starts)) / 1e9 == pytest.approx(39 / 40, rel=0.15)
    assert len([r for r in records if r.start_ns < min(q.end_ns for q in records)]) > 15, "many were in flight at once"
    stats = summarise(records).record_stats
    assert stats["schedule_lag"].min >= 0
    assert stats["schedule_lag"].value("p50") < 50
    assert stats["scheduled_latency"].avg == pytest.approx(
        stats["request_latency"].avg + stats["schedule_lag"].avg, rel=1e-9
    )


def test_a_cap_makes_requests_wait_and_says_so(simulate: Simulate) -> None:
    url = simulate("vllm", prefill_time_ms=100.0).url
    settings: dict[str, Any] = {"request_rate": 50, "arrival_pattern": "constant", "request_count": 20, "max_tokens": 1}
    result = run(url, concurrency=2, **settings)
    lag = summarise(result.records).record_stats["schedule_lag"]
    # Twenty requests of 0.1 s, two at a time, take a second; they were due within 0.4 s.
    assert 300 < lag.max < 2000
    assert NoticeKind.SCHEDULE_LAG in {notice.kind for notice in result.notices}
    spans = sorted((record.start_ns, record.end_ns) for record in result.profiled())
    assert all(sum(a <= start < b for a, b in spans) <= 2 for start, _ in spans)


def test_a_closed_loop_has_no_schedule(simulate: Simulate) -> None:
    stats = summarise(run(simulate("vllm").url, request_count=2).records).record_stats
    assert "schedule_lag" not in stats
    assert "scheduled_latency" not in stats


@pytest.mark.parametrize("shape", [{"concurrency": 4}, {"request_rate": 60}])
def test_a_duration_ends_the_sending(shape: dict[str, Any], simulate: Simulate) -> None:
    begun = time.monotonic()
    result = run(simulate("vllm").url, benchmark_duration=1.0, max_tokens=20, **shape)
    assert 0.9 < time.monotonic() - begun < 6
    records = result.profiled()
    assert len(records) > 20
    assert all(record.succeeded for record in records)
    assert (max(record.start_ns for record in records) - min(record.start_ns for record in records)) / 1e9 < 1.2


def test_the_grace_period_ends_what_is_stalled(simulate: Simulate) -> None:
    url = simulate("vllm", faults=(("stall", 1.0),)).url
    begun = time.monotonic()
    result = run(url, benchmark_duration=0.5, benchmark_grace_period=0.5, concurrency=3)
    assert 0.9 < time.monotonic() - begun < 5
    assert len(result.records) == 3
    assert {record.error.kind for record in result.records if record.error} == {ErrorKind.CANCELLED}
    assert result.stopped_by is None


def test_workers_make_one_run(simulate: Simulate, tmp_path: Path) -> None:
    simulator = simulate("vllm")
    settings: dict[str, Any] = {"concurrency": 5, "request_count": 30, "warmup_request_count": 4, "max_tokens": 24}
    one = run(simulator.url, **settings)
    simulator.reset_ledger()
    three = run(simulator.url, workers=3, artifact_dir=tmp_path / "run", **settings)
    assert [record.index for record in three.profiled()] == list(range(30))
    assert sum(record.phase is Phase.WARMUP for record in three.records) == 4
    assert [r.prompt_id for r in three.profiled()] == [r.prompt_id for r in one.profiled()]
    assert [r.acceptance for r in three.profiled()] == [r.acceptance for r in one.profiled()]
    assert summarise(three.records).acceptance == summarise(one.records).acceptance
    ledger = simulator.ledger()
    assert len({entry["request_id"] for entry in ledger}) == len(ledger) == 34
    assert max(entry["in_flight"] for entry in ledger) == 5
    loaded = load_records(tmp_path / "run")
    assert len(loaded.records) == 34
    assert len(three.loop_lags_ns) > 0
    # Stamps of three processes are of one clock: no request of the run began before the warm-up had ended.
    warm = [record for record in three.records if record.phase is Phase.WARMUP]
    assert max(record.end_ns for record in warm) < min(record.start_ns for record in three.profiled())


def test_workers_follow_one_schedule(simulate: Simulate) -> None:
    settings: dict[str, Any] = {"request_rate": 80, "request_count": 60, "max_tokens": 4, "random_seed": 5}
    one, two = run(simulate("vllm").url, **settings), run(simulate("vllm").url, workers=2, **settings)

    def offsets(result: RunResult) -> list[float]:
        due = [record.scheduled_ns or 0 for record in result.profiled()]
        return [round((at - due[0]) / 1e6, 3) for at in due]

    assert offsets(one) == offsets(two)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_workers_stop_as_one(number: signal.Signals, code: int, simulate: Simulate, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = [SCRIPT, "--url", simulate("vllm", faults=(("stall", 0.2),)).url, "--workers", "2", "--concurrency", "6"]
    command += ["--request-count", "100000", "--artifact-dir", str(out), "--max-tokens", "20"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, start_new_session=True, **pipes)
    path = out / "profile_export.jsonl"
    deadline = time.monotonic() + 30
    while not (path.exists() and path.read_bytes().count(b"\n") > 5):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    begun = time.monotonic()
    # As a terminal does: to the whole group.
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    stdout, stderr = process.communicate(timeout=20)
    assert process.returncode == code
    assert time.monotonic() - begun < 3
    assert "Traceback" not in stdout + stderr
    loaded = load_records(out)
    assert loaded.unreadable == ()
    summary = json.loads((out / "profile_export_aiperf.json").read_text())
    assert summary["request_count"]["avg"] == sum(record.succeeded for record in loaded.records)
    assert f"stopped early by {number.name}" in stdout


def test_a_killed_worker_is_an_error_and_what_was_measured_stays(simulate: Simulate, tmp_path: Path) -> None:
    out = tmp_path / "run"
    url = simulate("vllm").url
    command = [SCRIPT, "--url", url, "--workers", "2", "--concurrency", "4", "--request-count", "100000"]
    process = subprocess.Popen(
        [*command, "--artifact-dir", str(out), "--max-tokens", "8"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    path = out / "profile_export.jsonl"
    deadline = time.monotonic() + 30
    while not (path.exists() and path.read_bytes().count(b"\n") > 20):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        process.kill()
        process.communicate()
        pytest.skip("children are found in /proc, which only Linux has")
    workers = [
        int(pid) for pid in children.read_text().split() if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    os.kill(workers[0], signal.SIGKILL)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert "Traceback" not in stdout + stderr
    assert "worker process ended by itself" in stderr
    assert load_records(out).unreadable == ()


async def test_a_heartbeat_sees_a_blocked_loop() -> None:
    async with LoopLagMonitor(time.perf_counter_ns) as heartbeat:
        await asyncio.sleep(0.1)
        time.sleep(0.2)  # noqa: ASYNC251  what a saturated client does
        await asyncio.sleep(0.05)
    assert max(heartbeat.lags_ns) > 100e6
    assert sorted(heartbeat.lags_ns)[len(heartbeat.lags_ns) // 2] < 50e6


def test_a_saturated_client_says_so(simulate: Simulate) -> None:
    def block(record: object) -> None:
        time.sleep(0.05)

    config = ProfileConfig.create(url=simulate("vllm").url, request_count=20, max_tokens=4, concurrency=2)
    result = profile(config, Hooks(sinks=[block]))
    (notice,) = (n for n in result.notices if n.kind is NoticeKind.SATURATED)
    assert notice.values["p99"] > 10
