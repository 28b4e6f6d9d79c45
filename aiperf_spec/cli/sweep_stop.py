"""Stop a sweep by a signal, whatever it is doing."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from aiperf_spec.cli.interrupt import say_at_once
from aiperf_spec.load.event_loop import run_in_loop, running
from aiperf_spec.load.stop import Stop
from aiperf_spec.render.sweep_progress import SweepDisplay

T = TypeVar("T")


class SweepStop:
    """Let a signal stop the run that goes on, and with it the sweep; a later run stops before its first request."""

    def __init__(self) -> None:
        self.signal: str | None = None
        self._run: tuple[asyncio.AbstractEventLoop, Stop] | None = None

    def tell(self, name: str) -> None:
        """Take the first signal; called from its handler."""
        self.signal = name
        if self._run is not None and not self._run[0].is_closed():
            self._run[0].call_soon_threadsafe(self._run[1].request, name)
        else:
            say_at_once(f"{name}: the sweep ends here; a second signal exits at once")

    def joins(self, stop: Stop) -> None:
        """Have this stop told too; called within its loop."""
        self._run = (asyncio.get_running_loop(), stop)
        if self.signal is not None:
            stop.request(self.signal)

    def wait_for(self, work: Coroutine[Any, Any, T], display: SweepDisplay) -> T:
        """Return what the work returns, with the display going on beside it; raise `StoppedError` once stopped."""

        async def until_stopped() -> T:
            stop = Stop()
            self.joins(stop)
            async with running(display.watch(lambda: 0)):
                return await stop.unless(work)

        return run_in_loop(until_stopped())
