"""Requests sent from several processes: one run, in which no process loses anything and none leaves anything out."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from aiperf_spec.artifacts.read.records import load_records
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.models.run import ErrorKind, NoticeKind, Phase, RequestRecord, RunResult
from aiperf_spec.profiling import Hooks, profile
from aiperf_spec.simulator import FAULTS
from tests.answering import Answer, answering
from tests.support import Simulate
from tests.waiting import PATIENCE_SECONDS, lines_of, wait_until

SCRIPT = str(Path(sysconfig.get_path("scripts")) / "spec-profile")

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="workers are found in /proc, as Linux has it")


def run(url: str, **settings: Any) -> RunResult:
    return profile(ProfileConfig.create(url=url, temperature=0, server_metrics=False, **settings))


def start(url: str, out: Path, *arguments: str, **more: Any) -> subprocess.Popen[str]:
    command = [SCRIPT, "--url", url, "--artifact-dir", str(out), "--temperature", "0", *arguments]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env={**os.environ, "COLUMNS": "100"}, **pipes, **more)


def workers_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def summary_of(out: Path) -> dict[str, Any]:
    return json.loads((out / "profile_export_aiperf.json").read_text())  # type: ignore[no-any-return]


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
    assert max(entry["in_flight"] for entry in ledger) <= 5
    loaded = load_records(tmp_path / "run")
    assert len(loaded.records) == 34
    assert len(three.loop_lags_ns) > 0
    # Whoever opened a connection says so, in whichever process that was; the file has it to the microsecond.
    connects = {record.index: record.connect_ns for record in three.profiled() if record.connect_ns is not None}
    assert 1 <= len(connects) + sum(r.connect_ns is not None for r in three.records if r.phase is Phase.WARMUP) <= 5
    read = {record.index: record.connect_ns for record in loaded.records if record.phase is Phase.PROFILING}
    assert {index: value for index, value in read.items() if value is not None} == pytest.approx(connects, abs=1000)
    # Stamps of three processes are of one clock: no request of the run began before the warm-up had ended.
    warm = [record for record in three.records if record.phase is Phase.WARMUP]
    assert max(record.end_ns for record in warm) < min(record.start_ns for record in three.profiled())


def test_workers_share_the_concurrency() -> None:
    # The server answers nobody until five are in flight at once.
    in_flight, peak, lock, full = 0, 0, threading.Lock(), threading.Event()

    def answer(headers: dict[str, str]) -> Answer:
        nonlocal in_flight, peak
        with lock:
            in_flight += 1
            peak = max(peak, in_flight)
        if peak == 5:
            full.set()
        assert full.wait(PATIENCE_SECONDS)
        with lock:
            in_flight -= 1
        return Answer()

    settings: dict[str, Any] = {"model": "m", "streaming": False, "concurrency": 5, "request_count": 30, "workers": 3}
    with answering(answer) as server:
        records = run(server.url, **settings).profiled()
    assert [record.error for record in records] == [None] * 30
    assert peak == 5


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
    # What stalls is all that is in flight in the end, and a run that waited for it would not end.
    simulator = simulate("vllm", faults=(("stall", 0.2),))
    simulator.reset_ledger()
    command = [SCRIPT, "--url", simulator.url, "--workers", "2", "--concurrency", "6"]
    command += ["--request-count", "100000", "--artifact-dir", str(out), "--max-tokens", "20"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, start_new_session=True, **pipes)
    wait_until(lambda: Counter(entry["fault"] for entry in simulator.ledger())["stall"] == 6, "six stalls", process)
    # As a terminal does: to the whole group.
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == code
    assert "Traceback" not in stdout + stderr
    loaded = load_records(out)
    assert loaded.unreadable == ()
    summary = json.loads((out / "profile_export_aiperf.json").read_text())
    assert summary["request_count"]["avg"] == sum(record.succeeded for record in loaded.records)
    assert f"stopped early by {number.name}" in stdout


SOAK = tuple((name, 0.011) for name in FAULTS if name not in ("stall", "endless_line", "connection_refused"))


def test_a_parent_that_is_stopped_loses_nothing(simulate: Simulate, tmp_path: Path) -> None:
    # Five hundred chunks an answer at raw level are more than any pipe holds while nobody reads it.
    out, requests = tmp_path / "run", 200
    simulator = simulate("vllm", faults=SOAK, step_time_ms=0.2, seed=3)
    simulator.reset_ledger()
    load = ("--request-count", str(requests), "--concurrency", "12", "--max-tokens", "500")
    level = ("--export-level", "raw", "--extra-inputs", '{"ignore_eos": true}')
    process = start(simulator.url, out, "--workers", "3", *load, *level)
    for stopped_at in (40, 100):
        wait_until(lambda: lines_of(out / "profile_export.jsonl") >= stopped_at, f"{stopped_at} records", process)  # noqa: B023
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        process.send_signal(signal.SIGCONT)
    stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, stderr
    loaded = load_records(out)
    assert loaded.unreadable == ()
    assert sorted(record.index for record in loaded.records) == list(range(requests))
    assert lines_of(out / "profile_export_raw.jsonl") == requests
    ids = [
        json.loads(line)["metadata"]["x_request_id"] for line in (out / "profile_export.jsonl").read_text().splitlines()
    ]
    # An attempt that met a dead kept-alive connection was repeated: the last entry is the one that was answered.
    ledger = {entry["request_id"]: entry for entry in simulator.ledger()}
    assert set(ids) == set(ledger)
    ended = {request_id: record.succeeded for request_id, record in zip(ids, loaded.records, strict=True)}
    assert {request_id: entry["outcome"] == "ok" for request_id, entry in ledger.items()} == ended
    reported = [ledger[request_id] for request_id, succeeded in ended.items() if succeeded]
    acceptance = summarise(loaded.records).acceptance
    assert acceptance.steps == sum(entry["steps"] for entry in reported if entry["stats_sent"])
    assert sum(not succeeded for succeeded in ended.values()) > 20
    # The stops are twice half a second, in which the requests that had ended waited.
    assert "the main process took" in stderr
    assert f"of {requests} succeeded" in stdout


def test_a_worker_that_is_killed_fails_what_it_had_and_no_more(simulate: Simulate, tmp_path: Path) -> None:
    out = tmp_path / "run"
    simulator = simulate("vllm", step_time_ms=5.0)
    simulator.reset_ledger()
    load = ("--request-count", "400", "--concurrency", "8", "--max-tokens", "20")
    process = start(simulator.url, out, "--workers", "2", *load)
    wait_until(lambda: lines_of(out / "profile_export.jsonl") > 100, "a hundred records", process)
    os.kill(workers_of(process.pid)[0], signal.SIGKILL)
    stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert "Traceback" not in stdout + stderr
    assert "error: a worker process was ended by SIGKILL: what it had in flight" in stderr
    records = load_records(out).records
    assert sorted(record.index for record in records) == list(range(400))
    lost = [record for record in records if record.error is not None]
    assert {record.error.kind for record in lost if record.error} == {ErrorKind.WORKER_LOST}
    assert 1 <= len(lost) <= 4
    assert f"{400 - len(lost)} of 400 succeeded, {len(lost)} failed" in stdout
    assert summary_of(out)["is_complete"] is False
    sent = Counter(entry["request_id"] for entry in simulator.ledger())
    ids = {
        json.loads(line)["metadata"]["x_request_id"] for line in (out / "profile_export.jsonl").read_text().splitlines()
    }
    assert set(sent) <= ids
    assert len(ids) == 400


@pytest.mark.parametrize("rate", [(), ("--request-rate", "50")], ids=["closed loop", "schedule"])
def test_a_run_whose_workers_are_all_killed_ends(rate: tuple[str, ...], simulate: Simulate, tmp_path: Path) -> None:
    out = tmp_path / "run"
    load = ("--concurrency", "4", "--request-count", "2000", *rate)
    process = start(simulate("vllm", step_time_ms=5.0).url, out, "--workers", "2", *load)
    wait_until(lambda: lines_of(out / "profile_export.jsonl") > 20, "twenty records", process)
    for worker in workers_of(process.pid):
        os.kill(worker, signal.SIGKILL)
    stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert "Traceback" not in stdout + stderr
    records = load_records(out).records
    good, unsent = sum(record.succeeded for record in records), summary_of(out)["unsent_request_count"]["avg"]
    assert summary_of(out)["request_count"]["avg"] == good > 20
    assert len(records) + unsent == 2000
    assert f"{good} of 2,000 succeeded" in stdout


def test_a_stuck_worker_does_not_hold_up_the_end(simulate: Simulate, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start(simulate("vllm").url, out, "--workers", "2", "--concurrency", "4", "--request-count", "100000")
    wait_until(lambda: lines_of(out / "profile_export.jsonl") > 20, "twenty records", process)
    os.kill(workers_of(process.pid)[0], signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert "stopped early by SIGINT" in stdout
    assert "a worker process gave no sign of life for 5 s and was ended" in stderr
    kinds = Counter(record.error.kind for record in load_records(out).records if record.error is not None)
    assert set(kinds) <= {ErrorKind.CANCELLED, ErrorKind.WORKER_LOST}
    assert 1 <= kinds[ErrorKind.WORKER_LOST] <= kinds.total() <= 4


def test_a_warm_up_before_a_schedule_keeps_its_concurrency() -> None:
    # The server answers nobody before four are in flight at once.
    asked, full = itertools.count(1), threading.Barrier(4)

    def answer(headers: dict[str, str]) -> Answer:
        if next(asked) <= 4:
            full.wait(PATIENCE_SECONDS)
        return Answer()

    settings: dict[str, Any] = {"model": "m", "streaming": False, "concurrency": 4, "request_rate": 200.0}
    with answering(answer) as server:
        result = run(server.url, workers=3, request_count=8, warmup_request_count=4, **settings)
    assert [record.error for record in result.records] == [None] * 12


def test_skipped_lines_are_counted_once(simulate: Simulate, tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text("\n".join('{"text": "hello"}' if index % 2 else "{" for index in range(8)))
    settings: dict[str, Any] = {"input_file": file, "skip_bad_lines": True, "max_tokens": 4}
    result = run(simulate("vllm").url, workers=2, concurrency=2, **settings)
    [notice] = [notice for notice in result.notices if notice.kind is NoticeKind.SKIPPED_LINES]
    assert notice.values["count"] == 4
    assert len(result.records) == 4


def test_a_sink_that_raises_ends_the_run_as_in_one_process(simulate: Simulate) -> None:
    def sink(record: RequestRecord) -> None:
        raise KeyError("its own mistake")

    config = ProfileConfig.create(url=simulate("vllm").url, workers=2, concurrency=2, server_metrics=False)
    with pytest.raises(KeyError, match="its own mistake"):
        profile(config, Hooks(sinks=[sink]))


def test_workers_need_no_guard_in_a_script(simulate: Simulate) -> None:
    script = f"""
from aiperf_spec import ProfileConfig, profile
print(len(profile(ProfileConfig(url={simulate("vllm").url!r}, workers=2, concurrency=2, request_count=4)).records))
"""
    ran = subprocess.run([sys.executable, "-"], input=script, capture_output=True, text=True, check=True)
    assert ran.stdout == "4\n"


def test_a_plug_in_in_a_worker_warns(simulate: Simulate, tmp_path: Path) -> None:
    package = tmp_path / "site"
    (package / "odd-1.0.dist-info").mkdir(parents=True)
    (package / "odd-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (package / "odd-1.0.dist-info" / "entry_points.txt").write_text(
        "[aiperf_spec.spec_decode_adapter]\nodd = odd:Odd\n"
    )
    (package / "odd.py").write_text(
        "class Odd:\n    payload_path = ('odd',)\n"
        "    @classmethod\n    def can_adapt(cls, responses):\n        raise RuntimeError('no')\n"
        "    @classmethod\n    def adapt(cls, responses):\n        return None\n"
    )
    ran = subprocess.run(
        [SCRIPT, "--url", simulate("vllm").url, "--workers", "2", "--concurrency", "2", "--request-count", "6"],
        env={**os.environ, "PYTHONPATH": str(package)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr.count("adapter 'odd' failed in can_adapt (RuntimeError)") == 1
