"""Reading by comparison gives what decoding and parsing whole give, wherever the bytes are cut."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf_spec.adapters.registry import BUILT_IN, AdapterRegistry
from aiperf_spec.models.response import ParsedResponse, last_usage
from aiperf_spec.wire.chunk import parse_event
from aiperf_spec.wire.outcome import timing
from aiperf_spec.wire.response_reader import PatternSearch, ResponseReader
from aiperf_spec.wire.sse import EventTooLargeError, SSEDecoder, SSEEvent

WIRE = Path(__file__).parent / "wire"
STREAMS = [path for path in sorted(WIRE.glob("*/*.sse")) if not path.read_bytes().startswith(b"{")]
PATHS = AdapterRegistry(BUILT_IN).payload_paths


def plainly(pieces: Sequence[bytes]) -> tuple[list[tuple[int, SSEEvent]], list[ParsedResponse]]:
    """Return events and responses as decoding and parsing whole give them; the arrival is the piece's number."""
    decoder = SSEDecoder()
    events = [(number, event) for number, piece in enumerate(pieces) for event in decoder.decode(piece)]
    events += [(len(pieces), event) for event in decoder.flush()]
    parsed: list[ParsedResponse] = []
    for number, event in events:
        response = parse_event(event, number, PATHS)
        is_behind = any(before.is_done for before in parsed)
        if response not in (None, ParsedResponse(number)) and not (is_behind and response.is_content):
            parsed.append(response)
    return events, parsed


def read(pieces: Sequence[bytes], *, keep_events: bool = False) -> ResponseReader:
    reader = ResponseReader(PATHS, keep_events=keep_events)
    for number, piece in enumerate(pieces):
        reader.feed(piece, number)
    reader.finish(len(pieces))
    return reader


def joined(responses: Iterable[ParsedResponse]) -> list[tuple[ParsedResponse, list[int]]]:
    """Join what a reader may join: neighbours that hold nothing but the same kind of text. Arrivals stand beside."""
    found: list[tuple[ParsedResponse, list[int]]] = []
    for response in responses:
        arrivals = list(response.arrivals_ns or [response.arrival_ns])
        assert response.arrival_ns == arrivals[-1]
        response = replace(response, arrival_ns=0, arrivals_ns=None)
        before = found[-1][0] if found else None
        if before is not None and (kind := bare(response)) is not None and kind == bare(before):
            text, reasoning = before.text + response.text, before.reasoning + response.reasoning
            found[-1] = (replace(before, text=text, reasoning=reasoning), [*found[-1][1], *arrivals])
        else:
            found.append((response, arrivals))
    return found


def bare(response: ParsedResponse) -> tuple[Any, ...] | None:
    kinds = (bool(response.text), bool(response.reasoning))
    if kinds not in ((True, False), (False, True)):
        return None
    alone = ParsedResponse(0, is_content=True, choice_indices=response.choice_indices)
    return (response.choice_indices, kinds) if replace(response, text="", reasoning="") == alone else None


def same(pieces: Sequence[bytes]) -> None:
    events, responses = plainly(pieces)
    reader = read(pieces)
    assert joined(reader.responses) == joined(responses)
    assert reader.has_ended == any(response.is_done for response in responses)
    kept = read(pieces, keep_events=True)
    assert kept.events is not None
    assert (list(kept.events), len(kept.events)) == (events, len(events))
    assert kept.responses == reader.responses


def in_pieces(body: bytes, cuts: Iterable[int]) -> list[bytes]:
    # A comment first, so that the body is a stream whatever follows.
    body = b": stream\n\n" + body
    ends = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
    return [body[start:end] for start, end in pairwise(ends)]


CUTS = st.lists(st.integers(0, 5000), max_size=6)


TEXTS = st.one_of(st.text(max_size=6), st.sampled_from(["a", " b", '"', "\\", "\n", "é", "字", "\u2028", "", "\x7f"]))


def chunk(shape: str, text: str, finish: str | None, created: int) -> dict[str, Any]:
    delta = {"content": text, "reasoning": text, "reasoning_content": text}
    choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": finish}
    if shape == "text":
        choice["text"] = text
    elif shape == "both":
        choice["delta"] = {"content": text, "reasoning": "x"}
    elif shape == "twice":
        choice["delta"] = {"content": text}
        choice["message"] = {"content": "y"}
    else:
        choice["delta"] = {shape: delta[shape]}
    return {"id": "c", "created": created, "choices": [choice]}


SHAPES = st.sampled_from(["content", "reasoning", "reasoning_content", "text", "both", "twice"])
CHUNKS = st.builds(chunk, SHAPES, TEXTS, st.sampled_from([None, None, None, "stop"]), st.integers(1, 2))
SPELLINGS = st.sampled_from([{"separators": (",", ":")}, {}, {"ensure_ascii": False, "separators": (",", ":")}])


def data_line(obj: dict[str, Any], spelling: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(obj, **spelling).encode("utf-8", "replace")


ENDS = st.sampled_from([b"\n\n", b"\n\n", b"\n\n", b"\r\n\r\n", b"\n\n: ping\n\n", b"\n\n\n", b"\r\r", b"\n\nid: 1\n"])


@given(st.lists(st.tuples(st.tuples(CHUNKS, SPELLINGS), ENDS), max_size=12), CUTS)
def test_any_sequence_of_chunks(chunks: list[tuple[tuple[dict[str, Any], dict[str, Any]], bytes]], cuts: Any) -> None:
    same(in_pieces(b"".join(data_line(*chunk) + end for chunk, end in chunks), cuts))


@given(st.lists(TEXTS, max_size=30), CUTS, SPELLINGS)
def test_a_stream_whose_chunks_differ_in_text_alone(texts: list[str], cuts: Any, spelling: dict[str, Any]) -> None:
    body = b"".join(data_line(chunk("content", text, None, 1), spelling) + b"\n\n" for text in texts)
    same(in_pieces(body + b"data: [DONE]\n\n", cuts))


@given(
    st.lists(
        st.binary(max_size=40)
        | st.sampled_from(
            [b'data: {"choices":[{"text":"a"}]}', b'{"choices":[{"text":"b"}]}\n\n', b"data: [DONE]", b"\n", b"\n\n"]
        )
        | st.sampled_from(
            [b'data: {"choices":[{"text":"', b'"}]}', b"event: error\n", b"\r", b"\xef\xbb\xbf", b"data: "]
        ),
        max_size=12,
    ),
    CUTS,
)
def test_any_bytes(parts: list[bytes], cuts: Any) -> None:
    same(in_pieces(b"".join(parts), cuts))


@pytest.mark.parametrize(
    "data",
    [b'{"choices":[{"text":"a\x01"}]}', b'{"choices":[{"text":"\xff"}]}', b'{"choices":[{"text":"a","x":"b"}]}'],
)
def test_bytes_that_only_look_alike(data: bytes) -> None:
    learned = b'data: {"choices":[{"text":"z"}]}\n\n'
    for pieces in ([learned, b"data: " + data + b"\n\n"], [learned + b"data: " + data + b"\n\n" + learned]):
        same([b": stream\n\n", *pieces])


@pytest.mark.parametrize(
    "body",
    [
        b'data: {"choices":[\ndata: {"index":0,"text":"a"}]}\n\ndata: {"choices":[\n{"index":0,"text":"b"}]}\n\n',
        b'data: {"text":"other text","choices":[{"text":"other text"}]}\n\n'
        b'data: {"text":"FOO","choices":[{"text":"other text"}]}\n\n',
    ],
    ids=["several lines", "the probe's own text"],
)
def test_patterns_that_would_be_wrong_are_not_learned(body: bytes) -> None:
    start, end = body.split(b"\n\n", 1)
    same([b": stream\n\n", body])
    same([b": stream\n\n", start + b"\n\n", end])


def test_a_character_cut_by_two_events_is_no_character() -> None:
    halves = [b'data: {"choices":[{"text":"' + half + b'"}]}\n\n' for half in (b"a", b"\xc3", b"\xa9")]
    same([b": stream\n\n", b"".join(halves)])


def test_alike_events_in_a_row_are_one_response() -> None:
    pieces = [b'data: {"choices":[{"index":0,"text":"%d"}]}\n\n' % number for number in range(10)]
    for reader in (read([b"".join(pieces)]), read(pieces)):
        assert [response.text for response in reader.responses] == ["0", "1", "23456789"]
    assert [response.arrivals_ns for response in reader.responses] == [None, None, array("q", range(2, 10))]


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Give the list of the events that are parsed whole."""
    events: list[bytes] = []

    def counting(event: SSEEvent, *others: Any) -> ParsedResponse | None:
        events.append(event.data)
        return parse_event(event, *others)

    monkeypatch.setattr("aiperf_spec.wire.response_reader.parse_event", counting)
    return events


@pytest.mark.parametrize("together", [True, False])
def test_few_events_of_a_pattern_are_parsed(together: bool, parsed: list[bytes]) -> None:
    lines = [data_line(chunk("content", f"word {number}", None, 1), {}) + b"\n\n" for number in range(1000)]
    reader = read([b"".join(lines)] if together else lines)
    assert len(parsed) == 3  # two that agree, and another text in their place
    assert sum(len(response.arrivals_ns or [0]) for response in reader.responses) == 1000


@pytest.mark.parametrize("together", [True, False])
def test_events_that_differ_in_more_than_text_are_parsed_once_each(together: bool, parsed: list[bytes]) -> None:
    chunks = [chunk("content", f"word {number}", None, 1) for number in range(1000)]
    for number, each in enumerate(chunks):
        each["choices"][0]["logprobs"] = {"content": [{"token": f"word {number}", "logprob": -number}]}
    lines = [data_line(each, {}) + b"\n\n" for each in chunks]
    read([b"".join(lines)] if together else lines)
    assert len(parsed) == 1000


def test_responses_of_a_run_stop_looking_for_a_pattern_and_find_one_again(parsed: list[bytes]) -> None:
    search = PatternSearch()

    def parsed_of(*, logprobs: bool) -> int:
        parsed.clear()
        reader = ResponseReader(PATHS, search=search)
        for number in range(20):
            each = chunk("content", f"word {number}", None, 1)
            if logprobs:
                each["choices"][0]["logprobs"] = {"content": [{"token": f"word {number}", "logprob": -number}]}
            reader.feed(data_line(each, {}) + b"\n\n", number)
        assert "".join(response.text for response in reader.responses) == "".join(f"word {n}" for n in range(20))
        return len(parsed)

    assert [parsed_of(logprobs=True) for _ in range(2)] == [20, 20]
    assert parsed_of(logprobs=False) == 3  # a response with a pattern: the two before it do not count
    assert [parsed_of(logprobs=True) for _ in range(3)] == [20, 20, 20]
    # Three in a row had none; the sixteenth is the first to look again, and the next ones have what it found.
    assert [parsed_of(logprobs=False) for _ in range(16)] == [20] * 12 + [3] * 4


def test_another_pattern_is_found_where_the_kind_of_text_changes(parsed: list[bytes]) -> None:
    kinds = ["reasoning"] * 100 + ["content"] * 100
    reader = read([data_line(chunk(kind, "word", None, 1), {}) + b"\n\n" for kind in kinds])
    assert len(parsed) == 6
    assert "".join(response.reasoning for response in reader.responses) == "word" * 100
    assert "".join(response.text for response in reader.responses) == "word" * 100


@pytest.mark.parametrize("interim", ["\n", 'say "x"', "日本"])
def test_a_text_that_has_to_be_parsed_does_not_end_the_pattern(interim: str, parsed: list[bytes]) -> None:
    texts = ["a", "b", *(["word"] * 10 + [interim]) * 20]
    read([data_line(chunk("content", text, None, 1), {}) + b"\n\n" for text in texts])
    assert len(parsed) == 3 + 20


@pytest.mark.parametrize("size", [1, 7, 200, 5000, 10**6])
@pytest.mark.parametrize("path", STREAMS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_real_streams(path: Path, size: int) -> None:
    body = path.read_bytes()
    same([body[start : start + size] for start in range(0, len(body), size)])


def test_a_body_is_one_response() -> None:
    body = b'{"choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}]}'
    for pieces in ([body], [body[:1], body[1:50], body[50:]]):
        reader = read(pieces, keep_events=True)
        assert (reader.is_stream, reader.has_ended) == (False, False)
        assert list(reader.events or ()) == [(len(pieces), SSEEvent(body))]
        assert [response.text for response in reader.responses] == ["x"]


def test_a_body_past_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiperf_spec.wire.response_reader.MAX_EVENT_BYTES", 100)
    reader = ResponseReader(PATHS)
    reader.feed(b"{" + b" " * 99, 0)
    with pytest.raises(EventTooLargeError):
        reader.feed(b" ", 0)


def same_with_cuts(events: Sequence[bytes]) -> None:
    """Read events in one read and in a read each: what came before must not change what an event says."""
    lines = [b"data: " + event + b"\n\n" for event in events]
    same([b": stream\n\n" + b"".join(lines)])
    same([b": stream\n\n", *lines])


TEXT = st.sampled_from(
    ["", "a", "b", " ", 'say "x"', "\\", "\n", "é", "\u2028", "\u0085", "\x7f", "\x01", "日本", '","content":"']
)
CALLS = st.sampled_from([None, [], [{"index": 0, "function": {"arguments": "{"}}], [{"index": 1, "id": "x"}]])
DELTA = st.builds(
    lambda fields, calls: {**fields, **({} if calls is None else {"tool_calls": calls})},
    st.dictionaries(
        st.sampled_from(["content", "reasoning", "reasoning_content", "thinking", "thought", "refusal", "role"]),
        TEXT | TEXT.map(lambda text: [{"type": "reasoning.text", "text": text}]),
        max_size=3,
    ),
    CALLS,
)
CHOICE = st.builds(
    lambda index, said, finish: {"index": index, **said, "finish_reason": finish},
    st.sampled_from([0, 0, 0, 1]),
    st.builds(lambda delta: {"delta": delta}, DELTA) | st.builds(lambda text: {"text": text}, TEXT),
    st.sampled_from([None, None, None, "stop"]),
)
CHUNK = st.builds(
    lambda choices, extra: {"choices": choices, **extra},
    st.lists(CHOICE, min_size=1, max_size=2),
    st.sampled_from(
        [
            {},
            {},
            {},
            {"usage": None},
            {"usage": {"completion_tokens": 1}},
            {"metrics": {"speculative_decoding": {"x": 1}}},
        ]
    ),
)
WRITTEN = st.sampled_from(
    [
        lambda value: json.dumps(value).encode(),
        lambda value: json.dumps(value, separators=(",", ":")).encode(),
        lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(),
    ]
)


@settings(max_examples=300)
@given(
    chunks=st.lists(CHUNK | st.sampled_from(["[DONE]", {"error": "x"}, {}]), max_size=8),
    write=WRITTEN,
    edits=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 200), st.binary(max_size=2)), max_size=3),
)
def test_a_reader_reads_events_as_if_each_were_alone(chunks: list[Any], write: Any, edits: list[Any]) -> None:
    data = [b"[DONE]" if chunk == "[DONE]" else write(chunk) for chunk in chunks]
    for which, where, bytes_there in edits:
        if which < len(data):
            data[which] = data[which][:where] + bytes_there + data[which][where + 1 :]
    same_with_cuts(data)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (r'{"content":"\\","refusal":"\\"}', r'{"content":"a","refusal":"\\"}'),
        ('{"reasoning":"a","text":"a"}', '{"reasoning":"a","text":"b"}'),
        ('{"content":"a","content": "a"}', '{"content":"b","content": "a"}'),
        ('{"content":"a","tool_calls":[{"index":0}]}', '{"content":"b","tool_calls":[{"index":0}]}'),
        ('{"reasoning":"a","reasoning_content":"a"}', '{"reasoning":"b","reasoning_content":"a"}'),
    ],
    ids=["escapes", "where nobody reads", "a key twice", "beside tool calls", "the other key wins"],
)
def test_a_reader_is_not_taken_in_by_the_same_text_elsewhere(first: str, second: str) -> None:
    events = [f'{{"choices":[{{"index":0,"delta":{delta}}}]}}' for delta in (first, second, first)]
    same_with_cuts([event.encode() for event in events])


@given(
    fields=DELTA,
    first=TEXT,
    second=TEXT,
    key=st.sampled_from(["content", "reasoning", "thinking", "text"]),
    write=WRITTEN,
)
def test_a_reader_tells_texts_apart(fields: dict[str, Any], first: str, second: str, key: str, write: Any) -> None:
    chunks = [{"choices": [{"index": 0, "delta": {**fields, key: text}}]} for text in (first, second, first, second)]
    same_with_cuts([write(chunk) for chunk in chunks])


@given(CUTS)
def test_content_behind_the_end_mark_is_none(cuts: list[int]) -> None:
    def event(text: str) -> bytes:
        return b'data: {"choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n' % text.encode()

    usage = b'data: {"usage":{"completion_tokens":3}}\n\n'
    body = event("a") + event("b") + event("c") + b"data: [DONE]\n\n" + event("late") * 3 + usage
    reader = read([body[start:end] for start, end in pairwise(sorted({0, len(body), *(c % len(body) for c in cuts)}))])
    assert "".join(response.text for response in reader.responses) == "abc"
    moments = timing(reader.responses, is_stream=True)
    assert moments.chunk_gaps_ns is not None
    assert len(moments.chunk_gaps_ns) == 2
    assert last_usage(reader.responses) is not None


def test_events_that_say_nothing_are_not_kept() -> None:
    reader = read([b"data: {}\n\n" * 100, b": ping\n\n", b"data: \n\n"])
    assert reader.responses == []


def test_reads_that_end_within_an_event_are_compared_too(parsed: list[bytes]) -> None:
    body = b"".join(b'data: {"choices":[{"index":0,"delta":{"content":"word %d"}}]}\n\n' % n for n in range(1000))
    reader = ResponseReader(PATHS)
    for start in range(0, len(body), 1001):
        reader.feed(body[start : start + 1001], start)
    assert "".join(response.text for response in reader.responses) == "".join(f"word {n}" for n in range(1000))
    # Few at the start, and one that each read cuts.
    assert len(parsed) < 100


@pytest.mark.parametrize(("text", "keep_events", "refused"), [(100, False, True), (1, False, False), (1, True, True)])
def test_a_stream_of_which_too_much_is_kept_is_refused(
    text: int, keep_events: bool, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiperf_spec.wire.response_reader.MAX_KEPT_BYTES", 10_000)
    monkeypatch.setattr("aiperf_spec.wire.response_reader._WEIGHED_EVERY", 1000)
    reader = ResponseReader(PATHS, keep_events=keep_events)
    fed = 0

    def flood() -> None:
        nonlocal fed
        for number in range(300):
            # As log-probabilities do, what is not kept differs from event to event.
            said = b'{"choices":[{"index":0,"delta":{"content":"%s"}}],"more":"%s%d"}' % (
                b"a" * text,
                b"b" * 99,
                number,
            )
            reader.feed(b"data: " + said + b"\n\n", number)
            fed += len(said)

    with pytest.raises(EventTooLargeError, match="a stream of more than") if refused else nullcontext():
        flood()
    assert (fed < 40_000) == refused


@pytest.mark.parametrize("alike", [True, False])
def test_a_stream_of_too_many_events_is_refused(alike: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiperf_spec.wire.response_reader.MAX_EVENTS", 4000)
    reader = ResponseReader(PATHS)

    def flood() -> None:
        for number in range(1000):
            same = 0 if alike else number
            event = b'data: {"id":%d,"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n' % same
            reader.feed(event * 10, number)

    with pytest.raises(EventTooLargeError, match="a stream of more than"):
        flood()
    assert sum(len(each.arrivals_ns or (0,)) for each in reader.responses) <= 4100
