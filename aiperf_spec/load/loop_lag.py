"""Measure how late the program's own event loop is: what it adds to every stamp."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable

from aiperf_spec.models.units import NS_PER_S

_EVERY_SECONDS = 0.02


class LoopLagMonitor:
    """Ask to be woken every 20 ms while a run goes on, and note by how much the waking was late.

    `lags_ns` fills with one value a beat. The loop's own timers round to a millisecond, so values below that mean
    nothing.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self.lags_ns = array("q")
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> LoopLagMonitor:
        self._task = asyncio.create_task(self._beat())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _beat(self) -> None:
        every_ns = int(_EVERY_SECONDS * NS_PER_S)
        while True:
            asked = self._clock()
            await asyncio.sleep(_EVERY_SECONDS)
            self.lags_ns.append(max(0, self._clock() - asked - every_ns))
