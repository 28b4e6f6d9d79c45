"""Wait for what a test expects to happen, however long a busy machine takes over it."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

PATIENCE_SECONDS = 60
"""No test waits longer for anything: what has not happened by then does not happen."""
_LOOK_SECONDS = 0.02


def wait_until(holds: Callable[[], bool], what: str, process: subprocess.Popen[str] | None = None) -> None:
    """Return once `holds()` is true; fail after a minute, or where the process that it depends on has ended."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"waited {PATIENCE_SECONDS} s for {what}"
        if process is not None and process.poll() is not None:
            pytest.fail(f"the process ended before {what}: {process.communicate()}")
        time.sleep(_LOOK_SECONDS)


async def happens(holds: Callable[[], bool], what: str) -> None:
    """Do as `wait_until` does, within an event loop."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"waited {PATIENCE_SECONDS} s for {what}"
        # Looking is cheap where nothing but this loop's own tasks can make it true.
        await asyncio.sleep(_LOOK_SECONDS / 20)


def lines_of(path: Path) -> int:
    """Return how many whole lines a file has; 0 where there is none yet."""
    return path.read_bytes().count(b"\n") if path.exists() else 0
