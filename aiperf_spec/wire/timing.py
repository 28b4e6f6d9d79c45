"""Find the moments of a response that latencies are made of."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import pairwise

from aiperf_spec.models.response import ParsedResponse, content_responses


@dataclass(slots=True, frozen=True)
class Timing:
    """The moments that latencies are made of, in ns of the monotonic clock; None where the moment never came."""

    first_content_ns: int | None
    last_content_ns: int | None
    chunk_gaps_ns: array[int] | None


def timing(responses: list[ParsedResponse], *, is_stream: bool) -> Timing:
    """Return a response's timing: of content responses only, so that trailing usage never lengthens it.

    A body that came in one piece has an end, but no first token and no gaps.
    """
    content = content_responses(responses)
    if not is_stream:
        end = responses[-1].arrival_ns if responses else None
        return Timing(None, end, None)
    if not content:
        return Timing(None, None, array("q"))
    stamps = [response.arrival_ns for response in content]
    gaps = array("q", (later - earlier for earlier, later in pairwise(stamps)))
    return Timing(stamps[0], stamps[-1], gaps)
