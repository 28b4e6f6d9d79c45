"""What the built-in adapters have in common: an object that is told apart by its keys and holds counts."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from aiperf_spec.models.acceptance import SpecDecodeAcceptanceRecord
from aiperf_spec.models.response import ParsedResponse, last_usage


class PayloadAdapter(ABC):
    """Adapt an object that has all keys of `signature`, wherever it was found."""

    payload_path: ClassVar[tuple[str, ...]]
    signature: ClassVar[frozenset[str]]

    @classmethod
    def can_adapt(cls, responses: list[ParsedResponse]) -> bool:
        """Say whether an object has the engine's signature keys."""
        return find_payload(responses, cls.signature) is not None

    @classmethod
    def adapt(cls, responses: list[ParsedResponse]) -> SpecDecodeAcceptanceRecord | None:
        """Return the record of the last such object; None where it is malformed."""
        payload, usage = find_payload(responses, cls.signature), last_usage(responses)
        if payload is None:
            return None
        try:
            tokens = None if usage is None else usage.completion_tokens
            return SpecDecodeAcceptanceRecord(completion_tokens=tokens, **cls.figures(payload))
        except (ValueError, OverflowError):  # pydantic's ValidationError is a ValueError
            return None

    @classmethod
    @abstractmethod
    def figures(cls, payload: dict[str, Any]) -> dict[str, Any]:
        """Return the record's fields but for `completion_tokens`; raises `ValueError` for a malformed object."""


def find_payload(responses: list[ParsedResponse], signature: frozenset[str]) -> dict[str, Any] | None:
    """Return the last captured object that has all keys of the signature.

    The last, because an engine may send running figures before the final ones.
    """
    objects = (response.spec_decode_stats for response in reversed(responses))
    return next((each for each in objects if isinstance(each, dict) and signature <= each.keys()), None)


def inflate_histogram(dense: Any, bound: Any = None) -> dict[int, Any]:
    """Turn a dense histogram (index = accepted count) into the record's sparse one.

    `bound` is k where the engine says that the histogram has k + 1 buckets. Raises `ValueError` where the
    histogram is no list or has another length; the counts themselves are checked by the record.
    """
    if not isinstance(dense, list):
        raise ValueError(f"acceptance histogram must be a list, got {type(dense).__name__}")
    if bound is not None and (type(bound) is not int or len(dense) != bound + 1):
        raise ValueError(f"acceptance histogram has {len(dense)} buckets, expected {bound} + 1")
    # `is` and not `==`: False and 0.0 equal zero, and dropping them would hide a malformed bucket.
    return {index: count for index, count in enumerate(dense) if not (type(count) is int and count == 0)}


def ratio(numerator: Any, denominator: Any) -> float:
    """Divide two counts; 0 where nothing was counted.

    Raises `ValueError` for what is no count: dividing a bool or a string would make a figure of it.
    """
    if type(numerator) is not int or type(denominator) is not int:
        raise ValueError("a count must be an integer")
    return numerator / denominator if denominator else 0.0
