"""Run a shell command in a process group of its own, and end all of the group, however this program ends."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

GRACE_SECONDS = 30.0
"""What a group gets to end by itself after SIGTERM, before SIGKILL."""
_LOOK_SECONDS = 0.1
_GONE_SECONDS = 5.0
# It reads the group from its input, and then a word when the group was ended in order. The input ends without a word
# where this program is gone, be it by SIGKILL.
_WATCHDOG = f"""
read -r group || exit 0
read -r word && exit 0
kill -s TERM -- "-$group" 2>/dev/null || exit 0
left={GRACE_SECONDS:.0f}
while kill -s 0 -- "-$group" 2>/dev/null && [ "$left" -gt 0 ]; do sleep 1; left=$((left - 1)); done
kill -s KILL -- "-$group" 2>/dev/null
"""


class ProcessGroup:
    """A running shell command with all processes that it starts, but for those that leave its group.

    A small shell beside it, in a session of its own, ends the group where this program ends without doing so. Beside
    that, `state` is a file that names the group as long as it runs: `end_left_over` reads it.
    """

    def __init__(self, command: str, environment: Mapping[str, str], log: Path, state: Path) -> None:
        """Start the command; its output is added to the file `log`. Raises `OSError`."""
        self._state = state
        watchdog = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._watchdog = watchdog
        try:
            with log.open("ab") as output:
                self._leader = subprocess.Popen(
                    ["/bin/sh", "-c", command],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **environment},
                    start_new_session=True,
                )
        except BaseException:
            self._dismiss_watchdog()
            raise
        assert watchdog.stdin is not None
        watchdog.stdin.write(f"{self._leader.pid}\n".encode())
        watchdog.stdin.flush()
        try:
            state.write_bytes(orjson.dumps({"group": self._leader.pid, "born": _born(self._leader.pid)}) + b"\n")
        except BaseException:
            self.end()
            raise

    @property
    def has_ended(self) -> bool:
        """Whether no process of the group is left."""
        return self._leader.poll() is not None and not _lives(self._leader.pid)

    @property
    def status(self) -> int | None:
        """The exit status of the shell; None while it runs."""
        return self._leader.poll()

    def end(self) -> None:
        """End the group with SIGTERM, and with SIGKILL what is left of it after `GRACE_SECONDS`."""
        _end(self._leader.pid, self._leader)
        with suppress(subprocess.TimeoutExpired):
            self._leader.wait(_GONE_SECONDS)
        self._dismiss_watchdog()
        with suppress(OSError):
            self._state.unlink(missing_ok=True)

    def _dismiss_watchdog(self) -> None:
        with suppress(OSError):
            # Two lines: it may not have been told the group yet.
            self._watchdog.communicate(b"0\nended\n")


def end_left_over(state: Path) -> int | None:
    """End the group that a killed program has left running, by its file; return its number, None where none runs.

    The number may be another group's by now: the group's first process must have begun when the file says, or be gone.
    """
    told: Any = None
    with suppress(OSError, ValueError):
        told = orjson.loads(state.read_bytes())
    group = told.get("group") if isinstance(told, dict) else None
    found = (
        group if isinstance(group, int) and group > 1 and _lives(group) and _is_same(group, told.get("born")) else None
    )
    if found is not None:
        _end(found, None)
    with suppress(OSError):
        state.unlink(missing_ok=True)
    return found


def _end(group: int, leader: subprocess.Popen[bytes] | None) -> None:
    for number, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, _GONE_SECONDS)):
        with suppress(ProcessLookupError):
            os.killpg(group, number)
        deadline = time.monotonic() + seconds
        while True:
            # Who has ended and is our child counts as a process until it is waited for.
            if leader is not None:
                leader.poll()
            if not _lives(group):
                return
            if time.monotonic() > deadline:
                break
            time.sleep(_LOOK_SECONDS)


def _lives(group: int) -> bool:
    """Say whether a group has a process that has not ended; one that nobody waits for stays as a zombie."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    states = _states(group)
    return states is None or any(state != "Z" for state in states)


def _states(group: int) -> list[str] | None:
    """Return the states of a group's processes; None where the system has no /proc."""
    if not Path("/proc/self/stat").exists():
        return None
    states = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        if (fields := _stat(path)) and int(fields[2]) == group:
            states.append(fields[0])
    return states


def _stat(path: Path) -> list[str]:
    """Return what Linux says of a process from its state on, the third field in proc_pid_stat(5)."""
    with suppress(OSError):
        # A name may hold spaces and parentheses.
        return path.read_text(errors="replace").rpartition(")")[2].split()
    return []


def _is_same(group: int, born: Any) -> bool:
    """Say whether the group's first process began when the file says, or is gone: its number is free no sooner than
    the group has ended."""
    now = _born(group)
    if now is not None:
        return bool(now == born)
    try:
        os.kill(group, 0)
    except OSError:
        return True
    return False


def _born(process: int) -> str | None:
    """Return a text that tells when a process began, from another of the same number; None where there is none."""
    if fields := _stat(Path(f"/proc/{process}/stat")):
        with suppress(OSError):
            # In ticks since the system was started.
            return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {fields[19]}"
    with suppress(OSError, subprocess.SubprocessError):
        told = subprocess.run(["ps", "-o", "lstart=", "-p", str(process)], capture_output=True, text=True, check=True)
        return told.stdout.strip() or None
    return None
