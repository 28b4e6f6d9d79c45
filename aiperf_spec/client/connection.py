"""One HTTP/1.1 connection: a request out, its response in, each read under the time at which it was read.

The parser is llhttp's, through httptools: it splits a read into the pieces of a body without a line of Python for each.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, cast

import httptools
import httpx

from aiperf_spec.client.framing import MAX_LINE, LenientParser, StopParserError
from aiperf_spec.client.sink import Sink

_MAX_HEAD_BYTES = 1024 * 1024
"""More than any server's headers take; the parser itself has no limit."""
_EARLY_READS = 16
"""Reads that are kept for the first request."""
_BODILESS = (204, 205)
# httpcore's own words, so that what happened is told in the same way whichever transport was in use.
NO_RESPONSE = "Server disconnected without sending a response."
CUT_OFF = "peer closed connection without sending complete message body"


class Connection(asyncio.Protocol):
    """Carry one request at a time. `is_open` says whether it may carry another; while it is, it is in `among`.

    Once `send` has returned, `status`, `reason`, `headers` and `headers_ns` are of the response, and `feeds_sink` says
    whether the sink gets its body.
    """

    def __init__(self, clock: Callable[[], int], among: set[Connection]) -> None:
        self.is_open = False
        self.idle_since = 0.0
        self._clock = clock
        self._among = among
        self._transport: asyncio.Transport | None = None
        self._timeout: dict[str, float | None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._is_new = True
        # What came before the first request was written: some servers answer when they accept.
        self._early: list[tuple[bytes, int]] = []
        self._ending: tuple[Exception | None] | None = None
        self._pieces: list[bytes] = []
        # The parser looks names up once, when it is made: a method of C where that is all there is to do.
        self.on_body = self._pieces.append
        self._parser: Any = LenientParser(self)
        self._reset(None)

    def _reset(self, sink: Sink | None) -> None:
        self.status = 0
        self.reason = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.headers_ns = 0
        self.is_answered = False
        self._sink = sink
        self.feeds_sink = False
        self._error: Exception | None = None
        self._is_busy = False
        self._is_interim = False
        self._is_complete = False
        self._keep_alive = False
        self._last_ns = 0
        self._framing_bytes = 0
        # The latest read that held a piece of the body, and what came since: the beginning of a line may be in it.
        self._before = b""
        self._feed: Any = None

    async def send(self, request: bytes, sink: Sink | None, timeout: dict[str, float | None]) -> None:
        """Send a request's bytes and wait for the response's headers.

        `timeout` are httpx's, in seconds: "write" is how long bytes may stay unsent, "read" how long nothing may come.
        Raises httpx's errors, and what the sink raises; the connection is closed then.
        """
        assert self._transport is not None
        self._reset(sink)
        self._timeout = timeout
        self._is_busy, self._is_new = True, False
        if self._parser is not None:
            self._parser.begin()
            self._feed = self._parser.feed
        self._last_ns = self._clock()
        if self._ending is None:
            self._transport.write(request)
        early, self._early = self._early, []
        for data, at_ns in early:
            self._receive(data, at_ns)
        if self._ending is not None:
            self._lose(*self._ending)
        if self._is_busy:
            self._check_silence()
        while not self.status:
            await self._wait()

    async def read(self) -> bytes | None:
        """Return the next piece of the body, or None at its end; a body that a sink takes has no pieces."""
        while not self._pieces or self.feeds_sink:
            if self._is_complete and self._error is None:
                return None
            await self._wait()
        return self._pieces.pop(0)

    async def _wait(self) -> None:
        if self._error is None:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            except BaseException:
                self.abort()
                raise
            finally:
                self._waiter = None
            return
        error, self._error = self._error, httpx.ReadError("the connection is closed")
        try:
            raise error
        finally:
            # An error holds the frames that it passed, and this one would hold the error: a circle.
            del error

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def release(self) -> bool:
        """Say whether the connection may carry another request; close it where its response is not whole."""
        if not self._is_complete:
            self.abort()
        self._sink = None
        self._pieces.clear()
        return self.is_open

    def abort(self) -> None:
        """Close the connection at once, whatever is under way."""
        self._finish(httpx.ReadError("the connection was closed"))

    def _check_silence(self) -> None:
        # One timer for a request, which looks when the last bytes came, rather than one for each read.
        assert self._transport is not None
        unsent = self._transport.get_write_buffer_size() > 0
        limit = (unsent and self._timeout.get("write")) or self._timeout.get("read")
        if not limit:
            return
        left = limit - (self._clock() - self._last_ns) / 1e9
        if left > 0:
            self._timer = asyncio.get_running_loop().call_later(left, self._check_silence)
        elif unsent:
            self._finish(httpx.WriteTimeout(f"it took nothing more of the request for {limit:g} s"))
        else:
            self._finish(httpx.ReadTimeout(f"nothing came for {limit:g} s"))

    # asyncio calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self.is_open = True
        self._among.add(self)
        # What lies between may forget a connection on which nothing is said for minutes.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        """Hand on what a read brought, under one stamp: the time at which it was read."""
        now_ns = self._clock()
        if self._is_busy:
            self._receive(data, now_ns)
        elif self._is_new and len(self._early) < _EARLY_READS:
            self._early.append((data, now_ns))
        else:
            # Nothing was asked: it would be taken for a part of the next response.
            self.abort()

    def _receive(self, data: bytes, now_ns: int) -> None:
        if not self._is_busy:
            return
        self._last_ns = now_ns
        self.is_answered = True
        fault: Exception | None = None
        known = 0 if self.feeds_sink else len(self._pieces)
        try:
            self._feed(data)
        except httptools.HttpParserUpgrade:
            fault = httpx.RemoteProtocolError("the server switches to another protocol")
        except httptools.HttpParserError as error:
            self._keep_alive = False
            fault = self._read_on(str(error), data, self._pieces[known:])
        if len(self._pieces) > known:
            self._framing_bytes, self._before = 0, data
            if self.feeds_sink:
                body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
                self._pieces.clear()
                try:
                    self._sink.received(body, now_ns)  # type: ignore[union-attr]  # there is one where it takes bodies
                except Exception as error:  # whatever it is, it is the asker's
                    fault = error
            elif self.status in _BODILESS:
                self._pieces.clear()
        else:
            # Headers, trailers or the line before a chunk: the parser has no limit of its own.
            self._framing_bytes += len(data)
            self._before = (self._before + data)[-MAX_LINE:]
            if self._framing_bytes > _MAX_HEAD_BYTES:
                fault = fault or httpx.RemoteProtocolError(f"headers of more than {_MAX_HEAD_BYTES >> 20} MiB")
        if self.status and not self.headers_ns:
            self.headers_ns = now_ns
            self._wake()
        if fault is not None:
            self._finish(fault)
        elif self._is_complete:
            self._end(now_ns)
        elif not self.feeds_sink:
            self._wake()

    def _read_on(self, refused: str, data: bytes, pieces: list[bytes]) -> Exception | None:
        """Mend the line of a body that the parser refused, and take the rest; return the fault where that cannot be."""
        # Behind a whole response the fault is not the response's.
        if self._is_complete:
            return None
        try:
            self._feed = self._parser.read_on(refused, self._before, data, pieces)
        except httptools.HttpParserError as error:
            return None if self._is_complete else httpx.RemoteProtocolError(str(error))
        return None

    def _end(self, now_ns: int) -> None:
        try:
            if self.feeds_sink and self._sink is not None:
                self._sink.ended(now_ns)
        except Exception as error:  # as above
            self._finish(error)
        else:
            self._finish(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """End what was under way: well, where the response had no other end than the connection's."""
        self.is_open = False
        self._among.discard(self)
        self._ending = (exc,)
        if not self._is_new:
            self._lose(exc)

    def _lose(self, exc: Exception | None) -> None:
        # It refers back to here, and a run leaves circles of old objects to its end.
        self._parser = self._feed = None
        if not self._is_busy:
            return
        if exc is not None:
            failure: Exception = httpx.ReadError(str(exc))
            failure.__cause__ = exc
            self._finish(failure)
        elif not self.is_answered:
            self._finish(httpx.RemoteProtocolError(NO_RESPONSE))
        elif self.status and _ends_with_connection(self.headers):
            self._is_complete = True
            self._end(self._clock())
        else:
            where = "it ended before the body did" if self.status else "it ended before the headers did"
            self._finish(httpx.RemoteProtocolError(f"{CUT_OFF} ({where})"))

    def _finish(self, failure: Exception | None) -> None:
        self._error = failure
        self._is_busy = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        transport = self._transport
        # A server may answer before it has read the request: what is left of it would go before the next one.
        if transport is not None and (failure is not None or not self._keep_alive or transport.get_write_buffer_size()):
            self.is_open = False
            transport.abort()
        self._wake()

    # The parser calls these.

    def on_message_begin(self) -> None:
        """Refuse a second response to one request."""
        if self._is_complete:
            raise StopParserError

    def restart(self) -> bool:
        """Forget what was said of the response, unless it is whole or its body has begun; say whether that could be."""
        if self._pieces or self._is_complete:
            return False
        self.status, self.reason, self.headers, self._is_interim = 0, b"", [], False
        return True

    def feed_plainly(self, feed: Callable[[bytes], None]) -> None:
        """Give what comes next to `feed`, once the body has begun."""
        if self._pieces:
            self._feed = feed

    def on_status(self, reason: bytes) -> None:
        """Take the reason phrase, or a part of it."""
        self.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer, which nobody asked for."""
        if not self.status:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Take status and headers; those of an interim response, such as 100, are dropped."""
        status, keep_alive = self._parser.said()
        if 100 <= status < 200 and status != 101:
            self._is_interim = True
            self.reason = b""
            self.headers.clear()
            return
        fields = {name.strip().lower(): value.strip().lower() for name, value in self.headers}
        length, coding = fields.get(b"content-length"), fields.get(b"transfer-encoding")
        if length is not None and coding is not None and b"chunked" not in coding:
            self._parser.refuse()
        self.status = status
        # Who says two lengths may mean either: what follows is not to be taken for the next response.
        self._keep_alive = keep_alive and (length is None or coding is None)
        if status in _BODILESS:
            # Whatever the headers say of one. The parser knows it of 204 without a length, and would wait for more.
            self._is_complete = True
            self._keep_alive &= coding is None and (length == b"0" or (length is None and status == 204))
            return
        is_encoded = fields.get(b"content-encoding", b"identity") not in (b"identity", b"")
        self.feeds_sink = self._sink is not None and 200 <= status < 300 and not is_encoded

    def on_message_complete(self) -> None:
        """Note that the response is whole."""
        if self._is_interim:
            self._is_interim = False
        else:
            self._is_complete = True


def _ends_with_connection(headers: list[tuple[bytes, bytes]]) -> bool:
    fields = {name.lower(): value.lower() for name, value in headers}
    return b"content-length" not in fields and b"chunked" not in fields.get(b"transfer-encoding", b"")
