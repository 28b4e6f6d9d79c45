"""Send requests through an httpx transport: a proxy's, or one that a caller brings."""

from __future__ import annotations

from collections.abc import Callable

import httpx

from aiperf_spec.client.transport.errors import (
    BrokenConnectionError,
    IncompleteResponseError,
    NotConnectedError,
    NotHTTPError,
    ProxyRefusedError,
    SilenceError,
    StaleConnectionError,
    TransportError,
)
from aiperf_spec.client.transport.exchange import Head, Reader, Target

_NAMES: tuple[tuple[type[Exception], type[TransportError]], ...] = (
    (httpx.ProxyError, ProxyRefusedError),
    (httpx.ConnectTimeout, NotConnectedError),
    (httpx.PoolTimeout, NotConnectedError),
    (httpx.ConnectError, NotConnectedError),
    (httpx.UnsupportedProtocol, NotConnectedError),
    (httpx.InvalidURL, NotConnectedError),
    (httpx.TimeoutException, SilenceError),
    (httpx.RemoteProtocolError, NotHTTPError),
)
_STALE, _INCOMPLETE = "Server disconnected without", "peer closed connection"
"""How httpx begins what it says of a server that closed the connection; it has no class of its own for it."""


class HttpxTransport:
    """Hand the responses of an httpx transport to readers; stamps are taken as pieces come out of it.

    `keeps_alive` says that it uses connections again, and reports new ones as httpcore does.
    """

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport,
        timeout: httpx.Timeout,
        clock: Callable[[], int],
        *,
        keeps_alive: bool = False,
    ) -> None:
        self._transport = transport
        self._timeout = timeout.as_dict()
        self._clock = clock
        self._keeps_alive = keeps_alive

    async def exchange(self, target: Target, request_id: str, body: bytes, reader: Reader) -> None:
        """Send one request; see `Transport`."""
        events: list[str] = []

        async def trace(name: str, info: object) -> None:
            events.append(name)

        try:
            await self._exchange(target, request_id, body, reader, trace)
        except StaleConnectionError:
            # Known to be kept alive where no new connection was reported.
            if not self._keeps_alive or any(name.startswith("connection.") for name in events):
                raise
            reader.restart(self._clock())
            await self._exchange(target, request_id, body, reader, trace)

    async def _exchange(self, target: Target, request_id: str, body: bytes, reader: Reader, trace: object) -> None:
        try:
            await self._ask(target, request_id, body, reader, trace)
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as error:
            raise _named(error) from error

    async def _ask(self, target: Target, request_id: str, body: bytes, reader: Reader, trace: object) -> None:
        headers = {**target.headers, **({"x-request-id": request_id} if request_id else {})}
        extensions = {"timeout": self._timeout, "trace": trace}
        request = httpx.Request(target.method, target.url, headers=headers, content=body or None, extensions=extensions)
        response = await self._transport.handle_async_request(request)
        response.request = request
        try:
            fields = {name.lower(): value for name, value in response.headers.items()}
            reader.head(Head(response.status_code, response.reason_phrase, fields), self._clock())
            # Undecoded, as they are on the wire; httpx's own iterators add two layers a piece.
            assert isinstance(response.stream, httpx.AsyncByteStream)
            async for piece in response.stream:
                if reader.data(piece, self._clock(), False):
                    return
            reader.end(self._clock())
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        """Close the transport."""
        await self._transport.aclose()


def _named(error: Exception) -> TransportError:
    text = str(error) or type(error).__name__
    if isinstance(error, httpx.RemoteProtocolError) and text.startswith(_STALE):
        return StaleConnectionError(text)
    if isinstance(error, httpx.RemoteProtocolError) and text.startswith(_INCOMPLETE):
        return IncompleteResponseError(text)
    return next((name for kind, name in _NAMES if isinstance(error, kind)), BrokenConnectionError)(text)
