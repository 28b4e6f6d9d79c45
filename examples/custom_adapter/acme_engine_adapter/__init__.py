"""Read the acceptance that the invented Acme engine reports.

Acme adds `"acme": {"speculation": {"verify_steps": 4, "draft_length": 3, "kept_per_step": [3, 0, 1, 2]}}` to the last
event of a stream, and to the body otherwise. It drafts `draft_length` tokens in every step.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from aiperf_spec import ParsedResponse, SpecDecodeAcceptanceRecord
from aiperf_spec.adapters import EngineCounters, EngineDescription, PayloadFields, TimingFields

_SIGNATURE = frozenset({"verify_steps", "draft_length", "kept_per_step"})


class AcmeAdapter:
    """Turn Acme's object into the engine-neutral record."""

    payload_path: ClassVar[tuple[str, ...]] = ("acme", "speculation")
    # All of it may be left out, and each line of it but the name.
    engine_description: ClassVar[EngineDescription] = EngineDescription(
        name="Acme",
        owned_by=("acme",),
        enable_speculation="start Acme with --drafter and a draft model",
        enable_reporting="start Acme with --report-speculation",
        drafts_chains=True,
        version_path="/about",
        metrics_path="/acme/metrics",
        counters=EngineCounters(
            verify_steps="acme_verify_steps",
            proposed_drafts="acme_drafted_tokens",
            accepted_drafts="acme_kept_tokens",
            finished_requests="acme_requests",
        ),
        payload=PayloadFields(version="version 2.1", required=_SIGNATURE),
        timing=TimingFields(path=("acme", "timing"), fields={"queue_time_ms": "queued_ms"}),
    )

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
            kept, steps, k = payload["kept_per_step"], payload["verify_steps"], payload["draft_length"]
            return SpecDecodeAcceptanceRecord(
                engine="acme",
                mean_acceptance_length=1 + sum(kept) / steps,
                draft_acceptance_rate=sum(kept) / (steps * k),
                acceptance_histogram=dict(Counter(kept)),
                num_accepted_draft_tokens=sum(kept),
                num_draft_tokens=steps * k,
                num_spec_steps=steps,
                num_spec_tokens=k,
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
