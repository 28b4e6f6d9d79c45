"""Read a response from its bytes, as they arrive.

Content events of a response often differ in their text alone. Once two in a row did, the next ones that have the same
bytes around their text are read by comparison, as many as a read brought in a few operations, at a fraction of the
cost. Anything else is decoded and parsed whole: both ways give the same, which the tests hold for whatever is sent.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from aiperf_spec.models.response import ParsedResponse
from aiperf_spec.wire.chunk import Paths, parse_event
from aiperf_spec.wire.sse import MAX_EVENT_BYTES, EventTooLargeError, SSEDecoder, SSEEvent

MAX_EVENTS = 1 << 22
"""Events of one response that are kept, where they differ in their text alone; of others, which take more, an eighth.

No answer has as many tokens, and a server that never ends must not take all memory.
"""
MAX_KEPT_BYTES = 64 * 1024 * 1024
"""Text of one response that is kept; with `keep_events`, text and events."""
_WEIGHED_EVERY = 8 * 1024 * 1024
"""Bytes of a stream after which what is kept of it is weighed again: logprobs and metadata are large and not kept."""
_BLANKS = 64 * 1024
"""Bytes of white space after which a body is no longer looked at for the start of a stream."""
_PLAIN = bytes(code for code in range(32, 127) if code not in b'"\\')
"""What a JSON string of ASCII holds as it stands."""
_MISSES = 3
"""Patterns that the next content event may miss before none is looked for any more: with logprobs no two are alike."""
_GIVEN_UP = 3
"""Responses in a row that found no pattern, after which only one in `_TRIED_AGAIN` looks for one."""
_TRIED_AGAIN = 16
_STEPS = 8
"""Events of one read that are taken one by one until a pattern is found: a role, empty text, then the first texts."""
_PROBES = "other text", "another"
_DATA = b"data: "
_END = b"\n\n"
_TEXT_KEYS = tuple(
    f'"{name}":{space}"'.encode()
    for name in ("content", "text", "reasoning_content", "reasoning", "thinking")
    for space in ("", " ")
)


class PatternSearch:
    """Whether to look for a pattern in the next response: the responses of one run are much alike.

    Once several in a row gave up, only now and then one looks, so that a run whose prompts differ finds one again.
    """

    def __init__(self) -> None:
        self._fruitless = 0

    def begin(self) -> bool:
        """Return whether a response that begins now is to look for a pattern."""
        if self._fruitless < _GIVEN_UP:
            return True
        self._fruitless += 1
        return self._fruitless % _TRIED_AGAIN == 0

    def end(self, *, found: bool) -> None:
        """Take notice that a response found a pattern, or gave up."""
        self._fruitless = 0 if found else self._fruitless + 1


class ResponseReader:
    """Read one response. Times are of the monotonic clock, in ns, and become the arrivals of what came by then.

    `is_stream` tells whether the body turned out to be one, whatever its content type said; `has_ended` whether the
    end mark came, behind which some servers still send a ping. With `keep_events`, `events` holds every event. Readers
    of one run share a `search`.
    """

    def __init__(
        self,
        payload_paths: Paths,
        timing_paths: Paths = (),
        *,
        keep_events: bool = False,
        search: PatternSearch | None = None,
    ) -> None:
        self.is_stream = False
        self.has_ended = False
        self.events = Events() if keep_events else None
        self._paths = payload_paths, timing_paths
        self._responses: list[ParsedResponse] = []
        self._body: list[bytes] = []
        self._size = 0
        self._weighed = _WEIGHED_EVERY
        self._opens_stream: bool | None = None
        self._decoder = SSEDecoder()
        self._pattern: _Pattern | None = None
        self._candidate: tuple[bytes, bytes] | None = None
        self._search = search or PatternSearch()
        self._misses = 0 if self._search.begin() else _MISSES
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
        self._size += len(data)
        if self._size > self._weighed:
            self._weigh()
        if not self.is_stream:
            self._body.append(data)
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
        if self._pattern is None and self._misses < _MISSES:
            data = self._take_singly(data, now_ns)
        if self._pattern is not None and not self.has_ended:
            if self._decoder.is_between_events:
                data = data[self._take_alike(self._pattern, data, now_ns) :]
            elif (end := data.find(_END) + len(_END)) >= len(_END):
                # The read before ended within an event: what completes it is decoded, what follows may be alike.
                self._take(self._decoder.decode(data[:end]), now_ns)
                data = data[end:]
                if self._decoder.is_between_events and not self.has_ended:
                    data = data[self._take_alike(self._pattern, data, now_ns) :]
        if data:
            self._take(self._decoder.decode(data), now_ns)

    def finish(self, now_ns: int) -> None:
        """Take notice that the body has ended."""
        if self.is_stream:
            self._take(self._decoder.flush(), now_ns)
        else:
            self._take([SSEEvent(b"".join(self._body))], now_ns)
            self._body.clear()

    def _weigh(self) -> None:
        """Refuse a stream of which more is kept than any answer has."""
        self._weighed = self._size + _WEIGHED_EVERY
        kept = sum(map(len, self._texts)) + sum(len(each.text) + len(each.reasoning) for each in self._responses)
        if self.events is not None:
            kept += self.events.size
        if kept > MAX_KEPT_BYTES:
            raise EventTooLargeError(f"a stream of more than {MAX_KEPT_BYTES >> 20} MiB")

    def _take_singly(self, data: bytes, now_ns: int) -> bytes:
        """Take events one by one until there is a pattern, but no more than a few; return what is left."""
        start = 0
        for _ in range(_STEPS):
            end = data.find(_END, start) + len(_END)
            if end < len(_END) or self._pattern is not None or self._misses == _MISSES:
                break
            self._take(self._decoder.decode(data[start:end]), now_ns)
            start = end
        return data[start:] if start else data

    def _take_alike(self, pattern: _Pattern, data: bytes, now_ns: int) -> int:
        """Take the events with which the data begins, up to the last that ends as the pattern does, if all are alike.

        Returns how many bytes they are; 0 where one is of another kind.
        """
        opening, closing = pattern.opening, pattern.closing
        if not data.startswith(opening):
            return 0
        text = data[len(opening) : -len(closing)]
        if text and not text.translate(None, _PLAIN) and data.endswith(closing):
            # What a server nearly always sends: one event a read.
            self._texts.append(text)
            self._arrivals.append(now_ns)
            if self.events is not None:
                self.events.add(data[len(_DATA) : -len(_END)], b"", now_ns)
            return len(data)
        first, last = len(opening), len(_END) - len(closing)
        end = data.rfind(closing) + len(closing)
        run = data[:end]
        texts = [line[first:last] for line in run.split(b"\n")[:-1:2]]
        joined = b"".join(texts)
        # What the texts are cut out of is the same around each if it can be put together again around them.
        if (
            not all(texts)
            or joined.translate(None, _PLAIN)
            or opening + (closing + opening).join(texts) + closing != run
        ):
            return 0
        if len(self._arrivals) > MAX_EVENTS:
            raise EventTooLargeError(f"a stream of more than {MAX_EVENTS:,} events")
        self._texts.append(joined)
        self._arrivals += array("q", (now_ns,)) * len(texts)
        if self.events is not None:
            for text in texts:
                self.events.add(pattern.before + text + pattern.after, b"", now_ns)
        return end

    def _take(self, events: list[SSEEvent], now_ns: int) -> None:
        payload_paths, timing_paths = self._paths
        if len(self._responses) > MAX_EVENTS // 8:
            raise EventTooLargeError(f"a stream of more than {MAX_EVENTS // 8:,} events that are not alike")
        for event in events:
            if self.events is not None:
                self.events.add(*event, now_ns)
            response = parse_event(event, now_ns, payload_paths, timing_paths)
            # Behind the end mark there is no content; and an event that says nothing is nothing to keep.
            if response is None or (self.has_ended if response.is_content else response == ParsedResponse(now_ns)):
                continue
            if self._texts:
                self._close_run()
            self._responses.append(response)
            if response.is_done:
                self.has_ended = True
            elif self._misses < _MISSES and response.is_content:
                self._look_for_pattern(event.data, response)

    def _look_for_pattern(self, data: bytes, response: ParsedResponse) -> None:
        pattern, candidate = self._pattern, self._candidate
        if pattern is not None and data.startswith(pattern.before) and data.endswith(pattern.after):
            return  # one with an escape in its text, which is no reason to look for another pattern
        if candidate is not None:
            if data.startswith(candidate[0]) and data.endswith(candidate[1]):
                self._pattern = _pattern_of(*candidate, response, self._paths) or pattern
            if self._pattern is not pattern:
                self._candidate = None
                self._search.end(found=True)
                return
            self._misses += 1
            if self._misses == _MISSES and pattern is None:
                self._search.end(found=False)
        self._candidate = _around_text(data, response)

    def _close_run(self) -> None:
        if self._texts:
            assert self._pattern is not None
            raw, arrivals = b"".join(self._texts).decode(), self._arrivals
            text, reasoning = ("", raw) if self._pattern.is_reasoning else (raw, "")
            indices = self._pattern.choice_indices
            self._responses.append(ParsedResponse(arrivals[-1], text, reasoning, True, indices, arrivals))
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

    @property
    def size(self) -> int:
        """How many bytes they are."""
        return sum(map(len, self._data))

    def __iter__(self) -> Iterator[tuple[int, SSEEvent]]:
        for position, (arrival_ns, data) in enumerate(zip(self._arrivals, self._data, strict=True)):
            yield arrival_ns, SSEEvent(data, self._kinds.get(position, b""))

    def add(self, data: bytes, kind: bytes, arrival_ns: int) -> None:
        """Keep one more event."""
        if kind:
            self._kinds[len(self._data)] = kind
        self._data.append(data)
        self._arrivals.append(arrival_ns)


class _Pattern(NamedTuple):
    """The bytes around the text of a response's content events."""

    before: bytes
    after: bytes
    is_reasoning: bool
    choice_indices: tuple[int, ...]
    opening: bytes
    closing: bytes


def _around_text(data: bytes, response: ParsedResponse) -> tuple[bytes, bytes] | None:
    text = response.text or response.reasoning
    # Of several lines is what the patterns' one is not.
    if text and b"\n" not in data:
        raw = text.encode("utf-8", "replace")
        for key in _TEXT_KEYS:
            start = data.find(key) + len(key)
            end = start + len(raw)
            if start >= len(key) and data.startswith(raw, start) and data.startswith(b'"', end):
                return data[:start], data[end:]
    return None


def _pattern_of(before: bytes, after: bytes, response: ParsedResponse, paths: tuple[Paths, Paths]) -> _Pattern | None:
    # The same text may stand where nobody reads it, be the sum of two places, or stand beside more than text: what
    # becomes of another text that is put there tells.
    probe = _PROBES[(response.text or response.reasoning) == _PROBES[0]]
    found = parse_event(SSEEvent(before + probe.encode() + after), 0, *paths)
    text, reasoning = ("", probe) if response.reasoning else (probe, "")
    if found != ParsedResponse(0, text, reasoning, True, response.choice_indices):
        return None
    return _Pattern(before, after, bool(reasoning), response.choice_indices, _DATA + before, after + _END)


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
