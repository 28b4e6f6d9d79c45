"""The listening socket of a server."""

import asyncio
import contextlib
import socket
from typing import Any

from aiohttp import web

BACKLOG = 4096


class Listener:
    """Own the listening socket of a server, so that it can be closed for a while and opened again."""

    def __init__(self, runner: web.AppRunner, host: str, port: int) -> None:
        self._runner = runner
        self._address: tuple[Any, ...] = (host, port)
        self._family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._site: web.SockSite | None = None
        self._reopening: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """Return the port listened on."""
        return int(self._address[1])

    async def open(self) -> None:
        """Bind and listen; raise OSError if the address cannot be had."""
        bound = self._bind()
        self._address = bound.getsockname()
        await self._listen(bound)

    def refuse_for(self, seconds: float) -> None:
        """Refuse connections for a while; those that are open go on."""
        if self._reopening is None or self._reopening.done():
            self._reopening = asyncio.get_running_loop().create_task(self._refuse(seconds))

    async def close(self) -> None:
        """Stop listening for good."""
        if self._reopening is not None:
            self._reopening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reopening

    async def _refuse(self, seconds: float) -> None:
        if self._site is None:
            return
        await self._site.stop()
        self._site = None
        # Bound but not listening, the port refuses connections and nobody else can take it.
        placeholder = self._bind()
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            placeholder.close()
            raise
        await self._listen(placeholder)

    def _bind(self) -> socket.socket:
        bound = socket.socket(self._family, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(self._address)
        except OSError:
            bound.close()
            raise
        return bound

    async def _listen(self, bound: socket.socket) -> None:
        self._site = web.SockSite(self._runner, bound, backlog=BACKLOG)
        await self._site.start()
