"""Draft totals of several requests pooled: of those whose engine counted no verify steps."""

from collections.abc import Sequence
from dataclasses import dataclass

from aiperf_spec.models.run import RequestRecord


@dataclass(slots=True)
class PooledTotals:
    """Sums over successful requests that have `DraftTotals`; they are in no figure of `PooledAcceptance`.

    `left_out` are those whose totals hold other requests too: their engine counts over all that run at a time, and
    they did not run alone.
    """

    requests: int = 0
    left_out: int = 0
    proposed: int = 0
    accepted: int = 0
    fewest_steps: int = 0
    most_steps: int = 0

    @property
    def rate_percent(self) -> float | None:
        """sum(accepted) / sum(proposed), in percent; None where nothing was proposed."""
        return 100 * self.accepted / self.proposed if self.proposed else None

    @property
    def least_length(self) -> float | None:
        """1 + sum(accepted) / sum(verify steps at the most): the acceptance length is no lower; None without a step."""
        return 1 + self.accepted / self.most_steps if self.most_steps else None

    @property
    def greatest_length(self) -> float | None:
        """1 + sum(accepted) / sum(verify steps at the least): it is no higher; None without a step."""
        return 1 + self.accepted / self.fewest_steps if self.fewest_steps else None


def pool_totals(records: Sequence[RequestRecord]) -> PooledTotals:
    """Add up the totals of a phase's records, those that failed among them: they may have run beside others."""
    pooled, alone = PooledTotals(), _alone(records)
    for position, record in enumerate(records):
        totals = record.draft_totals
        if totals is None or not record.succeeded:
            continue
        if totals.whole_batch and position not in alone:
            pooled.left_out += 1
            continue
        pooled.requests += 1
        pooled.proposed += totals.num_draft_tokens
        pooled.accepted += totals.num_accepted_draft_tokens
        pooled.fewest_steps += totals.fewest_steps
        pooled.most_steps += totals.most_steps
    return pooled


def _alone(records: Sequence[RequestRecord]) -> set[int]:
    if not any(record.draft_totals is not None and record.draft_totals.whole_batch for record in records):
        return set()
    order = sorted(range(len(records)), key=lambda position: records[position].start_ns)
    alone, ended = set[int](), None
    for number, position in enumerate(order):
        record = records[position]
        following = records[order[number + 1]].start_ns if number + 1 < len(order) else None
        if (ended is None or ended <= record.start_ns) and (following is None or record.end_ns <= following):
            alone.add(position)
        ended = record.end_ns if ended is None else max(ended, record.end_ns)
    return alone
