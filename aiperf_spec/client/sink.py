"""What takes a response as it arrives: stamps and bytes, from the transport to the reader."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import httpx

from aiperf_spec.wire.response_reader import ResponseReader

_AFTER_DONE_SECONDS = 1.0
"""How long a stream may stay open after [DONE] before the connection is given up; nothing is measured by then."""
_REFUSAL_SECONDS = 5.0
"""How long the body of a status other than 2xx is waited for."""


class Sink(Protocol):
    """Take what a transport tells of a request while it happens. Times are of the transport's clock, in ns.

    A request hands one to the transport as `extensions["sink"]`. What a method raises ends the request, closes the
    connection and is raised to whoever sent the request.
    """

    def started(self, now_ns: int) -> None:
        """Note that the transport has the request: once more where a dead connection made it send it again."""

    def received(self, data: bytes, now_ns: int) -> None:
        """Take what one read brought of the body; called for bodies with status 2xx and no content encoding alone."""

    def ended(self, now_ns: int) -> None:
        """Note that such a body is whole."""


@dataclass(slots=True)
class RequestTrace:
    """What is known of one request, filled as it goes. Times are of the monotonic clock, in ns."""

    start_ns: int = 0
    """When the transport was handed the request: before a connection was opened."""
    connect_ns: int | None = None
    """What opening a connection took; None where one was kept alive, or the transport does not say."""
    ack_ns: int | None = None
    """When the response's headers had arrived."""
    end_ns: int = 0
    status: int | None = None
    retried: bool = False


class ReaderSink:
    """The sink of one request: feed its response to a reader, or keep the start of what another status brings."""

    def __init__(self, trace: RequestTrace, reader: ResponseReader, limit: float, clock: Callable[[], int]) -> None:
        self.refusal = ""
        """Status line of a response that is no success."""
        self.error_body = bytearray()
        self.deadline: asyncio.Timeout | None = None
        self._trace = trace
        self._reader = reader
        self._limit = limit
        self._clock = clock
        self._is_started = self._is_whole = False

    def started(self, now_ns: int) -> None:
        self._trace.start_ns = now_ns
        if self._is_started:
            self._trace.retried = True
            self._allow(self._limit)
        self._is_started = True

    def headers_received(self, response: httpx.Response) -> None:
        """Take stamps and status; one other than 2xx fails the request, whatever becomes of its body."""
        said = response.extensions
        self._trace.ack_ns = said.get("headers_ns") or self._clock()
        self._trace.connect_ns = said.get("connect_ns")
        self._trace.status = response.status_code
        if response.is_success:
            return
        # A body that never ends must not make a time-out of it.
        self._allow(min(self._limit, _REFUSAL_SECONDS))
        self.refusal = f"HTTP {response.status_code} {response.reason_phrase}".strip()
        if location := response.headers.get("location"):
            self.refusal += f" to {location} (redirects are not followed)"

    def received(self, data: bytes, now_ns: int) -> None:
        self._reader.feed(data, now_ns)
        if self._reader.has_ended and not self._trace.end_ns:
            self._trace.end_ns = now_ns
            self._allow(_AFTER_DONE_SECONDS)

    def ended(self, now_ns: int) -> None:
        if not self.refusal and not self._is_whole:
            self._is_whole = True
            self._trace.end_ns = now_ns
            self._reader.finish(now_ns)

    def _allow(self, seconds: float) -> None:
        if self.deadline is not None:
            self.deadline.reschedule(asyncio.get_running_loop().time() + seconds)
