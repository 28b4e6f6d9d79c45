"""Process groups: all of them ends, however the program that started them does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from aiperf_spec.load import process_group
from aiperf_spec.load.process_group import ProcessGroup, end_left_over
from tests.waiting import PATIENCE_SECONDS, wait_until

# A shell with a child; both say who they are, and the child outlives SIGHUP and the end of its parent.
FAMILY = "echo $$; sleep 600 & echo $!; echo k is $SPEC_PROFILE_K; wait"
DEAF = "trap '' TERM; echo $$; while :; do sleep 1; done"


def lines(log: Path) -> list[str]:
    return log.read_text().split("\n") if log.exists() else []


def exists(process: str) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def start(command: str, folder: Path) -> ProcessGroup:
    return ProcessGroup(command, {"SPEC_PROFILE_K": "4"}, folder / "log", folder / "state.json")


linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


@linux
def test_ending_ends_children_too(tmp_path: Path) -> None:
    group = start(FAMILY, tmp_path)
    wait_until(lambda: "k is 4" in lines(tmp_path / "log"), "the family")
    family = lines(tmp_path / "log")[:2]
    assert all(map(exists, family))
    assert not group.has_ended
    assert (tmp_path / "state.json").exists()
    group.end()
    assert not any(map(exists, family))
    assert group.has_ended
    assert not (tmp_path / "state.json").exists()
    assert group._watchdog.poll() == 0


@linux
def test_what_is_deaf_to_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_group, "GRACE_SECONDS", 0.2)
    group = start(DEAF, tmp_path)
    wait_until(lambda: len(lines(tmp_path / "log")) > 1, "the process")
    group.end()
    assert group.has_ended
    assert group.status == -signal.SIGKILL


def test_a_command_that_ends_is_seen(tmp_path: Path) -> None:
    group = start("echo no model; exit 3", tmp_path)
    wait_until(lambda: group.has_ended, "its end")
    assert group.status == 3
    assert lines(tmp_path / "log")[0] == "no model"
    group.end()


@linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_that_is_killed_leaves_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    code = f"""
import time
from pathlib import Path
from tests.test_process_group import FAMILY, start
start(FAMILY, Path({str(tmp_path)!r}))
time.sleep(600)
"""
    process = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parent.parent, text=True)
    wait_until(lambda: "k is 4" in lines(tmp_path / "log"), "the family", process)
    family = lines(tmp_path / "log")[:2]
    wait_until((tmp_path / "state.json").exists, "the file", process)
    process.send_signal(number)
    process.wait(PATIENCE_SECONDS)
    wait_until(lambda: not any(map(exists, family)), "the end of both")


@linux
def test_what_is_left_over_is_ended_by_its_file(tmp_path: Path) -> None:
    left = subprocess.Popen(["/bin/sh", "-c", "sleep 600 & wait"], start_new_session=True)
    other = subprocess.Popen(["sleep", "600"], start_new_session=True)
    state = tmp_path / "state.json"
    try:
        born = process_group._born(left.pid)
        assert born is not None
        # Another process that has the number by now is not ours to end.
        state.write_text(json.dumps({"group": other.pid, "born": "another time"}))
        assert end_left_over(state) is None
        assert other.poll() is None
        assert not state.exists()
        state.write_text(json.dumps({"group": left.pid, "born": born}))
        assert end_left_over(state) == left.pid
        assert left.wait(PATIENCE_SECONDS) == -signal.SIGTERM
        for text in ("", "{}", "[]", '{"group": "x"}', '{"group": 1}'):
            state.write_text(text)
            assert end_left_over(state) is None
        assert end_left_over(state) is None
    finally:
        for process in (left, other):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
