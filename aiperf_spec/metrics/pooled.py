"""Acceptance of one request, and of several pooled."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from aiperf_spec.models.acceptance import SpecDecodeAcceptanceRecord


def accepted_per_verified(record: SpecDecodeAcceptanceRecord) -> float | None:
    """(accepted + steps) / (proposed + steps): emitted over verified tokens; None without a step."""
    verified = record.num_draft_tokens + record.num_spec_steps
    return (record.num_accepted_draft_tokens + record.num_spec_steps) / verified if verified else None


@dataclass(slots=True)
class PooledAcceptance:
    """Sums over the requests that have a record; every verify step weighs the same."""

    requests: int = 0
    steps: int = 0
    proposed: int = 0
    accepted: int = 0
    histogram: Counter[int] = field(default_factory=Counter)

    @property
    def length(self) -> float | None:
        """1 + sum(accepted) / sum(steps); None without a step."""
        return 1 + self.accepted / self.steps if self.steps else None

    @property
    def rate(self) -> float | None:
        """sum(accepted) / sum(proposed), a fraction; None where nothing was proposed."""
        return self.accepted / self.proposed if self.proposed else None

    @property
    def rate_percent(self) -> float | None:
        """The same in percent."""
        return None if self.rate is None else self.rate * 100


def pool(records: Iterable[SpecDecodeAcceptanceRecord]) -> PooledAcceptance:
    """Add records up."""
    pooled = PooledAcceptance()
    for record in records:
        pooled.requests += 1
        pooled.steps += record.num_spec_steps
        pooled.proposed += record.num_draft_tokens
        pooled.accepted += record.num_accepted_draft_tokens
        pooled.histogram.update(record.acceptance_histogram)
    return pooled
