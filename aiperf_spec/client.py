"""Talk HTTP: the only module that does.

httpx runs over aiohttp's transport, because httpx's own parses every chunk in Python. Two corners of that transport
(httpx-aiohttp 0.2.0) shape this module: aiohttp keeps a limit of 100 connections unless told otherwise, and a server
that hangs up arrives as an ill-named httpx error, so failures are named after their cause.
"""

from __future__ import annotations

import asyncio
import base64
import contextvars
import ssl
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import aiohttp
import httpx
import orjson
from httpx_aiohttp import AiohttpTransport

from aiperf_spec.client_errors import RequestFailedError, name_failure
from aiperf_spec.config import ProfileConfig
from aiperf_spec.errors import ConfigError
from aiperf_spec.models.run import ErrorKind, RequestError
from aiperf_spec.proxies import proxy_for
from aiperf_spec.urls import Server
from aiperf_spec.version import __version__
from aiperf_spec.wire.parse import message_of
from aiperf_spec.wire.sse import MAX_EVENT_BYTES, EventTooLargeError, SSEDecoder, SSEEvent

CONNECT_TIMEOUT_SECONDS = 10.0
_ERROR_BODY_BYTES = 64 * 1024
_AFTER_DONE_SECONDS = 1.0
"""How long a stream may stay open after [DONE] before the connection is given up; nothing is measured by then."""
_GET_TIMEOUT_SECONDS = 5.0
_BLANKS = 64 * 1024
"""Bytes of white space after which a body is no longer looked at for the start of a stream."""
_DECODED = ("", "identity", "gzip", "x-gzip", "deflate")

Receive = Callable[[int, SSEEvent], None]


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


_reused: contextvars.ContextVar[list[bool] | None] = contextvars.ContextVar("reused", default=None)


async def _note_reuse(_session: aiohttp.ClientSession, _context: SimpleNamespace, _params: object) -> None:
    marks = _reused.get()
    if marks is not None:
        marks.append(True)


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
        self._main = self._make(transport or self._transport(force_close=False))
        self._fresh: httpx.AsyncClient | None = None if transport is None else self._main

    def _transport(self, *, force_close: bool) -> AiohttpTransport:
        def session() -> aiohttp.ClientSession:
            trace = aiohttp.TraceConfig()
            trace.on_connection_reuseconn.append(_note_reuse)
            connector = aiohttp.TCPConnector(
                limit=0,
                ssl=self._tls,
                force_close=force_close,
                keepalive_timeout=None if force_close else 60,
            )
            return aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trace_configs=[trace]
            )

        proxy = httpx.Proxy(self.proxy) if self.proxy else None
        return AiohttpTransport(verify=self._tls, trust_env=False, client=session, proxy=proxy)

    def _make(self, transport: httpx.AsyncBaseTransport) -> httpx.AsyncClient:
        read = self._config.request_timeout_seconds
        connect = CONNECT_TIMEOUT_SECONDS
        return httpx.AsyncClient(
            transport=transport,
            trust_env=False,
            follow_redirects=False,
            # A cookie would tie later requests to what an earlier one got.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            timeout=httpx.Timeout(connect=connect, read=read, write=read, pool=connect),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._main.aclose()
        if self._fresh is not None and self._fresh is not self._main:
            await self._fresh.aclose()

    async def post(self, body: bytes, request_id: str, exchange: Exchange, receive: Receive) -> None:
        """Send one request and hand each event to `receive` with the time at which its last byte was read.

        Fills `exchange` as it goes. Raises `RequestFailedError` for every way in which the transport, the status or
        the clock ended it. A kept-alive connection that dies before any byte of the response is replaced once: the
        server had closed it before it could see the request.
        """
        marks: list[bool] = []
        token = _reused.set(marks)
        try:
            await self._attempt(self._main, body, request_id, exchange, receive)
        except RequestFailedError as failure:
            stale = failure.error.kind is ErrorKind.DISCONNECTED and exchange.ack_ns is None
            if not (stale and marks):
                raise
            exchange.retried = True
            if self._fresh is None:
                self._fresh = self._make(self._transport(force_close=True))
            await self._attempt(self._fresh, body, request_id, exchange, receive)
        finally:
            _reused.reset(token)

    async def _attempt(
        self, client: httpx.AsyncClient, body: bytes, request_id: str, exchange: Exchange, receive: Receive
    ) -> None:
        headers = {**self.headers, "x-request-id": request_id}
        request = client.build_request("POST", self._url, content=body, headers=headers)
        limit = self._config.request_timeout_seconds
        exchange.end_ns = 0
        exchange.start_ns = self._clock()
        try:
            async with asyncio.timeout(limit) as deadline:
                response = await client.send(request, stream=True)
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
            for event in decoder.decode(chunk):
                receive(arrival_ns, event)
                if event.data.strip() == b"[DONE]":
                    exchange.end_ns = arrival_ns
                    deadline.reschedule(asyncio.get_running_loop().time() + _AFTER_DONE_SECONDS)
        end_ns = clock()
        if decoder is None:
            receive(end_ns, SSEEvent(b"".join(body)))
        else:
            for event in decoder.flush():
                receive(end_ns, event)
        exchange.end_ns = end_ns

    async def get_json(self, url: str) -> Any:
        """Return what a GET answers; None unless it is JSON with status 2xx within a few seconds."""
        try:
            async with asyncio.timeout(_GET_TIMEOUT_SECONDS):
                response = await self._main.get(url, headers=self.headers)
            return orjson.loads(response.content) if response.is_success else None
        except (TimeoutError, httpx.HTTPError, aiohttp.ClientError, OSError, orjson.JSONDecodeError):
            return None

    async def is_up(self, url: str) -> bool:
        """Say whether a GET is answered at all with something that is no server error."""
        try:
            async with asyncio.timeout(_GET_TIMEOUT_SECONDS):
                response = await self._main.get(url, headers=self.headers)
        except (TimeoutError, httpx.HTTPError, aiohttp.ClientError, OSError):
            return False
        return response.status_code < 500


def request_headers(config: ProfileConfig, server: Server) -> dict[str, str]:
    """Return the headers of every request; the user's own win, whatever their case."""
    headers = {
        "user-agent": f"spec-profile/{__version__}",
        "accept": "text/event-stream" if config.streaming else "application/json",
        # Compression would make chunks arrive when the compressor flushes, not when tokens are made.
        "accept-encoding": "identity",
        "content-type": "application/json",
    }
    if config.api_key:
        headers["authorization"] = f"Bearer {config.api_key}"
    elif server.credentials:
        pair = ":".join(server.credentials).encode()
        headers["authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    for name, value in config.headers:
        headers[name.lower()] = value
    return headers


def tls_context(config: ProfileConfig, server: Server) -> ssl.SSLContext:
    """Return how certificates are checked; raise `ConfigError` for a file that holds none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if config.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    if config.ca_file is not None:
        try:
            context.load_verify_locations(cafile=config.ca_file)
        except OSError as error:  # ssl.SSLError is one
            reason = "no PEM certificates in it" if isinstance(error, ssl.SSLError) else error.strerror or error
            raise ConfigError(f"--ca-file {str(config.ca_file)!r}: {reason}") from None
        return context
    # Reading the bundled certificates takes tens of milliseconds that plain HTTP need not pay.
    return httpx.create_ssl_context() if server.root.startswith("https:") else context


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
