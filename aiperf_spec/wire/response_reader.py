"""Read a response from its bytes, as they arrive.

Content events of a response differ in their text alone. Once one was parsed whole, the next ones that have the same
bytes around their text are read by comparison, as many as a read brought in a few operations, at a fraction of the
cost. Anything else is decoded and parsed whole: both ways give the same, which the tests hold for whatever is sent.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from aiperf_spec.models.response import ParsedResponse
from aiperf_spec.wire.chunk import Paths, parse_event
from aiperf_spec.wire.sse import MAX_EVENT_BYTES, EventTooLargeError, SSEDecoder, SSEEvent

_BLANKS = 64 * 1024
"""Bytes of white space after which a body is no longer looked at for the start of a stream."""
_PLAIN = bytes(code for code in range(32, 127) if code not in b'"\\')
"""What a JSON string of ASCII holds as it stands."""
_TRIES = 4
"""Events that are looked at one by one before a pattern is found: a role, empty text, then the first text."""
_PROBES = "other text", "another"
_DATA = b"data: "
_END = b"\n\n"
_TEXT_KEYS = tuple(
    f'"{name}":{space}"'.encode()
    for name in ("content", "text", "reasoning_content", "reasoning")
    for space in ("", " ")
)


class ResponseReader:
    """Read one response. Times are of the monotonic clock, in ns, and become the arrivals of what came by then.

    `is_stream` tells whether the body turned out to be one, whatever its content type said; `has_ended` whether the
    end mark came, behind which some servers still send a ping. With `keep_events`, `events` holds every event.
    """

    def __init__(self, payload_paths: Paths, timing_paths: Paths = (), *, keep_events: bool = False) -> None:
        self.is_stream = False
        self.has_ended = False
        self.events = Events() if keep_events else None
        self._paths = payload_paths, timing_paths
        self._responses: list[ParsedResponse] = []
        self._body: list[bytes] = []
        self._size = 0
        self._opens_stream: bool | None = None
        self._decoder = SSEDecoder()
        self._is_between_events = False
        self._pattern: _Pattern | None = None
        # Texts and arrivals of the events that fitted the pattern, since the last one that did not.
        self._texts: list[bytes] = []
        self._arrivals = array("q")

    @property
    def responses(self) -> list[ParsedResponse]:
        """What the events say that came so far; events of one pattern in a row are one response."""
        self._close_run()
        return self._responses

    def feed(self, data: bytes, now_ns: int) -> None:
        """Take the next bytes of the body; raises `EventTooLargeError` for one that never ends."""
        pattern = self._pattern
        if pattern is not None and self._is_between_events and data.startswith(pattern.opening):
            # What a server nearly always sends: one event a read.
            text = data[len(pattern.opening) : -len(pattern.closing)]
            if text and not text.translate(None, _PLAIN) and data.endswith(pattern.closing):
                self._texts.append(text)
                self._arrivals.append(now_ns)
                if self.events is not None:
                    self.events.add(data[len(_DATA) : -len(_END)], b"", now_ns)
                return
        if not self.is_stream:
            self._body.append(data)
            self._size += len(data)
            if self._size > MAX_EVENT_BYTES:
                raise EventTooLargeError(f"a body of more than {MAX_EVENT_BYTES >> 20} MiB")
            # Content types lie (proxies, gateways): what the first byte says does not.
            if self._opens_stream is None:
                self._opens_stream = _opens_stream(b"".join(self._body))
            if not self._opens_stream:
                return
            self.is_stream = True
            data = b"".join(self._body)
            self._body.clear()
        start = self._up_to_pattern(data, now_ns)
        if start == len(data):
            return
        pattern = self._pattern
        if pattern is not None and self._is_between_events and data.startswith(pattern.opening, start):
            self._take_alike(pattern, data[start:] if start else data, now_ns)
        else:
            self._decode(data[start:] if start else data, now_ns)

    def finish(self, now_ns: int) -> None:
        """Take notice that the body has ended."""
        if self.is_stream:
            self._take(self._decoder.flush(), now_ns)
        else:
            self._take([SSEEvent(b"".join(self._body))], now_ns)
            self._body.clear()

    def _up_to_pattern(self, data: bytes, now_ns: int) -> int:
        """Take events one by one until the next can be compared with a pattern; return where that is.

        Gives up after a few, at a place where the decoder can go on.
        """
        start = 0
        for _ in range(_TRIES):
            if (self._pattern is not None and self._is_between_events) or start == len(data):
                break
            end = data.find(_END, start) + len(_END)
            if end < len(_END):
                break
            self._decode(data[start:end], now_ns)
            start = end
        return start

    def _take_alike(self, pattern: _Pattern, data: bytes, now_ns: int) -> None:
        """Take events, the first of which opens as the pattern does: up to the last that is alike in one go."""
        opening, closing = pattern.opening, pattern.closing
        end = data.rfind(closing) + len(closing)
        if end < len(closing):
            self._decode(data, now_ns)
            return
        run, rest = data[:end], data[end:]
        first, last = len(opening), len(_END) - len(closing)
        texts = [line[first:last] for line in run.split(b"\n")[:-1:2]]
        joined = b"".join(texts)
        # What the texts are cut out of is the same around each if it can be put together again around them.
        if all(texts) and not joined.translate(None, _PLAIN) and pattern.run(texts) == run:
            self._texts.append(joined)
            self._arrivals += array("q", (now_ns,)) * len(texts)
            if self.events is not None:
                for text in texts:
                    self.events.add(pattern.data(text), b"", now_ns)
        else:
            self._decode(run, now_ns)
        if rest:
            self._decode(rest, now_ns)

    def _decode(self, data: bytes, now_ns: int) -> None:
        self._take(self._decoder.decode(data), now_ns)
        self._is_between_events = self._decoder.is_between_events

    def _take(self, events: list[SSEEvent], now_ns: int) -> None:
        for data, kind in events:
            if self.events is not None:
                self.events.add(data, kind, now_ns)
            pattern = None if kind else self._pattern
            if pattern is not None:
                text = pattern.text_of(data)
                if text and _is_plain(text):
                    self._texts.append(text)
                    self._arrivals.append(now_ns)
                    continue
            response = parse_event(SSEEvent(data, kind), now_ns, *self._paths)
            if response is None:
                continue
            # One that fits but holds an escape is no reason to look for another pattern.
            learned = None
            if response.is_content and (pattern is None or text is None):
                learned = _learn(data, response, self._paths)
            self._close_run()
            self._responses.append(response)
            if response.is_done:
                self.has_ended = True
            if learned is not None:
                self._pattern = learned

    def _close_run(self) -> None:
        if self._texts:
            assert self._pattern is not None
            self._responses.append(self._pattern.response(b"".join(self._texts), self._arrivals))
            self._texts = []
            self._arrivals = array("q")


class Events:
    """Keep the events of a response: millions of small objects that live for seconds would make collections slow."""

    def __init__(self) -> None:
        self._data: list[bytes] = []
        self._arrivals = array("q")
        self._kinds: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Iterator[tuple[int, SSEEvent]]:
        for position, (arrival_ns, data) in enumerate(zip(self._arrivals, self._data, strict=True)):
            yield arrival_ns, SSEEvent(data, self._kinds.get(position, b""))

    def add(self, data: bytes, kind: bytes, arrival_ns: int) -> None:
        """Keep one more event."""
        if kind:
            self._kinds[len(self._data)] = kind
        self._data.append(data)
        self._arrivals.append(arrival_ns)


class _Pattern:
    """The bytes around the text of a response's content events."""

    __slots__ = ("_after", "_before", "_indices", "_is_reasoning", "closing", "opening")

    def __init__(self, before: bytes, after: bytes, response: ParsedResponse) -> None:
        self._before = before
        self._after = after
        self._is_reasoning = bool(response.reasoning)
        self._indices = response.choice_indices
        self.opening = _DATA + before
        self.closing = after + _END

    def text_of(self, data: bytes) -> bytes | None:
        """Return the text of an event's data; None where it is of another pattern."""
        before, after = self._before, self._after
        if len(data) >= len(before) + len(after) and data.startswith(before) and data.endswith(after):
            return data[len(before) : len(data) - len(after)]
        return None

    def data(self, text: bytes) -> bytes:
        """Return the data of the event that has this text."""
        return self._before + text + self._after

    def run(self, texts: list[bytes]) -> bytes:
        """Return the bytes of events that have these texts."""
        return self.opening + (self.closing + self.opening).join(texts) + self.closing

    def response(self, raw: bytes, arrivals_ns: array[int]) -> ParsedResponse:
        """Return what events say whose texts, joined, are `raw`."""
        text, reasoning = ("", raw.decode()) if self._is_reasoning else (raw.decode(), "")
        return ParsedResponse(arrivals_ns[-1], text, reasoning, True, self._indices, arrivals_ns)


def _learn(data: bytes, response: ParsedResponse, paths: tuple[Paths, Paths]) -> _Pattern | None:
    text = response.text or response.reasoning
    if (
        not text
        # Of several lines, which the patterns' one is not.
        or b"\n" in data
        or (response.text and response.reasoning)
        or response.finish_reasons
        or response.usage is not None
        or response.spec_decode_stats is not None
        or response.tool_calls
        or response.error is not None
    ):
        return None
    for key in _TEXT_KEYS:
        start = data.find(key)
        if start < 0:
            continue
        start += len(key)
        end = data.find(b'"', start)
        before, after = data[:start], data[end:]
        if data[start:end] == text.encode("utf-8", "replace") and _reads_there(before, after, response, paths):
            return _Pattern(before, after, response)
    return None


def _reads_there(before: bytes, after: bytes, response: ParsedResponse, paths: tuple[Paths, Paths]) -> bool:
    # The same text may stand where nobody reads it, or be the sum of two places: other text put there tells.
    probe = _PROBES[(response.text or response.reasoning) == _PROBES[0]]
    found = parse_event(SSEEvent(before + probe.encode() + after), response.arrival_ns, *paths)
    text, reasoning = ("", probe) if response.reasoning else (probe, "")
    return found == ParsedResponse(response.arrival_ns, text, reasoning, True, response.choice_indices)


def _is_plain(raw: bytes) -> bool:
    # A quote or a backslash means that the text ends elsewhere or is escaped; control characters are no JSON.
    if not raw.translate(None, _PLAIN):
        return True
    if b'"' in raw or b"\\" in raw:
        return False
    try:
        return raw.decode().isprintable()
    except UnicodeDecodeError:
        return False


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
