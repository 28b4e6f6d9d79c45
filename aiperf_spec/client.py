"""Talk HTTP.

httpx runs over aiohttp's transport (see `connection`). A server that hangs up arrives as an ill-named httpx error, so
failures are named after their cause (see `client_errors`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
import httpx
import orjson

from aiperf_spec.client_errors import RequestFailedError, name_failure
from aiperf_spec.config import ProfileConfig
from aiperf_spec.connection import (
    CONNECT_TIMEOUT_SECONDS,
    connection_reuse,
    make_transport,
    request_headers,
    tls_context,
)
from aiperf_spec.models.run import ErrorKind, RequestError
from aiperf_spec.proxies import proxy_for
from aiperf_spec.urls import Server
from aiperf_spec.wire.parse import message_of
from aiperf_spec.wire.sse import MAX_EVENT_BYTES, EventTooLargeError, SSEDecoder, SSEEvent

_ERROR_BODY_BYTES = 64 * 1024
_AFTER_DONE_SECONDS = 1.0
"""How long a stream may stay open after [DONE] before the connection is given up; nothing is measured by then."""
_GET_TIMEOUT_SECONDS = 5.0
_GET_BYTES = 32 * 1024 * 1024
"""More than any list of models or page of metrics holds."""
_BLANKS = 64 * 1024
"""Bytes of white space after which a body is no longer looked at for the start of a stream."""
_DECODED = ("", "identity", "gzip", "x-gzip", "deflate")

Receive = Callable[[int, list[SSEEvent]], None]
"""Takes the events of one read, and the time at which it was done."""


@dataclass(slots=True)
class Exchange:
    """What is known of one request, filled as it goes. Times are of the monotonic clock, in ns."""

    start_ns: int = 0
    ack_ns: int | None = None
    """When the response's headers had arrived."""
    end_ns: int = 0
    status: int | None = None
    is_stream: bool = False
    """Whether the response came as server-sent events, whatever its content type said."""
    retried: bool = False


class Client:
    """Send requests to one endpoint; an asynchronous context manager.

    `transport` and `clock` are seams for tests: a transport replaces the network, a clock the monotonic time in ns.
    """

    def __init__(
        self,
        config: ProfileConfig,
        server: Server,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._config = config
        self._server = server
        self._clock = clock
        self._url = httpx.URL(server.endpoint(config.endpoint_type))
        self.proxy = proxy_for(server)
        self.headers = request_headers(config, server)
        self._tls = tls_context(config, server)
        self._main = transport or make_transport(self._tls, self.proxy, force_close=False)
        self._fresh = transport
        read, connect = config.request_timeout_seconds, CONNECT_TIMEOUT_SECONDS
        timeout = httpx.Timeout(connect=connect, read=read, write=read, pool=connect)
        self._extensions = {"timeout": timeout.as_dict()}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._main.aclose()
        if self._fresh is not None and self._fresh is not self._main:
            await self._fresh.aclose()

    async def post(self, body: bytes, request_id: str, exchange: Exchange, receive: Receive) -> None:
        """Send one request and hand its events to `receive`, read by read, with the time at which each read was done.

        Fills `exchange` as it goes. Raises `RequestFailedError` for every way in which the transport, the status or
        the clock ended it. A kept-alive connection that dies before any byte of the response is replaced once: the
        server had closed it before it could see the request.
        """
        with connection_reuse() as reused:
            try:
                await self._attempt(self._main, body, request_id, exchange, receive)
                return
            except RequestFailedError as failure:
                stale = failure.error.kind is ErrorKind.DISCONNECTED and exchange.ack_ns is None
                if not (stale and reused):
                    raise
        exchange.retried = True
        if self._fresh is None:
            self._fresh = make_transport(self._tls, self.proxy, force_close=True)
        await self._attempt(self._fresh, body, request_id, exchange, receive)

    async def _attempt(
        self, transport: httpx.AsyncBaseTransport, body: bytes, request_id: str, exchange: Exchange, receive: Receive
    ) -> None:
        # The transport is asked itself: httpx's client would add cookies, redirects and a third of the cost.
        headers = {**self.headers, "x-request-id": request_id}
        request = httpx.Request("POST", self._url, headers=headers, content=body, extensions=self._extensions)
        limit = self._config.request_timeout_seconds
        exchange.end_ns = 0
        exchange.start_ns = self._clock()
        try:
            async with asyncio.timeout(limit) as deadline:
                response = await transport.handle_async_request(request)
                response.request = request
                try:
                    exchange.ack_ns = self._clock()
                    exchange.status = response.status_code
                    if not response.is_success:
                        raise await _status_failure(response)
                    await self._receive(response, exchange, receive, deadline)
                finally:
                    await response.aclose()
        except TimeoutError:
            if not exchange.end_ns:  # else [DONE] had come, and only the connection lingered
                text = f"no complete response within {limit:g} s (--request-timeout-seconds)"
                error = RequestError(ErrorKind.TIMEOUT, text, exchange.status)
                raise RequestFailedError(error) from None
        except (
            httpx.HTTPError,
            httpx.StreamError,
            aiohttp.ClientError,
            OSError,
            EventTooLargeError,
        ) as error:
            if not exchange.end_ns:
                raise RequestFailedError(name_failure(error, exchange.status)) from error
        finally:
            exchange.end_ns = exchange.end_ns or self._clock()

    async def _receive(
        self, response: httpx.Response, exchange: Exchange, receive: Receive, deadline: asyncio.Timeout
    ) -> None:
        clock = self._clock
        decoder: SSEDecoder | None = None
        body: list[bytes] = []
        size = 0
        opens_stream: bool | None = None
        async for chunk in _pieces(response):
            arrival_ns = clock()
            if decoder is None:
                body.append(chunk)
                size += len(chunk)
                if size > MAX_EVENT_BYTES:
                    raise EventTooLargeError(f"a body of more than {MAX_EVENT_BYTES >> 20} MiB")
                # Content types lie (proxies, gateways): what the first byte says does not.
                if opens_stream is None:
                    opens_stream = _opens_stream(b"".join(body))
                if not opens_stream:
                    continue
                exchange.is_stream = True
                decoder = SSEDecoder()
                chunk = b"".join(body)
            events = decoder.decode(chunk)
            if not events:
                continue
            receive(arrival_ns, events)
            # Not the last alone: some servers send a ping or their own event behind the end mark.
            if any(len(event.data) < 16 and event.data.strip() == b"[DONE]" for event in events):
                exchange.end_ns = arrival_ns
                deadline.reschedule(asyncio.get_running_loop().time() + _AFTER_DONE_SECONDS)
        end_ns = clock()
        if decoder is None:
            receive(end_ns, [SSEEvent(b"".join(body))])
        elif events := decoder.flush():
            receive(end_ns, events)
        exchange.end_ns = end_ns

    async def get(self, url: str) -> httpx.Response | None:
        """Return what a GET answers, read whole and decoded; None where nothing came, or too much, in a few seconds."""
        request = httpx.Request("GET", url, headers=self.headers, extensions=self._extensions)
        try:
            async with asyncio.timeout(_GET_TIMEOUT_SECONDS):
                response = await self._main.handle_async_request(request)
                response.request = request
                body = bytearray()
                try:
                    async for piece in _pieces(response):
                        body += piece
                        if len(body) > _GET_BYTES:
                            return None
                finally:
                    await response.aclose()
        except (TimeoutError, httpx.HTTPError, aiohttp.ClientError, OSError):
            return None
        return httpx.Response(response.status_code, content=bytes(body), request=request)

    async def get_json(self, url: str) -> Any:
        """Return what a GET answers; None unless it is JSON with status 2xx within a few seconds."""
        response = await self.get(url)
        try:
            return orjson.loads(response.content) if response is not None and response.is_success else None
        except orjson.JSONDecodeError:
            return None

    async def is_up(self, url: str) -> bool:
        """Say whether a GET is answered at all with something that is no server error."""
        response = await self.get(url)
        return response is not None and response.status_code < 500


def _opens_stream(start: bytes) -> bool | None:
    # None while only blanks or part of a byte order mark came. Asked again with every read until it is decided, so a
    # body of nothing but blanks is given up as no stream.
    mark = b"\xef\xbb\xbf"
    if len(start) < len(mark) and mark.startswith(start):
        return None
    seen = start.removeprefix(mark).lstrip()
    if seen:
        return seen[:1] not in (b"{", b"[", b"<")
    return None if len(start) < _BLANKS else False


def _pieces(response: httpx.Response) -> AsyncIterator[bytes]:
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in _DECODED:
        raise httpx.DecodingError(f"it is compressed as {encoding!r}, which was not asked for")
    if encoding in ("", "identity") and isinstance(response.stream, httpx.AsyncByteStream):
        # The bare stream: httpx's own iterators add two layers a chunk.
        return response.stream.__aiter__()
    return response.aiter_bytes()


async def _status_failure(response: httpx.Response) -> RequestFailedError:
    status = response.status_code
    body = b""
    lost = ""
    try:
        # The status has failed the request already: a body that never ends must not make a time-out of it.
        async with asyncio.timeout(_GET_TIMEOUT_SECONDS):
            async for chunk in _pieces(response):
                body += chunk
                if len(body) >= _ERROR_BODY_BYTES:
                    break
    except (httpx.HTTPError, aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
        lost = f"body lost ({type(error).__name__})"
    text = f"HTTP {status} {response.reason_phrase}".strip()
    if location := response.headers.get("location"):
        text += f" to {location} (redirects are not followed)"
    if said := _said(body) or lost:
        text += f": {said}"
    return RequestFailedError(RequestError(ErrorKind.HTTP_STATUS, text, status))


def _said(body: bytes) -> str:
    try:
        return message_of(orjson.loads(body))
    except orjson.JSONDecodeError:
        return body.decode("utf-8", "replace").strip()
