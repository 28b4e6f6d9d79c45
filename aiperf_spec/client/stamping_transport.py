"""Talk to servers without a proxy: connections as many as requests, kept alive between them.

httpx's own transport parses each chunk of a response in Python and wakes a task for it. This one hands what a read
brought to the request's sink in the read's own callback, so that its stamp is the time at which it was read and not the
time at which somebody got round to it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from aiohappyeyeballs import AddrInfoType, start_connection

from aiperf_spec.client.connection import Connection
from aiperf_spec.client.sink import Sink

KEEP_ALIVE_SECONDS = 60.0
_RESOLVED_SECONDS = 10.0
"""How long a name's addresses are used before they are asked for again."""
_ARRIVAL_SECONDS = 0.5
"""How long the end of a run waits for connections that nobody waits for any more."""
_EYEBALLS_SECONDS = 0.25
"""How long one address may take before the next is tried beside it (RFC 8305)."""


class StampingTransport(httpx.AsyncBaseTransport):
    """Send the requests of an `httpx.AsyncClient`; `tls` gives the context for https, when one is needed.

    A request may bring a `Sink` as `extensions["sink"]`; without one, and for statuses other than 2xx and encoded
    bodies, the body comes through the response's stream. A response's extensions say more: "headers_ns" is when its
    headers were whole, "connect_ns" what opening a connection took (DNS, TCP, TLS), None where one was kept alive, and
    "feeds_sink" whether its sink gets the body.
    Request bodies are sent whole, and must be known when the request is made.
    """

    def __init__(
        self,
        tls: Callable[[], ssl.SSLContext] = httpx.create_ssl_context,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._tls = tls
        self._clock = clock
        self._pools: dict[tuple[str, bytes, int | None], _Pool] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request and return its response, once its headers are whole.

        A kept-alive connection that ends before any byte of the response is replaced once: the server had closed it
        before it could see the request.
        """
        sink: Sink | None = request.extensions.get("sink")
        if sink is not None:
            sink.started(self._clock())
        timeout: dict[str, float | None] = request.extensions.get("timeout", {})
        pool = self._pool(request.url)
        head = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
        head += [b"%b: %b" % pair for pair in request.headers.raw]
        data = b"%b\r\n\r\n%b" % (b"\r\n".join(head), request.read())
        connect_ns = None
        connection = pool.take_idle()
        if connection is not None:
            try:
                await connection.send(data, sink, timeout)
            except (httpx.NetworkError, httpx.RemoteProtocolError):
                if connection.is_answered:
                    raise
                connection = None
                if sink is not None:
                    sink.started(self._clock())
        if connection is None:
            begun_ns = self._clock()
            connection = await pool.connect(timeout.get("connect"))
            connect_ns = self._clock() - begun_ns
            await connection.send(data, sink, timeout)
        return httpx.Response(
            connection.status,
            headers=connection.headers,
            stream=_Body(connection, pool),
            extensions={
                "reason_phrase": connection.reason,
                "headers_ns": connection.headers_ns,
                "connect_ns": connect_ns,
                "feeds_sink": connection.feeds_sink,
            },
        )

    def _pool(self, url: httpx.URL) -> _Pool:
        key = url.scheme, url.raw_host, url.port
        pool = self._pools.get(key)
        if pool is None:
            tls = self._tls if url.scheme == "https" else None
            port = url.port or (80 if tls is None else 443)
            pool = self._pools[key] = _Pool(url.raw_host.decode("ascii"), port, tls, self._clock)
        return pool

    async def aclose(self) -> None:
        """Close every connection, and see them closed."""
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))
        # The loop closes sockets in its next pass.
        await asyncio.sleep(0)


class _Body(httpx.AsyncByteStream):
    """The body of a response, in pieces: none where a sink takes it, and then the wait for its end."""

    def __init__(self, connection: Connection, pool: _Pool) -> None:
        self._connection = connection
        self._pool = pool

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._connection.read()
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        self._pool.give_back(self._connection)


@dataclass(slots=True)
class _Pool:
    """The connections to one host and port."""

    host: str
    port: int
    tls: Callable[[], ssl.SSLContext] | None
    clock: Callable[[], int]
    _idle: list[Connection] = field(init=False, default_factory=list)
    _all: set[Connection] = field(init=False, default_factory=set)
    _openings: set[asyncio.Task[Connection]] = field(init=False, default_factory=set)
    _resolving: asyncio.Future[Any] | None = field(init=False, default=None)
    _resolve_at: float = field(init=False, default=0.0)
    _starts: Iterator[int] = field(init=False, default_factory=itertools.count)

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
        if connection.release():
            connection.idle_since = time.monotonic()
            self._idle.append(connection)

    async def close(self) -> None:
        # Those on their way are let arrive where they soon do: loops complain of what is cancelled within a handshake.
        if self._openings:
            await asyncio.wait(self._openings, timeout=_ARRIVAL_SECONDS)
        left: list[asyncio.Future[Any]] = [*self._openings, *([] if self._resolving is None else [self._resolving])]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for connection in list(self._all):
            connection.abort()
        self._idle.clear()

    async def connect(self, seconds: float | None) -> Connection:
        """Return a new connection; raises `httpx.ConnectError` or, after as many seconds, `httpx.ConnectTimeout`.

        It is opened by a task of its own, which goes on where the asker is cancelled or loses patience: a connection
        that is made in that very moment would be nobody's, and loops differ in what becomes of it.
        """
        opening = asyncio.create_task(self._open(seconds))
        self._openings.add(opening)
        opening.add_done_callback(self._openings.discard)
        try:
            done, _ = await asyncio.wait({opening}, timeout=seconds)
        except asyncio.CancelledError:
            opening.add_done_callback(_drop)
            raise
        if not done:
            opening.add_done_callback(_drop)
            raise httpx.ConnectTimeout(f"none within {seconds:g} s")
        try:
            return opening.result()
        except UnicodeError as error:  # the resolver's, of a label that is empty or too long
            raise httpx.ConnectError(f"{self.host}: no name that a host can have") from error
        except (OSError, RuntimeError) as error:  # ssl.SSLError and socket.gaierror are OSErrors
            reason = getattr(error, "strerror", None) or error
            raise httpx.ConnectError(f"{self.host}:{self.port}: {reason}") from error
        finally:
            # The task holds its error, and the error this frame.
            del opening

    async def _open(self, seconds: float | None) -> Connection:
        loop = asyncio.get_running_loop()

        def protocol() -> Connection:
            return Connection(self.clock, self._all)

        options: dict[str, Any] = {}
        if self.tls is not None:
            options = {"ssl": self.tls(), "server_hostname": self.host, "ssl_handshake_timeout": seconds}
        if _is_address(self.host):
            made = await loop.create_connection(protocol, self.host, self.port, **options)
        else:
            plain = await start_connection(await self._resolve(), happy_eyeballs_delay=_EYEBALLS_SECONDS, interleave=1)
            made = await loop.create_connection(protocol, sock=plain, **options)
        return made[1]

    async def _resolve(self) -> list[AddrInfoType]:
        loop = asyncio.get_running_loop()
        last = self._resolving
        if last is None or (last.done() and (loop.time() > self._resolve_at or last.exception() is not None)):
            # One asks for all who wait, and all get its answer, be it an error.
            asked = loop.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            last = self._resolving = asyncio.ensure_future(asked)
            self._resolve_at = loop.time() + _RESOLVED_SECONDS
        found = await asyncio.shield(last)
        # Each connection starts at the next address: replicas behind one name share the load.
        start = next(self._starts) % len(found)
        return [*found[start:], *found[:start]]


def _drop(opening: asyncio.Task[Connection]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().abort()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
