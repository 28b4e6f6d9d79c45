"""Find the moments of a response that latencies are made of."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from operator import sub

from aiperf_spec.models.response import ParsedResponse


@dataclass(slots=True, frozen=True)
class Timing:
    """The moments that latencies are made of, in ns of the monotonic clock; None where the moment never came."""

    first_content_ns: int | None
    last_content_ns: int | None
    chunk_gaps_ns: array[int] | None


NO_TIMING = Timing(None, None, None)


def timing(responses: list[ParsedResponse], *, is_stream: bool) -> Timing:
    """Return a response's timing: of content responses only, so that trailing usage never lengthens it.

    A body that came in one piece has an end, but no first token and no gaps.
    """
    if not is_stream:
        end = responses[-1].arrival_ns if responses else None
        return Timing(None, end, None)
    stamps: list[int] = []
    for response in responses:
        if response.is_content:
            stamps += response.arrivals_ns or (response.arrival_ns,)
    if not stamps:
        return Timing(None, None, array("I"))
    return Timing(stamps[0], stamps[-1], pack_gaps(list(map(sub, stamps[1:], stamps))))


def pack_gaps(gaps: Sequence[int]) -> array[int]:
    """Return gaps in ns as an array: of 4 bytes each, or of 8 where one is over 4.2 s or below zero.

    A run keeps every gap, for exact percentiles; this halves what that takes.
    """
    try:
        return array("I", gaps)
    except OverflowError:
        return array("q", gaps)
