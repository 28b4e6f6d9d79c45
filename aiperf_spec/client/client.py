"""Talk HTTP through httpx: post requests, have their responses read as they arrive, and name what goes wrong."""

import asyncio
import logging
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable
from functools import cache
from typing import Any, Self
from urllib.parse import urljoin

import httpx
import orjson

from aiperf_spec.client.compression import BodyDecoder
from aiperf_spec.client.failures import FAILURES, RequestFailedError, name_failure, status_failure
from aiperf_spec.client.proxies import ProxyTransport, proxy_for
from aiperf_spec.client.sink import ReaderSink, RequestTrace
from aiperf_spec.client.stamping_transport import StampingTransport
from aiperf_spec.config.server_url import Server, origin_of
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import ConfigError
from aiperf_spec.models.run import ErrorKind, RequestError
from aiperf_spec.version import __version__
from aiperf_spec.wire.response_reader import ResponseReader
from aiperf_spec.wire.sse import EventTooLargeError

CONNECT_TIMEOUT_SECONDS = 10.0
_ERROR_BODY_BYTES = 64 * 1024
_GET_TIMEOUT_SECONDS = 5.0
_CONNECT_SECONDS = _GET_TIMEOUT_SECONDS - 0.5
"""What opening a connection takes too long with is then named as that."""
_REDIRECTS = 4
"""Answers to one GET that may be redirects."""
_GET_BYTES = 32 * 1024 * 1024
"""More than any list of models or page of metrics holds."""
# These say where a body ends, which is httpx's to say, and which request it is, which is ours.
_OUR_HEADERS = ("content-length", "transfer-encoding", "x-request-id")


class Client:
    """Send requests to one endpoint through an `httpx.AsyncClient`; an asynchronous context manager.

    `transport` may be any of httpx's in place of ours; one that knows no sink (see `StampingTransport`) is stamped as
    pieces of a body come out of it. `clock` is the monotonic time in ns. Raises `ConfigError` for certificates, a proxy
    or a URL that cannot be used.
    """

    def __init__(
        self,
        config: ProfileConfig,
        server: Server,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._limit = config.request_timeout_seconds
        self._clock = clock
        self.proxy = None if transport is not None else proxy_for(server)
        self.headers = request_headers(config, server)
        sent = {name: value for name, value in self.headers.items() if name not in _OUR_HEADERS}
        self._headers = httpx.Headers(sent, encoding="latin-1")
        try:
            # Whatever is the same for all requests, httpx does once: address, Host, order and encoding of headers.
            self._template = httpx.Request(
                "POST", server.endpoint(config.endpoint_type), headers=self._headers, content=b"x"
            )
        except httpx.InvalidURL as error:
            raise ConfigError(f"{server.root}: {error}", "check --url") from None
        tls = cache(lambda: _tls_context(config))
        if config.ca_file is not None or server.root.startswith("https:") or self.proxy is not None:
            # At once: reading certificates takes longer than many a response, and a bad file is to be known of.
            tls()
        timeout = httpx.Timeout(self._limit, connect=CONNECT_TIMEOUT_SECONDS)
        self._timeout = timeout.as_dict()
        self._http = _CookielessClient(
            transport=transport or StampingTransport(tls, clock),
            mounts=None if self.proxy is None else {"all://": ProxyTransport(self.proxy, tls(), clock)},
            timeout=timeout,
            # No variables of the environment but the proxies, and no .netrc: what is sent is what the user gave.
            trust_env=False,
            event_hooks={"response": [self._response_started]},
        )
        self._quiet = _QueryFilter()
        logging.getLogger("httpx").addFilter(self._quiet)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()
        logging.getLogger("httpx").removeFilter(self._quiet)

    async def post(self, body: bytes, request_id: str, trace: RequestTrace, reader: ResponseReader) -> None:
        """Send one request and feed `reader` with what arrives, each read under the time at which it was done.

        Fills `trace` as it goes. Raises `RequestFailedError` for every way in which the transport, the status or
        the clock ended it.
        """
        headers = self._template.headers.copy()
        headers["content-length"] = str(len(body))
        headers["x-request-id"] = request_id
        sink = ReaderSink(trace, reader, self._limit, self._clock)
        extensions = {"sink": sink, "timeout": self._timeout}
        stream = httpx.ByteStream(body)
        request = httpx.Request("POST", self._template.url, headers=headers, stream=stream, extensions=extensions)
        failed: RequestError | None = None
        lost = ""
        trace.start_ns = self._clock()
        try:
            async with asyncio.timeout(self._limit) as sink.deadline:
                await self._exchange(request, sink)
        except FAILURES as failure:
            # Named here, and let go of: an exception holds the frames that it passed, and they the request.
            lost = type(failure).__name__
            if isinstance(failure, TimeoutError):
                text = f"no complete response within {self._limit:g} s (--request-timeout-seconds)"
                failed = RequestError(ErrorKind.READ_TIMEOUT, text, trace.status)
            else:
                failed = name_failure(failure, trace.status)
        finally:
            trace.end_ns = trace.end_ns or self._clock()
            sink.deadline = None
            # httpx's objects refer to each other in a circle: what was read is not to stay with them.
            request.extensions.clear()
        if sink.refusal:
            failed = status_failure(trace.status, sink.refusal, sink.error_body, lost)
        elif reader.has_ended:
            return  # after [DONE], only the connection lingered or broke
        if failed is not None:
            raise RequestFailedError(failed)

    async def _exchange(self, request: httpx.Request, sink: ReaderSink) -> None:
        response = await self._http.send(request, stream=True)
        try:
            # Of a body that the transport hands to the sink nothing comes here: this is the wait for its end.
            async for data in _decoded(response):
                if sink.refusal:
                    sink.error_body += data
                    if len(sink.error_body) >= _ERROR_BODY_BYTES:
                        return
                else:
                    sink.received(data, self._clock())
            sink.ended(self._clock())
        finally:
            await response.aclose()
            # httpx's stream holds its response, and the response the stream: nothing would let go before a collection.
            response.stream = httpx.ByteStream(b"")

    async def _response_started(self, response: httpx.Response) -> None:
        # A hook, and not what `send` returns: httpx looks into redirects first, and fails where they lead to no URL.
        sink: ReaderSink | None = response.request.extensions.get("sink")
        if sink is not None:
            sink.headers_received(response)
        if response.is_redirect:
            response.extensions["location"] = response.headers.pop("location", "")

    async def get(self, url: str) -> httpx.Response | None:
        """Return what a GET answers; None where `ask` would raise."""
        try:
            return await self.ask(url)
        except RequestFailedError:
            return None

    async def ask(self, url: str, method: str = "GET", seconds: float = _GET_TIMEOUT_SECONDS) -> httpx.Response:
        """Return what a GET, or a POST without a body, answers, read whole, whatever its status.

        Redirects are followed within the origin: a path without its last slash is often answered by one. Raises
        `RequestFailedError` where nothing came, or too much, in these seconds.
        """
        try:
            async with asyncio.timeout(seconds):
                for _ in range(_REDIRECTS):
                    page = await self._page(url, method, seconds)
                    location = page.headers.get("location", "") if page.is_redirect else ""
                    target = urljoin(url, location)
                    if not location or origin_of(target) != origin_of(url):
                        break
                    url = target
        except TimeoutError:
            text = f"no answer within {seconds:g} s"
            raise RequestFailedError(RequestError(ErrorKind.READ_TIMEOUT, text)) from None
        except (*FAILURES, ValueError) as failure:  # the latter of a location that is no URL
            raise RequestFailedError(name_failure(failure, None)) from None
        return page

    async def _page(self, url: str, method: str, seconds: float) -> httpx.Response:
        body = bytearray()
        timeout = httpx.Timeout(seconds, connect=_CONNECT_SECONDS)
        async with self._http.stream(method, url, headers=self._headers, timeout=timeout) as response:
            async for data in _decoded(response):
                body += data
                if len(body) > _GET_BYTES:
                    raise EventTooLargeError(f"an answer of more than {_GET_BYTES >> 20} MiB")
        location = response.extensions.get("location", "")
        headers = {"location": location} if location else {}
        headers |= {name: value for name in ("date", "age") if (value := response.headers.get(name)) is not None}
        return httpx.Response(response.status_code, headers=headers, content=bytes(body))

    async def get_json(self, url: str) -> Any:
        """Return what a GET answers; None where `ask_json` would raise."""
        try:
            return await self.ask_json(url)
        except RequestFailedError:
            return None

    async def ask_json(self, url: str) -> Any:
        """Return what a GET answers; raise `RequestFailedError` unless it is JSON with status 2xx."""
        page = await self.ask(url)
        if not page.is_success:
            status = f"HTTP {page.status_code} {page.reason_phrase}".strip()
            raise RequestFailedError(status_failure(page.status_code, status, page.content))
        try:
            return orjson.loads(page.content)
        except orjson.JSONDecodeError:
            text = f"the server sent what is not JSON: {page.content[:_ERROR_BODY_BYTES].decode('utf-8', 'replace')}"
            raise RequestFailedError(RequestError(ErrorKind.MALFORMED, text, page.status_code)) from None


async def _decoded(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield a body in pieces of bounded size, and give way to the clock between those that one read brought."""
    assert isinstance(response.stream, httpx.AsyncByteStream)
    decoder: BodyDecoder | None = None
    async for data in response.stream:
        # Not before there is a body: the transport gives those of nearly all requests to their sinks.
        decoder = decoder or BodyDecoder(response.headers.get("content-encoding", ""))
        for number, piece in enumerate(decoder.decode(data)):
            if number:
                await asyncio.sleep(0)
            yield piece


def request_headers(config: ProfileConfig, server: Server) -> dict[str, str]:
    """Return the headers of every request, with lower-case names; the user's own win, whatever their case."""
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
        [request] = httpx.BasicAuth(*server.credentials).sync_auth_flow(httpx.Request("GET", "http://server"))
        headers["authorization"] = request.headers["authorization"]
    for name, value in config.headers:
        headers[name.lower()] = value
    return headers


def _tls_context(config: ProfileConfig) -> ssl.SSLContext:
    """Return the context by which certificates are checked; `ConfigError` for a file that holds none.

    Without `--ca-file` or `--insecure` they are those that httpx takes: of `SSL_CERT_FILE` or `SSL_CERT_DIR` where set,
    else certifi's.
    """
    if config.insecure or config.ca_file is None:
        try:
            return httpx.create_ssl_context(verify=not config.insecure)
        except OSError as error:  # ssl.SSLError is one
            named = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR") or ""
            text = f"no certificates can be read from {named!r} (SSL_CERT_FILE, SSL_CERT_DIR)"
            raise ConfigError(f"{text}: {error.strerror or error}") from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cafile=config.ca_file)
    except OSError as error:
        reason = "no PEM certificates in it" if isinstance(error, ssl.SSLError) else error.strerror or error
        raise ConfigError(f"--ca-file {str(config.ca_file)!r}: {reason}") from None
    return context


class _NoCookies(httpx.Cookies):
    def extract_cookies(self, response: httpx.Response) -> None:
        """Leave the cookies of a response where they are."""


class _CookielessClient(httpx.AsyncClient):
    """Store no cookie: that of a load balancer, sent back, would keep the whole run at one replica."""

    cookies = _NoCookies()  # type: ignore[override]  # nobody sets another


class _QueryFilter(logging.Filter):
    """Take queries, which may hold a key, out of the URLs that httpx logs."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let each record through."""
        if isinstance(record.args, tuple):
            record.args = tuple(
                value.copy_with(query=b"...") if isinstance(value, httpx.URL) and value.query else value
                for value in record.args
            )
        return True
