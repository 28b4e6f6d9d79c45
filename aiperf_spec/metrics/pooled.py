"""Acceptance of one request, and of several pooled."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from aiperf_spec.models.acceptance import SpecDecodeAcceptanceRecord
from aiperf_spec.models.decoding import decoding
from aiperf_spec.models.run import RequestRecord


def accepted_per_verified(record: SpecDecodeAcceptanceRecord) -> float | None:
    """(accepted + steps) / (proposed + steps): emitted over verified tokens; None without a step, or a count."""
    verified = 0 if record.proposed is None else record.proposed + record.num_spec_steps
    return (record.num_accepted_draft_tokens + record.num_spec_steps) / verified if verified else None


@dataclass(slots=True)
class PooledAcceptance:
    """Sums over the requests that have a record; every verify step weighs the same."""

    requests: int = 0
    steps: int = 0
    proposed: int | None = 0
    """None where a request does not count them."""
    accepted: int = 0
    histogram: Counter[int] = field(default_factory=Counter)
    undrafted: int | None = None
    """Decode steps without a draft; None where the tokens of a request with a record were not counted."""
    engines: set[str] = field(default_factory=set)
    """The adapters' names of those that reported."""
    draft_lengths: set[int] = field(default_factory=set)
    """Every k that was reported."""

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

    @property
    def tokens_per_decode_step(self) -> float | None:
        """1 + sum(accepted) / sum(decode steps), those without a draft included; None where they are not known."""
        steps = self._decode_steps
        return 1 + self.accepted / steps if steps else None

    @property
    def drafted_share(self) -> float | None:
        """sum(verify steps) / sum(decode steps), a fraction; None where they are not known."""
        steps = self._decode_steps
        return self.steps / steps if steps else None

    @property
    def _decode_steps(self) -> int | None:
        return None if self.undrafted is None else self.steps + self.undrafted


def pool(records: Iterable[RequestRecord]) -> PooledAcceptance:
    """Add up requests; one without a record adds its steps without a draft alone, if the engine said so much of it."""
    pooled, undrafted, known = PooledAcceptance(), 0, True
    for record in records:
        steps, report = decoding(record), record.acceptance
        undrafted += 0 if steps is None else steps.undrafted_steps
        if report is None:
            continue
        known = known and steps is not None
        pooled.requests += 1
        pooled.steps += report.num_spec_steps
        if pooled.proposed is not None:
            pooled.proposed = None if report.proposed is None else pooled.proposed + report.proposed
        pooled.accepted += report.num_accepted_draft_tokens
        pooled.histogram.update(report.acceptance_histogram)
        pooled.engines.add(report.engine)
        if report.num_spec_tokens is not None:
            pooled.draft_lengths.add(report.num_spec_tokens)
    pooled.undrafted = undrafted if known else None
    return pooled
