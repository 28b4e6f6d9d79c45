"""End runs early, in processes of their own: by signals, by a full disk, by a reader that has seen enough."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from aiperf_spec.artifacts.read.records import load_records
from aiperf_spec.models.run import ErrorKind
from tests.support import Simulate
from tests.waiting import PATIENCE_SECONDS, lines_of, wait_until

SCRIPT = str(Path(sysconfig.get_path("scripts")) / "spec-profile")


def start(*arguments: str, limit: Callable[[], object] | None = None) -> subprocess.Popen[str]:
    environment = {**os.environ, "COLUMNS": "100"}
    return subprocess.Popen(
        [SCRIPT, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=limit,
    )


def finished(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Return what a process printed, once it has ended."""
    return process.communicate(timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_a_signal_reports_what_is_finished(
    number: signal.Signals, code: int, simulate: Simulate, tmp_path: Path
) -> None:
    # A third of the requests stall for good: soon nothing else is in flight, and a run that waited would not end.
    simulator = simulate("vllm", faults=(("stall", 0.3),))
    simulator.reset_ledger()
    out = tmp_path / "run"
    process = start(
        *("--url", simulator.url, "--concurrency", "8", "--request-count", "100000", "--max-tokens", "20"),
        *("--artifact-dir", str(out), "--temperature", "0", "--export-level", "raw"),
    )
    wait_until(lambda: Counter(entry["fault"] for entry in simulator.ledger())["stall"] == 8, "eight stalls", process)
    # Twice at once, as `timeout` does: to the process, and to its group.
    process.send_signal(number)
    process.send_signal(number)
    stdout, stderr = finished(process)
    assert process.returncode == code
    assert "Traceback" not in stdout + stderr
    assert f"stopped early by {number.name}" in stdout
    loaded = load_records(out)
    assert loaded.unreadable == ()
    cancelled = [r for r in loaded.records if r.error is not None and r.error.kind is ErrorKind.CANCELLED]
    good = [r for r in loaded.records if r.succeeded]
    assert len(cancelled) == 8
    assert len(good) + len(cancelled) == len(loaded.records)
    summary = json.loads((out / "profile_export_aiperf.json").read_text())
    assert summary["was_cancelled"] is True
    assert summary["request_count"]["avg"] == len(good)
    assert summary["spec_profile"]["requests"]["cancelled"] == len(cancelled)
    assert f"{len(cancelled)} cancelled" in stdout


# A run that would not end by itself once it was asked to stop: what was begun beside it goes on.
STUBBORN = """
import asyncio, sys
from functools import partial
from aiperf_spec.artifacts.write.writer import ArtifactWriter
from aiperf_spec.cli.run import stop_on_signals
from aiperf_spec.config.settings import ProfileConfig, ReportSettings
from aiperf_spec.profiling import Hooks, profile

async def stubborn(in_flight):
    try:
        await asyncio.Event().wait()
    finally:
        print("stopping", flush=True)
        await asyncio.Event().wait()

config = ProfileConfig.create(url=sys.argv[1], artifact_dir=sys.argv[2], request_count=100000, concurrency=4)
with ArtifactWriter(config, ReportSettings()) as writer:
    profile(config, Hooks(writer=writer, on_stop=partial(stop_on_signals, kept=writer.kept), watch=stubborn))
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_leaves_at_once(number: signal.Signals, code: int, simulate: Simulate, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-c", STUBBORN, simulate("vllm").url, str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: lines_of(out / "profile_export.jsonl") >= 50, "fifty records", process)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "stopping\n"
    assert process.poll() is None
    # Later than what counts as one with the first.
    time.sleep(0.1)
    process.send_signal(number)
    stdout, stderr = finished(process)
    assert process.returncode == code
    loaded, file = load_records(out), out / "profile_export.jsonl"
    assert loaded.unreadable == ()
    said = f"stopped at once by {number.name}: {len(loaded.records)} requests that had ended are kept in {file}\n"
    assert (stdout, stderr) == ("", said)


def test_a_hangup_that_is_ignored_is_ignored(simulate: Simulate, tmp_path: Path) -> None:
    out = tmp_path / "run"
    load = ("--request-count", "300", "--concurrency", "8", "--max-tokens", "20")
    process = start(
        *("--url", simulate("vllm").url, *load, "--artifact-dir", str(out)),
        limit=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    wait_until(lambda: lines_of(out / "profile_export.jsonl") >= 20, "twenty records", process)
    process.send_signal(signal.SIGHUP)
    stdout, _ = finished(process)
    assert process.returncode == 0
    assert "300 of 300 succeeded" in stdout


# The command as it is started, with a signal to itself when it imports a module.
IMPORTING = """
import os, signal, sys
from aiperf_spec.cli import main

module, number = sys.argv[1], int(sys.argv[2])

class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), number)

sys.meta_path.insert(0, Interrupter())
del sys.argv[1:3]
main()
"""
IMPORTED = ["aiperf_spec.cli.app", "rich", "pydantic", "aiperf_spec.profiling", "uvloop"]


def signalled_while_importing(module: str, number: signal.Signals, *arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-c", IMPORTING, module, str(int(number)), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.parametrize("module", IMPORTED)
def test_an_interrupt_while_modules_are_imported_is_one_line(module: str) -> None:
    ended = signalled_while_importing(module, signal.SIGINT, "--url", "http://127.0.0.1:9", "--model", "m")
    assert ended in [(130, "", f"stopped by SIGINT{where}\n") for where in (" before anything was sent", "")]


@pytest.mark.parametrize("module", IMPORTED)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_run_that_is_terminated_before_it_begins_has_its_summary(
    module: str, workers: str, simulate: Simulate, tmp_path: Path
) -> None:
    arguments = ("--url", simulate("vllm").url, "--workers", workers, "--artifact-dir", str(tmp_path / "run"))
    code, stdout, stderr = signalled_while_importing(module, signal.SIGTERM, *arguments)
    assert code == 143, stderr
    assert "0 of 0 succeeded (stopped early by SIGTERM)" in stdout
    assert "Traceback" not in stderr
    summary = json.loads((tmp_path / "run" / "profile_export_aiperf.json").read_text())
    assert summary["was_cancelled"] is True
    assert load_records(tmp_path / "run").records == []


def test_a_run_that_is_terminated_before_its_model_is_known_is_one_line() -> None:
    ended = signalled_while_importing("pydantic", signal.SIGTERM, "--url", "http://127.0.0.1:9")
    assert ended[:2] == (143, "")
    assert "stopped by SIGTERM before the first request" in ended[2]


def test_a_command_that_measures_nothing_ends_when_it_is_terminated(tmp_path: Path) -> None:
    ended = signalled_while_importing("aiperf_spec.cli.app", signal.SIGTERM, "report", str(tmp_path))
    assert ended == (143, "", "stopped by SIGTERM before anything was sent\n")


def test_a_folder_that_was_removed_is_not_named_as_the_result(simulate: Simulate, tmp_path: Path) -> None:
    out = tmp_path / "run"
    load = ("--request-count", "100000", "--concurrency", "4", "--max-tokens", "20")
    process = start("--url", simulate("vllm").url, *load, "--artifact-dir", str(out))
    wait_until(lambda: lines_of(out / "profile_export.jsonl") >= 20, "twenty records", process)
    shutil.rmtree(out)
    process.send_signal(signal.SIGINT)
    stdout, stderr = finished(process)
    assert " succeeded" in stdout
    assert "could not be written" in stderr
    assert "results:" not in stderr
    assert not out.exists()


def test_a_killed_run_leaves_every_finished_request(simulate: Simulate, tmp_path: Path) -> None:
    simulator = simulate("vllm")
    simulator.reset_ledger()
    out = tmp_path / "run"
    process = start(
        "--url", simulator.url, "--concurrency", "8", "--request-count", "100000", "--artifact-dir", str(out)
    )
    wait_until(lambda: lines_of(out / "profile_export.jsonl") >= 100, "a hundred records", process)
    process.kill()
    finished(process)
    data = (out / "profile_export.jsonl").read_bytes()
    complete = data[: data.rfind(b"\n") + 1].splitlines()
    records = [json.loads(line) for line in complete]
    assert len(records) >= 100
    ledger = {entry["request_id"]: entry for entry in simulator.ledger()}
    for record in records:
        entry = ledger[record["metadata"]["x_request_id"]]
        assert record["spec_decode_acceptance"]["num_spec_steps"] == entry["steps"]
    # Nothing but what was in flight may be missing.
    ended = [entry for entry in ledger.values() if entry["finished"]]
    assert len(ended) - len(records) <= 8
    loaded = load_records(out)
    assert len(loaded.records) == len(records)


def test_a_full_disk_is_one_error_and_figures_stand(simulate: Simulate, tmp_path: Path) -> None:
    out = tmp_path / "run"

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    arguments = (
        "--url",
        simulate("vllm").url,
        "--request-count",
        "60",
        "--artifact-dir",
        str(out),
        "--concurrency",
        "4",
    )
    process = start(*arguments, limit=limit)
    stdout, stderr = finished(process)
    assert process.returncode == 1
    assert "60 of 60 succeeded" in stdout
    assert "Acceptance length" in stdout
    errors = [line for line in stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert "profile_export.jsonl' could not be written: File too large" in errors[0]
    assert "Traceback" not in stderr


def test_a_closed_pipe_is_no_error(simulate: Simulate, tmp_path: Path) -> None:
    command = (
        f"{SCRIPT} --url {simulate('vllm').url} --request-count 30 --rows 1000 --artifact-dir {tmp_path / 'run'}"
        " | head -n 1; echo ${PIPESTATUS[0]}"
    )
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.splitlines()[0].startswith("Server")
    assert ran.stdout.splitlines()[-1] == "0"
    assert "Traceback" not in ran.stderr
    assert "Broken" not in ran.stderr
    assert (tmp_path / "run" / "profile_export_aiperf.json").exists()


def test_an_interrupt_while_waiting_for_a_server(tmp_path: Path) -> None:
    # A server that takes a connection and says nothing.
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_SECONDS)
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        process = start("--url", url, "--model", "m", "--artifact-dir", str(tmp_path / "run"))
        connection, _ = server.accept()
        with connection:
            connection.settimeout(PATIENCE_SECONDS)
            assert connection.recv(1)
            process.send_signal(signal.SIGINT)
            stdout, stderr = finished(process)
    assert process.returncode == 130
    assert "Traceback" not in stdout + stderr


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1:strict"])
@pytest.mark.parametrize("command", ["--help", "report --help", "docs load", "--bogus"])
def test_an_encoding_that_lacks_a_character_ends_nothing(command: str, encoding: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "COLUMNS": "60"}
    ran = subprocess.run([SCRIPT, *command.split()], capture_output=True, env=environment, timeout=PATIENCE_SECONDS)
    assert ran.returncode == (2 if command == "--bogus" else 0)
    assert b"UnicodeEncodeError" not in ran.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_standard_output_that_is_full_costs_no_file_and_no_traceback(simulate: Simulate, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run = ["--url", simulate("vllm").url, "--request-count", "6", "--artifact-dir", str(out)]
    later = [["report", str(out), "--format", "csv"], ["compare", str(out), str(out)], ["--help"], ["--version"]]
    for arguments in [run, *later]:
        with Path("/dev/full").open("w") as full:
            ran = subprocess.run([SCRIPT, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        assert ran.returncode == 1, ran.stderr
        errors = [line for line in ran.stderr.splitlines() if line.startswith("error:")]
        assert len(errors) == 1
        assert "standard output" in errors[0]
        assert errors[0].endswith("No space left on device")
        assert "Traceback" not in ran.stderr
    assert len(load_records(out).records) == 6
    assert json.loads((out / "profile_export_aiperf.json").read_text())["request_count"]["avg"] == 6


# The command, with a thread that takes every descriptor once some requests have ended.
USED_UP = """
import os, resource, sys, threading, time
from pathlib import Path
from aiperf_spec.cli import main

records = Path(sys.argv[-1]) / "profile_export.jsonl"
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

def use_up():
    while not records.exists() or records.read_bytes().count(b"\\n") < 10:
        time.sleep(0.002)
    while True:
        try:
            os.dup(0)
        except OSError:
            time.sleep(0.001)

threading.Thread(target=use_up, daemon=True).start()
main()
"""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_descriptors_that_are_used_up_cost_files_alone(workers: str, simulate: Simulate, tmp_path: Path) -> None:
    out = tmp_path / "run"
    load = ("--request-count", "12", "--concurrency", "2", "--workers", workers, "--export-level", "raw")
    command = [sys.executable, "-c", USED_UP, "--url", simulate("vllm").url, *load, "--artifact-dir", str(out)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert ran.returncode == 1
    assert "12 of 12 succeeded and reported" in ran.stdout
    assert "Traceback" not in ran.stderr
    assert [line for line in ran.stderr.splitlines() if line.startswith("error:")] == [
        f"error: '{out}/profile_export_aiperf.json' could not be written: Too many open files"
    ]
    assert len(load_records(out).records) == 12


@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", "2>/dev/full >&-", "<&-"])
@pytest.mark.parametrize("workers", [1, 2])
def test_standard_streams_that_are_closed_cost_nothing(
    closed: str, workers: int, simulate: Simulate, tmp_path: Path
) -> None:
    if workers > 1 and closed == "<&-":
        return
    out = tmp_path / "run"
    load = f"--request-count 6 --concurrency 2 --workers {workers}"
    command = f"{SCRIPT} --url {simulate('vllm').url} {load} --artifact-dir {out} {closed}"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert len(load_records(out).records) == 6
    assert json.loads((out / "analysis.json").read_text())["run"]["requests"] == 6
