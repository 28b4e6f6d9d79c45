"""Spread the work of many requests over passes of the event loop."""

from __future__ import annotations

import asyncio
from collections import deque


class FairQueue:
    """Let one caller through in each pass of the event loop, first come, first served.

    Preparing a request and making its record take some tenths of a millisecond. When hundreds of requests end at once,
    doing so for all of them in one pass would make the arrivals of the others wait for their stamps; one in a pass
    lets arrivals be read in between.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._taken = False

    async def turn(self) -> None:
        """Return when it is the caller's turn: at once, where nobody had one in this pass."""
        loop = asyncio.get_running_loop()
        if not self._taken:
            self._taken = True
            loop.call_soon(self._next, loop)
            return
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append(future)
        await future

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                loop.call_soon(self._next, loop)
                return
        self._taken = False
