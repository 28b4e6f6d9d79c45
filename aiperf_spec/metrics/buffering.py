"""Streams whose content did not arrive as it was made: all of it in one read, or in clumps."""

from array import array

from aiperf_spec.models.decoding import decoding
from aiperf_spec.models.run import RequestRecord

_CLUMP = 8
"""Content responses to a clump, on average: a proxy's buffer holds more, and a step of an engine gives fewer."""
_NEARLY_ZERO_NS = 500_000
"""Gaps below it are within a clump: no step of an engine takes so little time."""
_LEFT_OUT = 0.05
"""The share of the time that the gaps within clumps may hold."""


def came_in_one_read(record: RequestRecord) -> bool:
    """Say whether one read brought all of several tokens, so that the time between them was not measured."""
    several = bool(record.chunk_gaps_ns) or (record.output_tokens or 0) > 1
    return several and record.first_content_ns is not None and record.first_content_ns == record.last_content_ns


def came_token_by_token(record: RequestRecord) -> bool:
    """Say whether the engine sent the tokens of a step as chunks of their own, one right after the other.

    Most gaps between chunks are then within a step: they are none of the engine's times. Known of requests with an
    acceptance record alone.
    """
    gaps, found = record.chunk_gaps_ns or (), decoding(record)
    if found is None or not found.accepted or len(gaps) + 1 <= found.steps + 1:
        return False
    within = sum(1 for gap in gaps if gap < _NEARLY_ZERO_NS)
    return 10 * (len(gaps) + 1) >= 9 * found.tokens and 2 * within >= found.accepted


def came_in_clumps(record: RequestRecord) -> bool:
    """Say whether a stream arrived as from a buffer: gaps of nearly 0, and a few large ones that hold all of the time.

    An engine that sends every token by itself makes clumps too, of the tokens of a step: then nearly every decode step
    begins one. What came in one read, and streams of fewer than 17 content responses, are not judged.
    """
    gaps = record.chunk_gaps_ns or array("q")
    if len(gaps) < 2 * _CLUMP or record.first_content_ns == record.last_content_ns:
        return False
    # Where the first few are no clumps, the others need not be looked at: there are millions.
    first = sorted(gaps[: 4 * _CLUMP])
    if first[len(first) * 3 // 4] >= _NEARLY_ZERO_NS:
        return False
    whole = sum(gaps)
    large = [gap for gap in gaps if gap >= _NEARLY_ZERO_NS]
    steps = decoding(record)
    few = len(large) * _CLUMP <= len(gaps) and (steps is None or 2 * len(large) <= steps.steps)
    return few and (not large or sum(large) >= (1 - _LEFT_OUT) * whole)
