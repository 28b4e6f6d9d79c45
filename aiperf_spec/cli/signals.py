"""Turn signals into a stop of the run."""

from __future__ import annotations

import asyncio
import os
import signal

from aiperf_spec.errors import ExitCode
from aiperf_spec.load.stop import Stop

EXIT_CODES = {"SIGINT": ExitCode.INTERRUPTED, "SIGTERM": ExitCode.TERMINATED}


def stop_on_signals(stop: Stop) -> None:
    """Let a first SIGINT or SIGTERM stop the run, and a second leave at once; called within the run's loop."""
    loop = asyncio.get_running_loop()

    def handle(name: str) -> None:
        if stop.reason is not None:
            # At once means without waiting for anything: every finished request is in its file already.
            os._exit(EXIT_CODES[name])
        stop.request(name)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, handle, number.name)
