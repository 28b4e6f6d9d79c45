from __future__ import annotations

import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf_spec.wire import sse
from aiperf_spec.wire.sse import MAX_EVENT_BYTES, EventTooLargeError, SSEDecoder, SSEEvent

WIRE = Path(__file__).parent / "wire"
STREAMS = sorted(WIRE.glob("*/*.sse"))
MiB = 1 << 20


def decode(*chunks: bytes) -> list[SSEEvent]:
    """Return every event of a body that arrives in these pieces, flush included."""
    decoder = SSEDecoder()
    events = [event for chunk in chunks for event in decoder.decode(chunk)]
    return events + decoder.flush()


def data(*chunks: bytes) -> list[bytes]:
    return [event.data for event in decode(*chunks)]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_ending_ends_lines_and_events(end: bytes) -> None:
    body = end.join([b"data: one", b"", b"data: two", b"data: three", b"", b""])
    expected = [b"one", b"two\nthree"]
    assert data(body) == expected
    assert data(*(body[i : i + 1] for i in range(len(body)))) == expected


def test_mixed_line_endings_in_one_event() -> None:
    assert data(b"data: a\rdata: b\r\ndata: c\n\r\n") == [b"a\nb\nc"]


def test_a_crlf_cut_between_reads_is_one_line_end() -> None:
    assert data(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\ndata: c\r\n\r\n") == [b"a\nb", b"c"]


def test_a_crlf_cut_by_an_empty_read_is_one_line_end() -> None:
    assert data(b"data: a\r", b"", b"\ndata: b\r\n\r\n") == [b"a\nb"]


def test_an_event_is_given_out_as_soon_as_its_blank_line_came() -> None:
    decoder = SSEDecoder()
    assert decoder.decode(b"data: a\r\n") == []
    assert decoder.decode(b"\r") == [SSEEvent(b"a")]
    assert decoder.decode(b"\ndata: b\n\nda") == [SSEEvent(b"b")]
    assert decoder.decode(b"ta: c\n\n") == [SSEEvent(b"c")]
    assert decoder.flush() == []


@pytest.mark.parametrize(
    "chunks",
    [
        (b"\xef\xbb\xbfdata: a\n\n",),
        (b"\xef", b"\xbb\xbfdata: a\n\n"),
        (b"\xef\xbb", b"\xbfdata: a\n\n"),
        (b"", b"\xef", b"", b"\xbb", b"\xbf", b"data: a\n\n"),
    ],
)
def test_a_leading_bom_is_skipped_however_it_is_cut(chunks: tuple[bytes, ...]) -> None:
    assert data(*chunks) == [b"a"]


def test_only_one_bom_is_skipped_and_only_at_the_start() -> None:
    assert data(b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n") == [b"b"]
    assert data(b"data: a\n\n\xef\xbb\xbfdata: b\n\n") == [b"a"]
    assert data(b"data: \xef\xbb\xbfa\n\n") == [b"\xef\xbb\xbfa"]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\v", "\f", "\x1c", "\x1d", "\x1e", "\0"])
def test_only_lf_and_cr_end_a_line(separator: str) -> None:
    text = f'{{"content": "one{separator}data: two"}}'.encode()
    assert data(b"data: " + text + b"\n\n") == [text]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"data:x", b"x"),
        (b"data: x", b"x"),
        (b"data:  x", b" x"),
        (b"data:\tx", b"\tx"),
        (b"data: x ", b"x "),
        (b"data:x:y", b"x:y"),
        (b"data: ", b""),
        (b"data:", b""),
        (b"data", b""),
    ],
)
def test_one_space_after_the_colon_is_no_part_of_the_value(line: bytes, expected: bytes) -> None:
    assert data(line + b"\n\n") == [expected]


def test_several_data_lines_join_with_lf() -> None:
    assert data(b"data: a\ndata\ndata:\ndata: b\n\n") == [b"a\n\n\nb"]


@pytest.mark.parametrize("line", [b": ping", b":", b":data: x", b"id: 7", b"id", b"retry: 10", b"DATA: x", b" data: x"])
def test_lines_without_data_bring_no_event(line: bytes) -> None:
    assert decode(line + b"\n\n") == []
    assert decode(b"data: a\n" + line + b"\ndata: b\n\n") == [SSEEvent(b"a\nb")]


def test_blank_lines_alone_are_nothing() -> None:
    assert decode(b"\n\n\r\n\r\r\n\n") == []


def test_an_event_type_belongs_to_one_event() -> None:
    assert decode(b"event: error\ndata: a\n\ndata: b\n\n") == [SSEEvent(b"a", b"error"), SSEEvent(b"b")]


def test_an_event_type_without_data_is_forgotten() -> None:
    assert decode(b"event: error\n\ndata: b\n\n") == [SSEEvent(b"b")]


def test_the_last_event_type_counts() -> None:
    assert decode(b"event:a\nevent: error\ndata: x\n\n") == [SSEEvent(b"x", b"error")]


def test_an_error_field_is_an_event_of_type_error() -> None:
    assert decode(b'error: {"code":500}\n\ndata: b\n\n') == [SSEEvent(b'{"code":500}', b"error"), SSEEvent(b"b")]


@pytest.mark.parametrize("tail", [b"data: b", b"data: b\n", b"data: b\r", b"data: b\r\n"])
def test_flush_gives_out_the_event_that_the_end_cut_off(tail: bytes) -> None:
    assert decode(b"data: a\n\n" + tail) == [SSEEvent(b"a"), SSEEvent(b"b")]


def test_flush_of_nothing_is_nothing() -> None:
    assert SSEDecoder().flush() == []
    assert decode(b"\xef\xbb") == []
    assert decode(b": comment") == []


def test_an_event_up_to_the_limit_is_taken() -> None:
    value = b"x" * (MAX_EVENT_BYTES - 64)
    assert data(b"data: " + value, b"\n\n") == [value]


@pytest.mark.parametrize(
    "piece",
    [
        pytest.param(b"x" * MiB, id="one line without an end"),
        pytest.param(b"data: " + b"x" * MiB + b"\n", id="data lines"),
        pytest.param(b"data:\n" * (MiB // 6), id="empty data lines"),
        pytest.param(b"data: " + b"x" * MiB + b"\n: comment\nid: 3\n", id="data lines among others"),
    ],
)
def test_an_event_past_the_limit_is_refused(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    # What every kind of event has in common needs no 64 MiB of each.
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 4 * MiB)
    with pytest.raises(EventTooLargeError, match="4 MiB"):
        decode(*[piece] * 32)


def test_the_limit_is_64_mib() -> None:
    decoder = SSEDecoder()
    chunk = b"x" * (8 * MiB)
    for _ in range(8):
        decoder.decode(chunk)
    with pytest.raises(EventTooLargeError, match="64 MiB"):
        decoder.decode(b"x")


def test_many_small_events_are_no_large_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1000)
    decoder = SSEDecoder()
    for _ in range(500):
        assert decoder.decode(b"data: " + b"x" * 90) == []
        assert len(decoder.decode(b"\n\n")) == 1


class CountedBytes(bytes):
    """Count the bytes that the decoder looks at: those of every search and every join."""

    looked_at = 0

    def rfind(self, *args: Any) -> int:
        CountedBytes.looked_at += len(self)
        return super().rfind(*args)

    def __getitem__(self, key: Any) -> Any:
        part: Any = super().__getitem__(key)
        if isinstance(part, bytes):
            CountedBytes.looked_at += len(part)
            return CountedBytes(part)
        return part


def test_a_long_line_in_small_pieces_costs_no_more_than_its_length() -> None:
    size, piece = 4 * MiB, 1024
    line = b"data: " + b"x" * size + b"\n\n"
    CountedBytes.looked_at = 0
    decoder = SSEDecoder()
    events = []
    for start in range(0, len(line), piece):
        events += decoder.decode(CountedBytes(line[start : start + piece]))
    assert events == [SSEEvent(b"x" * size)]
    assert CountedBytes.looked_at < 8 * len(line)


@pytest.mark.parametrize("line", [b"data:\n", b"data: x\n", b"data: xy\n"])
def test_an_event_of_many_lines_takes_no_more_memory_than_its_bytes(line: bytes) -> None:
    decoder = SSEDecoder()
    lines = 100_000
    tracemalloc.start()
    for _ in range(lines // 1000):
        assert decoder.decode(line * 1000) == []
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 2 * lines * len(line)
    [event] = decoder.decode(b"\n")
    assert event.data == b"\n".join([line[5:].strip()] * lines)


LINE = st.sampled_from(
    [b"data: {}", b"data:x", b"data", b"data: ", b"event: error", b": c", b"id: 1", b"error: e", b"", b"\xef\xbb\xbf"]
) | st.binary(max_size=8)
BODY = st.builds(
    lambda bom, lines: bom + b"".join(line + end for line, end in lines),
    st.sampled_from([b"", b"\xef\xbb\xbf", b"\xef"]),
    st.lists(st.tuples(LINE, st.sampled_from([b"\n", b"\r", b"\r\n", b""])), max_size=12),
)


@given(body=BODY, cuts=st.lists(st.integers(0, 200), max_size=12))
def test_any_cut_gives_the_same_events(body: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    pieces = [body[a:b] for a, b in pairwise(edges)]
    assert decode(*pieces) == decode(body)
    assert decode(*(body[i : i + 1] for i in range(len(body)))) == decode(body)


@given(body=BODY)
def test_line_endings_are_worth_the_same(body: bytes) -> None:
    unified = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert decode(body) == decode(unified)
    assert decode(unified.replace(b"\n", b"\r\n")) == decode(unified)


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: f"{path.parent.name}-{path.stem}")
@settings(max_examples=5)
@given(draw=st.data())
def test_captures_cut_anywhere_give_their_data_lines(path: Path, draw: st.DataObject) -> None:
    body = path.read_bytes()
    expected = [line[6:] for line in body.split(b"\n") if line.startswith(b"data: ")]
    step = draw.draw(st.integers(1, 3000))
    offset = draw.draw(st.integers(0, step))
    pieces = [body[:offset], *(body[i : i + step] for i in range(offset, len(body), step))]
    assert data(*pieces) == expected


@given(chunks=st.lists(st.binary(max_size=40)))
def test_arbitrary_bytes_never_raise(chunks: list[bytes]) -> None:
    for event in decode(*chunks):
        assert b"\r" not in event.data
