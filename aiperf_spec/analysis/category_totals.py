"""Acceptance of a category as running sums, whatever the number of requests."""

from dataclasses import dataclass, fields
from typing import Self

from aiperf_spec.analysis.intervals import Estimate, RatioSums, as_length, as_rate


@dataclass(slots=True)
class CategoryTotals:
    """Sums over the requests of a category that have an acceptance record, with those that its intervals need.

    Two pools of different requests add up to the pool of all of them, exactly: every sum is a whole number.
    """

    requests: int = 0
    accepted: int = 0
    steps: int = 0
    proposed: int = 0
    accepted_accepted: int = 0
    accepted_steps: int = 0
    steps_steps: int = 0
    accepted_proposed: int = 0
    proposed_proposed: int = 0
    clusters: int | None = None
    """Independent requests: conversations where there are turns; None where each request is one."""

    def add(self, accepted: int, steps: int, proposed: int) -> None:
        """Add one request."""
        self.requests += 1
        self.accepted += accepted
        self.steps += steps
        self.proposed += proposed
        self.accepted_accepted += accepted * accepted
        self.accepted_steps += accepted * steps
        self.steps_steps += steps * steps
        self.accepted_proposed += accepted * proposed
        self.proposed_proposed += proposed * proposed

    def merge(self, other: Self) -> None:
        """Add another pool's requests."""
        if self.clusters is not None or other.clusters is not None:
            self.clusters = self.independent + other.independent
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def independent(self) -> int:
        """Return the number of clusters."""
        return self.requests if self.clusters is None else self.clusters

    def length(self) -> Estimate:
        """Return 1 + sum(accepted) / sum(steps) with its 95 % interval."""
        squares = self.accepted_accepted, self.accepted_steps, self.steps_steps
        return as_length(RatioSums(self.independent, self.accepted, self.steps, *squares).estimate())

    def rate(self) -> Estimate:
        """Return sum(accepted) / sum(proposed), in percent, with its 95 % interval."""
        squares = self.accepted_accepted, self.accepted_proposed, self.proposed_proposed
        return as_rate(RatioSums(self.independent, self.accepted, self.proposed, *squares).estimate())


_SUMS = tuple(field.name for field in fields(CategoryTotals) if field.name != "clusters")
