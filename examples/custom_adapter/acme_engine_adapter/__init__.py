"""Read the acceptance that the invented Acme engine reports.

Acme adds `"acme": {"speculation": {"verify_steps": 4, "drafted": 12, "kept_per_step": [3, 0, 1, 2]}}` to the last event
of a stream, and to the body otherwise.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from aiperf_spec import ParsedResponse, SpecDecodeAcceptanceRecord

_SIGNATURE = {"verify_steps", "drafted", "kept_per_step"}


class AcmeAdapter:
    """Turn Acme's object into the engine-neutral record."""

    payload_path: ClassVar[tuple[str, ...]] = ("acme", "speculation")

    @classmethod
    def can_adapt(cls, responses: list[ParsedResponse]) -> bool:
        """Say whether an object has Acme's keys; a key that another engine uses too would make requests ambiguous."""
        return _payload(responses) is not None

    @classmethod
    def adapt(cls, responses: list[ParsedResponse]) -> SpecDecodeAcceptanceRecord | None:
        """Return the record; None where Acme's figures contradict each other."""
        payload = _payload(responses)
        if payload is None:
            return None
        try:
            kept, steps, drafted = payload["kept_per_step"], payload["verify_steps"], payload["drafted"]
            return SpecDecodeAcceptanceRecord(
                engine="acme",
                mean_acceptance_length=1 + sum(kept) / steps,
                draft_acceptance_rate=sum(kept) / drafted,
                acceptance_histogram=dict(Counter(kept)),
                num_accepted_draft_tokens=sum(kept),
                num_draft_tokens=drafted,
                num_spec_steps=steps,
                per_step_accepted=tuple(kept),
            )
        except (TypeError, ValueError, ZeroDivisionError):  # pydantic's ValidationError is a ValueError
            return None


def _payload(responses: list[ParsedResponse]) -> dict[str, Any] | None:
    for response in reversed(responses):
        stats = response.spec_decode_stats
        if isinstance(stats, dict) and stats.keys() >= _SIGNATURE:
            return stats
    return None
