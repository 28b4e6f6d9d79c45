"""What a run says of draft tokens that its sequences of right and wrong ones do not say."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import add
from typing import NamedTuple

from aiperf_spec.analysis.positions import Tallies

_LEAST_DECAY = 0.5
"""No drafter loses half of its tokens with each position, but a run of few full drafts may look so."""


class Evidence(NamedTuple):
    """What chances are learnt from: the steps after a draft of k that was accepted whole.

    It is that of a request, a prompt or a run. `followers` counts the steps; `first` of those accepted their first
    token. `last` is how many of as many drafts of the same request would accept their k-th token, once they came as
    far. It is taken from the request's other drafts: the luck by which this one was full must not count.
    """

    first: float = 0.0
    last: float = 0.0
    followers: float = 0.0

    @classmethod
    def of(cls, steps: Sequence[int], k: int) -> Evidence:
        """Return what a request's coded steps give."""
        full = steps.count(k)
        at_risk = full + steps.count(k - 1)
        if not full or at_risk < 2:
            return cls()
        after = [step for before, step in pairwise(steps) if before == k and step != k + 1]
        return cls(sum(1.0 for step in after if step), len(after) * (full - 1) / (at_risk - 1), len(after))

    def plus(self, other: Evidence) -> Evidence:
        """Return the evidence of both."""
        return Evidence(*map(add, self, other))


@dataclass(slots=True, frozen=True)
class Chances:
    """Chances that a draft token is right.

    `by_position` holds c(1..k), at index 0 for position 1. `after_full` is the chance that one more token would have
    been right after a draft of k that was accepted whole. `decay` is the factor that each further position in the draft
    puts on the chance that the same token is right: 1 where only the text matters, as for a draft model; less where the
    drafter gets worse the farther it drafts, as EAGLE does.
    """

    by_position: tuple[float, ...]
    after_full: float
    decay: float = 1.0
    learnt: Evidence | None = None
    """The evidence of all requests; None where there is none."""

    @classmethod
    def of(cls, tallies: Tallies, evidence: Collection[Evidence]) -> Chances:
        """Return the chances of a run from its counts by position and what its prompts give."""
        sums = zip(map(sum, tallies.reached), map(sum, tallies.at_risk), strict=True)
        by_position = tuple(reached / risk if risk else 0.0 for reached, risk in sums)
        first, last, followers = map(math.fsum, zip(Evidence(), *evidence, strict=True))
        if len(by_position) < 2 or not first or not last:
            return cls(by_position, by_position[-1] if by_position else 0.0)
        # Both are of the same text, but k - 1 positions apart in the draft.
        decay = (last / first) ** (1 / (len(by_position) - 1))
        decay = min(max(decay, _LEAST_DECAY), 1.0)
        return cls(by_position, last / followers, decay, Evidence(first, last, followers))

    @property
    def k(self) -> int:
        """The draft length of the run."""
        return len(self.by_position)

    def moved_by(self, given: Evidence) -> tuple[float, float]:
        """Return how far a prompt's evidence moves `after_full` and `decay` (linearised: all prompts' add to 0)."""
        learnt = self.learnt
        if learnt is None or not given.followers:
            return 0.0, 0.0
        after_full = (given.last - self.after_full * given.followers) / learnt.followers
        if not _LEAST_DECAY < self.decay < 1:
            return after_full, 0.0
        return after_full, self.decay * (given.last / learnt.last - given.first / learnt.first) / (self.k - 1)
