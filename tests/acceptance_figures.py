"""A record's acceptance in the form of the table of expected figures."""

from __future__ import annotations

from typing import Any

from aiperf_spec.models.run import RequestRecord


def figures_of(record: RequestRecord) -> dict[str, Any] | str | None:
    """Return a record's acceptance in the form of `derive_expected.record_of`, or its drop reason."""
    got = record.acceptance
    if got is None:
        return record.drop_reason
    return {
        "engine": got.engine,
        "length": round(got.mean_acceptance_length, 4),
        "rate": round(got.draft_acceptance_rate, 4),
        "histogram": {str(bucket): count for bucket, count in got.acceptance_histogram.items()},
        "accepted": got.num_accepted_draft_tokens,
        "drafted": got.num_draft_tokens,
        "steps": got.num_spec_steps,
        "k": got.num_spec_tokens,
        "completion_tokens": got.completion_tokens,
        "per_step_accepted": got.per_step_accepted and list(got.per_step_accepted),
        "per_step_drafted": got.per_step_drafted and list(got.per_step_drafted),
    }
