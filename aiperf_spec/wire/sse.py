"""Decode server-sent events from bytes, as the WHATWG HTML standard defines the format.

Two liberties, both for servers that people run: an event that the end of the body cuts off is still given out, and
llama.cpp's non-standard `error:` field is given out as an event of type "error".
"""

from collections.abc import Callable
from functools import partial
from itertools import repeat
from typing import NamedTuple

MAX_EVENT_BYTES = 64 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class SSEEvent(NamedTuple):
    """One event: its data lines joined with LF, and its type where the server named one."""

    data: bytes
    type: bytes = b""


class EventTooLargeError(ValueError):
    """Refuse an event that grows past `MAX_EVENT_BYTES` without ending."""


class SSEDecoder:
    """Turn bytes, cut anywhere, into events.

    Only LF, CR and CRLF end a line: never U+2028 and its kind, which JSON strings may hold raw. Each byte is looked
    at a fixed number of times, however small the pieces in which a long line arrives.
    """

    def __init__(self) -> None:
        self._tail = bytearray()
        # The data lines of the event so far, joined. A list of them would take many times the bytes that came.
        self._data: bytearray | None = None
        self._type = b""
        self._skip_lf = False
        self._at_start = True

    @property
    def is_between_events(self) -> bool:
        """Whether the next byte begins an event: nothing is left of what came, and no mark of the body's start."""
        return not (self._tail or self._data is not None or self._type or self._skip_lf or self._at_start)

    def decode(self, chunk: bytes) -> list[SSEEvent]:
        """Return the events that this chunk completes; raise `EventTooLargeError` past the limit."""
        if self._at_start:
            chunk = self._strip_bom(chunk)
        if self._skip_lf and chunk:
            self._skip_lf = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        end = chunk.rfind(b"\n\n") + 2
        if end > 1 and self._data is None and not self._type and b"\r" not in chunk:
            events = _plain_events(b"".join((self._tail, chunk[:end])) if self._tail else chunk[:end])
            if events is not None:
                self._tail.clear()
                return events + self._decode_lines(chunk[end:]) if end < len(chunk) else events
        return self._decode_lines(chunk)

    def _decode_lines(self, chunk: bytes) -> list[SSEEvent]:
        end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
        if not end:
            self._keep(chunk)
            return []
        # A CR that ends the chunk ends its line now; an LF that follows in the next chunk is part of it.
        self._skip_lf = end == len(chunk) and chunk.endswith(b"\r")
        block = b"".join((self._tail, chunk[:end])) if self._tail else chunk[:end]
        self._tail.clear()
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events = self._lines(block.split(b"\n")[:-1])
        if end < len(chunk):
            self._keep(chunk[end:])
        return events

    def flush(self) -> list[SSEEvent]:
        """Return what the end of the body leaves: at most one event, whose last line or blank line is missing."""
        lines = [bytes(self._tail), b""]
        self._tail.clear()
        return self._lines(lines)

    def _strip_bom(self, chunk: bytes) -> bytes:
        head = b"".join((self._tail, chunk)) if self._tail else chunk
        self._tail.clear()
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._keep(head)
            return b""
        self._at_start = False
        return head.removeprefix(_BOM)

    def _keep(self, piece: bytes) -> None:
        self._tail += piece
        self._check_size()

    def _check_size(self) -> None:
        if len(self._data or ()) + len(self._tail) > MAX_EVENT_BYTES:
            raise EventTooLargeError(f"an event of more than {MAX_EVENT_BYTES >> 20} MiB")

    def _add(self, value: bytes) -> None:
        if self._data is None:
            self._data = bytearray(value)
        else:
            self._data += b"\n"
            self._data += value
        self._check_size()

    def _lines(self, lines: list[bytes]) -> list[SSEEvent]:
        events = []
        for line in lines:
            if not line:
                if self._data is not None:
                    events.append(SSEEvent(bytes(self._data), self._type))
                    self._data = None
                self._type = b""
                continue
            if line.startswith(b"data:"):
                value = line[6:] if line.startswith(b"data: ") else line[5:]
                self._add(value)
                continue
            self._field(line)
        return events

    def _field(self, line: bytes) -> None:
        # Comments, ids, retry times and unknown fields bear no data; a comment's name is empty.
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            self._type = value
        elif name == b"data":
            self._add(value)
        elif name == b"error":
            self._type = b"error"
            self._add(value)


def _plain_events(block: bytes) -> list[SSEEvent] | None:
    # What servers send nearly always: whole events, each one "data: " line ended by LF LF. None: it is something else.
    if not block.startswith(b"data: "):
        return None
    pieces = block[6:-2].split(b"\n\ndata: ")
    if block.count(b"\n") != 2 * len(pieces):
        return None
    return list(map(_new_event, zip(pieces, repeat(b""), strict=False)))


# A third of what calling the class costs.
_new_event: Callable[[tuple[bytes, bytes]], SSEEvent] = partial(tuple.__new__, SSEEvent)
