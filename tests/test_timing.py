from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_spec.models.response import ParsedResponse, Usage
from aiperf_spec.wire.timing import Timing, timing


def content(at: int) -> ParsedResponse:
    return ParsedResponse(at, text="x", is_content=True)


def other(at: int) -> ParsedResponse:
    return ParsedResponse(at, usage=Usage(1, 2))


@pytest.mark.parametrize(
    ("responses", "expected"),
    [
        ([], Timing(None, None, array("q"))),
        ([other(5), other(9)], Timing(None, None, array("q"))),
        ([content(10)], Timing(10, 10, array("q"))),
        ([content(10), content(30), content(31)], Timing(10, 31, array("q", [20, 1]))),
        ([content(10), content(10)], Timing(10, 10, array("q", [0]))),
        ([other(1), content(10), other(15), content(30), other(90), other(95)], Timing(10, 30, array("q", [20]))),
    ],
    ids=["nothing", "no content", "one", "three", "two at once", "openers, pings and trailers count for nothing"],
)
def test_a_stream(responses: list[ParsedResponse], expected: Timing) -> None:
    assert timing(responses, is_stream=True) == expected


@pytest.mark.parametrize(
    ("responses", "end"), [([], None), ([content(10)], 10), ([other(10)], 10), ([content(3), content(5), other(8)], 8)]
)
def test_a_body_ends_when_all_of_it_came(responses: list[ParsedResponse], end: int | None) -> None:
    assert timing(responses, is_stream=False) == Timing(None, end, None)


@given(st.lists(st.tuples(st.integers(0, 10**18), st.booleans()), max_size=30))
def test_gaps_add_up_to_the_time_between_first_and_last(moments: list[tuple[int, bool]]) -> None:
    responses = [content(at) if counts else other(at) for at, counts in sorted(moments)]
    moment = timing(responses, is_stream=True)
    assert moment.chunk_gaps_ns is not None
    if moment.first_content_ns is None or moment.last_content_ns is None:
        assert not moment.chunk_gaps_ns
    else:
        assert sum(moment.chunk_gaps_ns) == moment.last_content_ns - moment.first_content_ns
        assert len(moment.chunk_gaps_ns) == sum(counts for _, counts in moments) - 1
        assert min(moment.chunk_gaps_ns, default=0) >= 0
