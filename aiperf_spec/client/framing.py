"""Parse HTTP/1.1 responses, those too that llhttp refuses and that curl and browsers read.

Until its body begins, what came of a response is kept. What the parser refuses of it is mended where that is possible,
and given to a new parser. So is a body, from a line that begins a chunk. RFC 9112 lets a recipient be that lenient.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Protocol

import httptools

_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_INTERIM = re.compile(rb"HTTP/1\.\d 1(?!01)\d\d\b")
_CHUNK_LINE = re.compile(rb"(?:^|(?<=\n))[0-9A-Fa-f]+[ \t]*;[^\r\n]*")
_BODY_FOLLOWS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
MAX_LINE = 4096
"""Bytes of a line that begins a chunk, where it is mended within a body."""


class StopParserError(Exception):
    """Stop the parser from within a callback, at what it would misread."""


class Callbacks(Protocol):
    """What a connection has: callbacks of httptools, of which those of a body are named, and more."""

    on_body: Callable[[bytes], None]

    def on_message_begin(self) -> None:
        """Refuse a second response to one request."""

    def on_message_complete(self) -> None:
        """Note that the response is whole."""

    def restart(self) -> bool:
        """Forget what was said of the response, unless it is whole or its body has begun; say whether that could be."""

    def feed_plainly(self, feed: Callable[[bytes], None]) -> None:
        """Give what comes next to `feed`, once the body has begun."""


class LenientParser:
    """Parse the responses of a connection, whose methods are the parser's callbacks.

    `feed` takes the bytes until the body has begun, and then tells the connection through `feed_plainly` what takes
    them from there. Both raise `httptools.HttpParserError`.
    """

    def __init__(self, connection: Callbacks) -> None:
        self._connection = connection
        self._parser = _new_parser(connection)
        self.begin()

    def begin(self) -> None:
        """Take what comes next for another response."""
        self._start = b""
        self._refused: str | None = None
        self._is_mended = False
        self._lines: _ChunkLines | None = None

    def said(self) -> tuple[int, bool]:
        """Return the status, and whether the connection is to be kept; once the headers are whole."""
        return self._parser.get_status_code(), self._parser.should_keep_alive()

    def refuse(self) -> None:
        """Refuse headers that the parser takes and would misread, unless they are mended already."""
        if not self._is_mended:
            raise StopParserError

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if self._lines is not None:
            self._parser.feed_data(self._lines.decode(data))
            return
        self._start += data
        if self._refused is None:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade:
                raise
            except httptools.HttpParserError as error:
                if self._is_mended or not self._connection.restart():
                    raise
                self._refused = str(error)
        if self._refused is not None:
            self._mend(self._refused)
        elif self._lines is None:
            self._connection.feed_plainly(self._parser.feed_data)

    def read_on(self, refused: str, before: bytes, data: bytes, pieces: list[bytes]) -> Callable[[bytes], None]:
        """Feed a body's rest, from the line that was refused; return what takes the bytes from there.

        The parser was given `data` and handed on `pieces` of it, and was given `before` it. Raises
        `httptools.HttpParserError`, also where no such line is to be found.
        """
        rest = _from_chunk_line(before, data, pieces) if "chunk extensions" in refused else None
        if rest is None:
            raise httptools.HttpParserError(refused)
        whole = self._connection
        callbacks = {"on_message_begin": whole.on_message_begin, "on_message_complete": whole.on_message_complete}
        parser = _new_parser(SimpleNamespace(on_body=whole.on_body, **callbacks))
        parser.feed_data(_BODY_FOLLOWS)
        lines = _ChunkLines()

        def feed(data: bytes) -> None:
            parser.feed_data(lines.decode(data))

        feed(rest)
        return feed

    def _mend(self, refused: str) -> None:
        found = _mended(self._start)
        if found is None:
            if "Content-Length" in refused:
                return  # until the headers are whole
            raise httptools.HttpParserError(refused)
        head, rest, is_chunked = found
        self._refused, self._is_mended, self._parser = None, True, _new_parser(self._connection)
        self._lines = _ChunkLines() if is_chunked else None
        self._parser.feed_data(head + (rest if self._lines is None else self._lines.decode(rest)))


def _new_parser(callbacks: object) -> Any:
    parser: Any = httptools.HttpResponseParser(callbacks)
    # What servers send in practice, and what curl and browsers take.
    parser.set_dangerous_leniencies(
        lenient_optional_cr_before_lf=True,
        lenient_spaces_after_chunk_size=True,
        lenient_headers=True,
        lenient_chunked_length=True,
    )
    return parser


def _from_chunk_line(before: bytes, data: bytes, pieces: list[bytes]) -> bytes | None:
    """Return what came from the line on at which the parser stopped in `data`; None where it cannot be told."""
    came, at = before + data, len(before)
    for piece in pieces:
        at = came.find(piece, at) + len(piece)
    for line in _CHUNK_LINE.finditer(came):
        if pieces:
            # It follows the piece that came last, and its line end.
            if line.start() > at and came[: line.start()].endswith((pieces[-1] + b"\r\n", pieces[-1] + b"\n")):
                return came[line.start() :]
        elif line.end() > at or (line.end() == at and line[0].endswith((b";", b"="))):
            return came[line.start() :]
    return None


def _mended(start: bytes) -> tuple[bytes, bytes, bool] | None:
    """Return the headers with one length, what follows them, and whether it is chunked; None while they are not whole.

    `start` is all that came of a response. A length that stands there several times is said once (RFC 9112, 6.3); the
    transfer encoding "identity" of RFC 2616 is none. Lengths that differ stay.
    """
    at = 0
    while (blank := _BLANK_LINE.search(start, at)) is not None:
        if _INTERIM.match(start, at) is None:
            break
        at = blank.end()
    else:
        return None
    lines: list[bytes] = []
    lengths: dict[bytes, None] = {}
    is_chunked = False
    for line in start[at : blank.start()].split(b"\n"):
        name, _, value = line.lower().partition(b":")
        if name.strip() == b"content-length":
            lengths |= dict.fromkeys(each.strip() for each in value.split(b",") if each.strip())
        elif name.strip() != b"transfer-encoding" or value.strip() not in (b"identity", b""):
            is_chunked = is_chunked or (name.strip() == b"transfer-encoding" and b"chunked" in value)
            lines.append(line.rstrip(b"\r"))
    said = [b"Content-Length: " + length for length in lengths]
    # Beside "chunked" one is as good as another: it is passed over, and the connection not kept.
    lines += said[:1] if is_chunked else said
    return start[:at] + b"\r\n".join(lines) + b"\r\n\r\n", start[blank.end() :], is_chunked


class _ChunkLines:
    """Leave nothing but the size in the lines that begin chunks: the parser takes no blanks around extensions."""

    def __init__(self) -> None:
        self._line = b""
        self._left = 0
        self._is_behind_data = False
        self._is_over = False

    def decode(self, data: bytes) -> bytes:
        """Return the next bytes of a body, cleaned as far as its lines are whole."""
        pieces = []
        while data and not self._is_over:
            if self._left:
                pieces.append(data[: self._left])
                data = data[self._left :]
                self._left -= len(pieces[-1])
                continue
            line, newline, rest = data.partition(b"\n")
            if not newline:
                self._line += data
                return b"".join(pieces)
            data = rest
            line, self._line = self._line + line, b""
            if self._is_behind_data:
                self._is_behind_data = False
                pieces.append(line + b"\n")
                continue
            size = line.partition(b";")[0].strip()
            pieces.append(size + b"\r\n")
            try:
                self._left = max(int(size, 16), 0)
            except ValueError:
                self._left = 0  # the parser says what is wrong with it
            self._is_over = not self._left
            self._is_behind_data = True
        return b"".join([*pieces, data])
