"""Time that passes only where a scripted server waits, so that stamps are exact on any machine."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from typing import Any

from tests.waiting import PATIENCE_SECONDS

_TICK_NS = 100
_TURNS = 10
"""Of the client's loop: by then it has read, and stamped, everything that was sent before the first."""


class VirtualTime:
    """The clock of a client and of the server that it profiles, each on a loop of its own.

    A wait of the server takes no real time. It is over once as many responses are under way as the client is to have
    at once, all of them wait, and the client has read what was sent.
    """

    def __init__(self, requests: int, concurrency: int) -> None:
        self._requests = requests
        self._concurrency = concurrency
        self._passed_ns = 0
        self._ticks = itertools.count(1)
        self._client: asyncio.AbstractEventLoop | None = None
        self._under_way = 0
        self._ended = 0
        self._waiting: list[tuple[int, int, asyncio.Event]] = []
        self._passing: asyncio.Task[None] | None = None

    def clock(self) -> int:
        """Return the nanoseconds: no two readings are the same."""
        return self._passed_ns + _TICK_NS * next(self._ticks)

    def meet(self, _: Any) -> None:
        """Note the client's loop; called within it, as a run's `on_stop` is."""
        self._client = asyncio.get_running_loop()

    def begin(self) -> None:
        """Note that a response is under way."""
        self._under_way += 1

    def end(self) -> None:
        """Note that a response has ended."""
        self._under_way -= 1
        self._ended += 1
        self._consider()

    async def wait(self, milliseconds: float) -> None:
        """Wait, within the server's loop; a client that asks for too little at once lets it wait for too long."""
        over = asyncio.Event()
        heapq.heappush(self._waiting, (self._passed_ns + round(milliseconds * 1e6), next(self._ticks), over))
        self._consider()
        await asyncio.wait_for(over.wait(), PATIENCE_SECONDS)

    def _consider(self) -> None:
        if self._all_wait() and (self._passing is None or self._passing.done()):
            self._passing = asyncio.create_task(self._pass())

    def _all_wait(self) -> bool:
        expected = min(self._concurrency, self._requests - self._ended)
        return len(self._waiting) == self._under_way >= max(expected, 1)

    async def _pass(self) -> None:
        await self._client_has_read()
        if self._all_wait():
            self._passed_ns = self._waiting[0][0]
            while self._waiting and self._waiting[0][0] <= self._passed_ns:
                heapq.heappop(self._waiting)[2].set()

    async def _client_has_read(self) -> None:
        assert self._client is not None
        server = asyncio.get_running_loop()
        for _ in range(_TURNS):
            turned = asyncio.Event()
            self._client.call_soon_threadsafe(server.call_soon_threadsafe, turned.set)
            await asyncio.wait_for(turned.wait(), PATIENCE_SECONDS)
