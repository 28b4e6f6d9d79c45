"""Talk to servers without a proxy: connections as many as requests, kept alive between them."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from aiohappyeyeballs import AddrInfoType, start_connection

from aiperf_spec.client.transport.connection import Connection
from aiperf_spec.client.transport.errors import NotConnectedError, StaleConnectionError
from aiperf_spec.client.transport.exchange import CONNECT_TIMEOUT_SECONDS, KEEP_ALIVE_SECONDS, Origin, Reader, Target

_RESOLVED_SECONDS = 10.0
"""How long a name's addresses are used before they are asked for again."""
_ARRIVAL_SECONDS = 0.5
"""How long the end of a run waits for connections that nobody waits for any more."""
_EYEBALLS_SECONDS = 0.25
"""How long one address may take before the next is tried beside it (RFC 8305)."""


class DirectTransport:
    """Send requests to any origin; `tls` gives the context for https, when one is needed."""

    def __init__(self, tls: Callable[[], ssl.SSLContext], clock: Callable[[], int]) -> None:
        self._tls = tls
        self._clock = clock
        self._pools: dict[Origin, _Pool] = {}

    async def exchange(self, target: Target, request_id: str, body: bytes, reader: Reader) -> None:
        """Send one request; see `Transport`.

        A kept-alive connection that ends before any byte of the response is replaced once: the server had closed it
        before it could see the request.
        """
        pool = self._pool(target.origin)
        own = f"x-request-id: {request_id}\r\ncontent-length: {len(body)}\r\n" if request_id else ""
        request = b"%b%b\r\n%b" % (target.opening, own.encode("ascii"), body)
        connection = pool.take_idle()
        if connection is not None:
            try:
                await connection.exchange(request, reader)
            except StaleConnectionError:
                reader.restart(self._clock())
            else:
                pool.give_back(connection)
                return
        connection = await pool.connect()
        await connection.exchange(request, reader)
        pool.give_back(connection)

    def _pool(self, origin: Origin) -> _Pool:
        pool = self._pools.get(origin)
        if pool is None:
            pool = self._pools[origin] = _Pool(origin, self._tls if origin.is_secure else None, self._clock)
        return pool

    async def aclose(self) -> None:
        """Close every connection, and see them closed."""
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))
        # The loop closes sockets in its next pass.
        await asyncio.sleep(0)


class _Pool:
    """The connections to one host and port."""

    def __init__(self, origin: Origin, tls: Callable[[], ssl.SSLContext] | None, clock: Callable[[], int]) -> None:
        self._host = origin.host
        self._port = origin.port
        self._tls = tls
        self._clock = clock
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._openings: set[asyncio.Task[Connection]] = set()
        self._addresses: deque[AddrInfoType] = deque()
        self._resolved_at = 0.0
        self._resolving: asyncio.Task[Sequence[AddrInfoType]] | None = None

    def take_idle(self) -> Connection | None:
        now = time.monotonic()
        while self._idle:
            # The last one used is the least likely to be closed by the server in this moment.
            connection = self._idle.pop()
            if not connection.is_open:
                continue
            if now - connection.idle_since < KEEP_ALIVE_SECONDS:
                return connection
            connection.abort()
        return None

    def give_back(self, connection: Connection) -> None:
        if connection.is_open:
            connection.idle_since = time.monotonic()
            self._idle.append(connection)

    async def close(self) -> None:
        # Those on their way are let arrive where they soon do: loops complain of what is cancelled within a handshake.
        if self._openings:
            await asyncio.wait(self._openings, timeout=_ARRIVAL_SECONDS)
        left = [*self._openings, *([self._resolving] if self._resolving is not None else [])]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for connection in list(self._all):
            connection.abort()
        self._idle.clear()

    async def connect(self) -> Connection:
        """Return a new connection; raises `NotConnectedError`.

        It is opened by a task of its own, which goes on where the asker is cancelled or loses patience: a connection
        that is made in that very moment would be nobody's, and loops differ in what becomes of it.
        """
        opening = asyncio.create_task(self._open())
        self._openings.add(opening)
        opening.add_done_callback(self._openings.discard)
        try:
            done, _ = await asyncio.wait({opening}, timeout=CONNECT_TIMEOUT_SECONDS)
            if not done:
                raise TimeoutError
        except (asyncio.CancelledError, TimeoutError) as left:
            opening.add_done_callback(_drop)
            if isinstance(left, TimeoutError):
                raise NotConnectedError(f"none within {CONNECT_TIMEOUT_SECONDS:g} s") from None
            raise
        try:
            return opening.result()
        except UnicodeError as error:  # the resolver's, of a label that is empty or too long
            raise NotConnectedError(f"{self._host}: no name that a host can have") from error
        except (OSError, RuntimeError) as error:  # ssl.SSLError and socket.gaierror are OSErrors
            reason = getattr(error, "strerror", None) or error
            raise NotConnectedError(f"{self._host}:{self._port}: {reason}") from error
        finally:
            # The task holds its error, and the error this frame.
            del opening

    async def _open(self) -> Connection:
        loop = asyncio.get_running_loop()

        def protocol() -> Connection:
            return Connection(self._clock, self._all)

        options: dict[str, Any] = {}
        if self._tls is not None:
            options = {
                "ssl": self._tls(),
                "server_hostname": self._host,
                "ssl_handshake_timeout": CONNECT_TIMEOUT_SECONDS,
            }
        if _is_address(self._host):
            made = await loop.create_connection(protocol, self._host, self._port, **options)
        else:
            plain = await start_connection(await self._resolve(), happy_eyeballs_delay=_EYEBALLS_SECONDS, interleave=1)
            made = await loop.create_connection(protocol, sock=plain, **options)
        return made[1]

    async def _resolve(self) -> list[AddrInfoType]:
        loop = asyncio.get_running_loop()
        if not self._addresses or loop.time() - self._resolved_at > _RESOLVED_SECONDS:
            # One asks for all who wait, and all get its answer, be it an error.
            if self._resolving is None or self._resolving.done():
                self._resolving = asyncio.create_task(self._ask())
            self._addresses = deque(await asyncio.shield(self._resolving))
        # Each connection starts at the next address: replicas behind one name share the load.
        addresses = list(self._addresses)
        self._addresses.rotate(-1)
        return addresses

    async def _ask(self) -> Sequence[AddrInfoType]:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        self._resolved_at = loop.time()
        return found


def _drop(opening: asyncio.Task[Connection]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().abort()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
