"""Talk HTTP: post requests, have their responses read as they arrive, and name what goes wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import orjson

from aiperf_spec.client.access import make_transport, request_headers
from aiperf_spec.client.failures import RequestFailedError, name_failure
from aiperf_spec.client.proxies import proxy_for
from aiperf_spec.client.transport.errors import TransportError
from aiperf_spec.client.transport.exchange import Head, Target
from aiperf_spec.config.server_url import Server
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.models.run import ErrorKind, RequestError
from aiperf_spec.wire.chunk import message_of
from aiperf_spec.wire.encoding import UndecodableError, decoder
from aiperf_spec.wire.response_reader import ResponseReader
from aiperf_spec.wire.sse import EventTooLargeError

if TYPE_CHECKING:
    import httpx

_ERROR_BODY_BYTES = 64 * 1024
_AFTER_DONE_SECONDS = 1.0
"""How long a stream may stay open after [DONE] before the connection is given up; nothing is measured by then."""
_GET_TIMEOUT_SECONDS = 5.0
_GET_BYTES = 32 * 1024 * 1024
"""More than any list of models or page of metrics holds."""
_FAILURES = (TransportError, TimeoutError, EventTooLargeError, UndecodableError)


@dataclass(slots=True)
class RequestTrace:
    """What is known of one request, filled as it goes. Times are of the monotonic clock, in ns."""

    start_ns: int = 0
    ack_ns: int | None = None
    """When the response's headers had arrived."""
    end_ns: int = 0
    status: int | None = None
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
        self._limit = config.request_timeout_seconds
        self._clock = clock
        self.proxy = proxy_for(server)
        self.headers = request_headers(config, server)
        self._target = Target("POST", server.endpoint(config.endpoint_type), self.headers)
        self._transport = make_transport(config, server, self.proxy, clock, transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.aclose()

    async def post(self, body: bytes, request_id: str, exchange: RequestTrace, reader: ResponseReader) -> None:
        """Send one request and feed `reader` with what arrives, each read under the time at which it was done.

        Fills `exchange` as it goes. Raises `RequestFailedError` for every way in which the transport, the status or
        the clock ended it.
        """
        reading = _Reading(exchange, reader, self._limit)
        exchange.start_ns = self._clock()
        failed: RequestError | None = None
        lost = ""
        try:
            async with asyncio.timeout(self._limit) as reading.deadline:
                await self._transport.exchange(self._target, request_id, body, reading)
        except _FAILURES as failure:
            # Named here, and let go of: an exception holds the frames that it passed, and they the request.
            lost = type(failure).__name__
            if isinstance(failure, TimeoutError):
                text = f"no complete response within {self._limit:g} s (--request-timeout-seconds)"
                failed = RequestError(ErrorKind.TIMEOUT, text, exchange.status)
            else:
                failed = name_failure(failure, exchange.status)
        finally:
            exchange.end_ns = exchange.end_ns or self._clock()
            reading.deadline = None
        if reading.refusal is not None:
            failed = _status_failure(reading.refusal, bytes(reading.error_body), lost)
        elif reader.has_ended:
            return  # after [DONE], only the connection lingered or broke
        if failed is not None:
            raise RequestFailedError(failed)

    async def get(self, url: str) -> Page | None:
        """Return what a GET answers, read whole and decoded; None where nothing came, or too much, in a few seconds."""
        page = Page()
        target = Target("GET", url, self.headers)
        try:
            async with asyncio.timeout(_GET_TIMEOUT_SECONDS):
                await self._transport.exchange(target, "", b"", page)
        except _FAILURES:
            return None
        return page if page.is_whole else None

    async def get_json(self, url: str) -> Any:
        """Return what a GET answers; None unless it is JSON with status 2xx within a few seconds."""
        page = await self.get(url)
        try:
            return orjson.loads(page.body) if page is not None and page.is_success else None
        except orjson.JSONDecodeError:
            return None

    async def is_up(self, url: str) -> bool:
        """Say whether a GET is answered at all with something that is no server error."""
        page = await self.get(url)
        return page is not None and page.status < 500


class _Reading:
    """Feed a response's body to its reader, or keep the start of what a status other than 2xx brings."""

    def __init__(self, exchange: RequestTrace, reader: ResponseReader, limit: float) -> None:
        self.refusal: Head | None = None
        self.error_body = bytearray()
        self.deadline: asyncio.Timeout | None = None
        self._exchange = exchange
        self._reader = reader
        self._limit = limit
        self._decode: Callable[[bytes], bytes] | None = None

    def restart(self, now_ns: int) -> None:
        self._exchange.retried = True
        self._exchange.start_ns = now_ns
        self._allow(self._limit)

    def head(self, head: Head, now_ns: int) -> None:
        self._exchange.ack_ns = now_ns
        self._exchange.status = head.status
        if not head.is_success:
            # The status has failed the request already: a body that never ends must not make a time-out of it.
            self.refusal = head
            self._allow(min(self._limit, _GET_TIMEOUT_SECONDS))
        self._decode = decoder(head.headers.get("content-encoding", ""))

    def data(self, data: bytes, now_ns: int, is_last: bool) -> bool:
        if self._decode is not None:
            data = self._decode(data)
        if self.refusal is not None:
            self.error_body += data
            return len(self.error_body) >= _ERROR_BODY_BYTES
        self._reader.feed(data, now_ns)
        if self._reader.has_ended and not self._exchange.end_ns:
            self._exchange.end_ns = now_ns
            if not is_last:
                self._allow(_AFTER_DONE_SECONDS)
        return False

    def end(self, now_ns: int) -> None:
        self._exchange.end_ns = now_ns
        if self.refusal is None:
            self._reader.finish(now_ns)

    def _allow(self, seconds: float) -> None:
        if self.deadline is not None:
            self.deadline.reschedule(asyncio.get_running_loop().time() + seconds)


class Page:
    """Read what a GET answers, as far as it is no larger than allowed: `status`, and `body` as it was before coding."""

    def __init__(self) -> None:
        self.status = 0
        self.body = bytearray()
        self.is_success = False
        self.is_whole = False
        self._decode: Callable[[bytes], bytes] | None = None

    def restart(self, now_ns: int) -> None:
        pass

    def head(self, head: Head, now_ns: int) -> None:
        self.status, self.is_success = head.status, head.is_success
        self._decode = decoder(head.headers.get("content-encoding", ""))

    def data(self, data: bytes, now_ns: int, is_last: bool) -> bool:
        self.body += data if self._decode is None else self._decode(data)
        return len(self.body) > _GET_BYTES

    def end(self, now_ns: int) -> None:
        self.is_whole = True


def _status_failure(head: Head, body: bytes, lost: str) -> RequestError:
    text = f"HTTP {head.status} {head.reason}".strip()
    if location := head.headers.get("location"):
        text += f" to {location} (redirects are not followed)"
    if said := _said(body) or (f"body lost ({lost})" if lost else ""):
        text += f": {said}"
    return RequestError(ErrorKind.HTTP_STATUS, text, head.status)


def _said(body: bytes) -> str:
    try:
        return message_of(orjson.loads(body))
    except orjson.JSONDecodeError:
        return body.decode("utf-8", "replace").strip()
