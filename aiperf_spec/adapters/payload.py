"""What every adapter does with a captured object, whatever the engine."""

from __future__ import annotations

from typing import Any

from aiperf_spec.models.response import ParsedResponse, last_usage


def find_payload(responses: list[ParsedResponse], signature: frozenset[str]) -> dict[str, Any] | None:
    """Return the last captured object that has all keys of the signature.

    The last, because an engine may send running figures before the final ones.
    """
    for response in reversed(responses):
        stats = response.spec_decode_stats
        if isinstance(stats, dict) and signature <= stats.keys():
            return stats
    return None


def inflate_histogram(dense: Any, bound: Any = None) -> dict[int, Any]:
    """Turn a dense histogram (index = accepted count) into the record's sparse one.

    `bound` is k where the engine says that the histogram has k + 1 buckets. Raises `ValueError` where the
    histogram is no list or has another length; the counts themselves are checked by the record.
    """
    if not isinstance(dense, list):
        raise ValueError(f"acceptance histogram must be a list, got {type(dense).__name__}")
    if bound is not None and len(dense) != bound + 1:
        raise ValueError(f"acceptance histogram has {len(dense)} buckets, expected {bound} + 1")
    # `is` and not `==`: False and 0.0 equal zero, and dropping them would hide a malformed bucket.
    return {index: count for index, count in enumerate(dense) if not (type(count) is int and count == 0)}


def completion_tokens(responses: list[ParsedResponse]) -> int | None:
    """Return the completion tokens of the last usage reported, or None."""
    usage = last_usage(responses)
    return None if usage is None else usage.completion_tokens


def ratio(numerator: Any, denominator: Any) -> float:
    """Divide two counts; 0 where nothing was counted.

    Raises `ValueError` for what is no count: dividing a bool or a string would make a figure of it.
    """
    if type(numerator) is not int or type(denominator) is not int:
        raise ValueError("a count must be an integer")
    return numerator / denominator if denominator else 0.0
