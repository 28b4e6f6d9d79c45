"""One HTTP/1.1 connection: bytes in, a response handed to its reader.

The parser is llhttp's, through httptools: it splits a read into the pieces of a body without a line of Python for each.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, cast

import httptools

from aiperf_spec.client.transport.errors import (
    BrokenConnectionError,
    IncompleteResponseError,
    NotHTTPError,
    StaleConnectionError,
    TransportError,
)
from aiperf_spec.client.transport.exchange import Head, Reader

_MAX_HEAD_BYTES = 1024 * 1024
"""More than any server's headers take; the parser itself has no limit."""
_EARLY_READS = 16
"""Reads that are kept for the first request's reader."""


class _ExcessError(Exception):
    """Stop the parser at bytes behind the response: nobody asked for what they begin."""


class Connection(asyncio.Protocol):
    """Carry one request at a time. `is_open` says whether it may carry another; while it is, it is in `among`."""

    def __init__(self, clock: Callable[[], int], among: set[Connection]) -> None:
        self.is_open = False
        self.idle_since = 0.0
        self._clock = clock
        self._among = among
        self._transport: asyncio.Transport | None = None
        self._reader: Reader | None = None
        self._done: asyncio.Future[None] | None = None
        self._is_new = True
        # What came before the first request was written: some servers answer when they accept.
        self._early: list[tuple[bytes, int]] = []
        self._ending: tuple[Exception | None] | None = None
        self._pieces: list[bytes] = []
        self._fields: dict[bytes, bytes] = {}
        self._reset()
        # Names that the parser looks up, once: methods of C where that is all there is to do.
        self.on_body = self._pieces.append
        self.on_header = self._fields.__setitem__
        self._parser: Any = httptools.HttpResponseParser(self)
        # What servers send in practice, and what curl and browsers take.
        self._parser.set_dangerous_leniencies(
            lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True, lenient_headers=True
        )

    def _reset(self) -> None:
        self._head: Head | None = None
        self._reason = b""
        self._is_told = False
        self._is_interim = False
        self._is_complete = False
        self._keep_alive = False
        self._received = 0

    async def exchange(self, request: bytes, reader: Reader) -> None:
        """Send a request's bytes and hand the response to `reader`.

        Raises `StaleConnectionError` where the connection ended before a byte came, `BrokenConnectionError` where it
        ended within the response, `NotHTTPError` for what is no HTTP, and whatever the reader raises.
        """
        assert self._transport is not None
        self._reset()
        self._fields.clear()
        self._reader = reader
        self._done = done = asyncio.get_running_loop().create_future()
        self._is_new = False
        if self._ending is None:
            self._transport.write(request)
        early, self._early = self._early, []
        for data, at_ns in early:
            self._receive(data, at_ns)
        if self._ending is not None:
            self._lose(*self._ending)
        try:
            await done
        except BaseException:
            self.abort()
            raise
        finally:
            # An error holds the frames that it passed, and they hold this: a circle that would stay to the run's end.
            self._done = done = None  # type: ignore[assignment]

    def abort(self) -> None:
        """Close the connection at once, whatever is under way."""
        self.is_open = False
        self._reader = None
        if self._transport is not None:
            self._transport.abort()

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
        if self._reader is not None:
            self._receive(data, now_ns)
        elif self._is_new and len(self._early) < _EARLY_READS:
            self._early.append((data, now_ns))
        else:
            # Nothing was asked: it would be taken for a part of the next response.
            self.abort()

    def _receive(self, data: bytes, now_ns: int) -> None:
        reader = self._reader
        if reader is None:
            return
        fault: Exception | None = None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            fault = NotHTTPError("the server switches to another protocol")
        except httptools.HttpParserError as error:
            # Behind a whole response the fault is not the response's.
            self._keep_alive = False
            fault = None if self._is_complete else NotHTTPError(str(error))
        if not self._pieces:
            # Headers, trailers or the frames of chunks: the parser has no limit of its own.
            self._received += len(data)
            if self._received > _MAX_HEAD_BYTES:
                fault = NotHTTPError(f"headers of more than {_MAX_HEAD_BYTES >> 20} MiB")
        try:
            if self._read(reader, now_ns):
                self._keep_alive = False
                self._finish(None)
            elif fault is not None:
                self._finish(fault)
            elif self._is_complete:
                reader.end(now_ns)
                self._finish(None)
        except Exception as error:  # whatever it is, it is the asker's
            self._finish(error)

    def _read(self, reader: Reader, now_ns: int) -> bool:
        if self._head is not None and not self._is_told:
            self._is_told = True
            reader.head(self._head, now_ns)
        pieces = self._pieces
        if not pieces:
            return False
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        return reader.data(data, now_ns, self._is_complete)

    def connection_lost(self, exc: Exception | None) -> None:
        """End what was under way: well, where the response had no other end than the connection's."""
        self.is_open = False
        self._among.discard(self)
        self._ending = (exc,)
        if not self._is_new:
            self._lose(exc)

    def _lose(self, exc: Exception | None) -> None:
        # It refers back to here, and a run leaves circles of old objects to its end.
        self._parser = None
        reader = self._reader
        if reader is None:
            return
        failure: TransportError
        if self._head is not None:
            if exc is None and _ends_with_connection(self._head):
                try:
                    reader.end(self._clock())
                except Exception as error:  # as in data_received
                    self._finish(error)
                else:
                    self._finish(None)
                return
            failure = _broken(exc, "it ended before the body did")
        elif self._received:
            failure = _broken(exc, "it ended before the headers did")
        else:
            failure = StaleConnectionError(str(exc or "it ended without an answer"))
        failure.__cause__ = exc
        self._finish(failure)

    def _finish(self, failure: Exception | None) -> None:
        self._reader = None
        self._pieces.clear()
        transport = self._transport
        # A server may answer before it has read the request: what is left of it would go before the next one.
        if transport is not None and (failure is not None or not self._keep_alive or transport.get_write_buffer_size()):
            self.is_open = False
            transport.abort()
        if self._done is not None and not self._done.done():
            if failure is None:
                self._done.set_result(None)
            else:
                self._done.set_exception(failure)

    # The parser calls these.

    def on_message_begin(self) -> None:
        """Refuse a second response to one request."""
        if self._is_complete:
            raise _ExcessError

    def on_status(self, reason: bytes) -> None:
        """Take the reason phrase, or a part of it."""
        self._reason += reason

    def on_headers_complete(self) -> None:
        """Take status and headers; those of an interim response, such as 100, are dropped."""
        status = self._parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            self._is_interim = True
            self._reason = b""
            self._fields.clear()
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self._fields.items()}
        self._head = Head(status, self._reason.decode("utf-8", "replace"), headers)
        self._keep_alive = self._parser.should_keep_alive()

    def on_message_complete(self) -> None:
        """Note that the response is whole."""
        if self._is_interim:
            self._is_interim = False
        else:
            self._is_complete = True


def _broken(cause: Exception | None, where: str) -> BrokenConnectionError:
    return IncompleteResponseError(where) if cause is None else BrokenConnectionError(str(cause))


def _ends_with_connection(head: Head) -> bool:
    return "content-length" not in head.headers and "chunked" not in head.headers.get("transfer-encoding", "").lower()
