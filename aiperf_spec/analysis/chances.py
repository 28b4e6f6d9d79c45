"""What a run says of draft tokens that its sequences of right and wrong ones do not say."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise

from aiperf_spec.analysis.positions import Tallies

_LEAST_DECAY = 0.5
"""No drafter loses half of its tokens with each position, but a run of few full drafts may look so."""
_HALVINGS = 40
_NUDGE = 1e-6


@dataclass(slots=True, frozen=True)
class Evidence:
    """What chances are learnt from: each step and the one after it. It is that of a request, a prompt or a run.

    `pairs` counts the steps that accepted 0 to k tokens of a draft, by that number and by whether the next step
    accepted its first token. After drafts of k that were accepted whole there were `followers` steps, and `first` of
    those accepted their first token. `last` is how many of as many drafts of the same request would accept their k-th
    token, once they came as far. It is taken from the request's other drafts: the luck by which this one was full must
    not count.
    """

    first: float = 0.0
    last: float = 0.0
    followers: float = 0.0
    pairs: Counter[tuple[int, bool]] = field(default_factory=Counter)

    @classmethod
    def of(cls, steps: Sequence[int], k: int) -> Evidence:
        """Return what a request's coded steps give."""
        pairs = Counter[tuple[int, bool]]()
        for (before, step), count in Counter(pairwise(steps)).items():
            # A step that proposed nothing, k + 1, tried no place.
            if before <= k and step != k + 1:
                pairs[before, step > 0] += count
        full = steps.count(k)
        at_risk = full + steps.count(k - 1)
        if not full or at_risk < 2:
            return cls(pairs=pairs)
        first, followers = pairs[k, True], pairs[k, True] + pairs[k, False]
        return cls(first, followers * (full - 1) / (at_risk - 1), followers, pairs)

    def plus(self, other: Evidence) -> Evidence:
        """Return the evidence of both."""
        first, last, followers = self.first + other.first, self.last + other.last, self.followers + other.followers
        return Evidence(first, last, followers, self.pairs + other.pairs)

    def behind(self, k: int, decay: float) -> tuple[float, float]:
        """Return how often the first and the second place behind right tokens were right, as if all at position 1.

        It is the sum over drafts that came to m right tokens, for each m of the upper half of a draft.
        """
        nearer = [decay**-position for position in range(k)]
        first = second = 0.0
        for (accepted, right), count in self.pairs.items():
            for before in range((k - 2) // 2, min(accepted, k - 2) + 1):
                if accepted == before:
                    second += count * right
                    continue
                first += count * nearer[before]
                if accepted > before + 1:
                    second += count * nearer[before + 1]
        return first, second


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
        learnt = reduce(Evidence.plus, evidence, Evidence())
        if len(by_position) < 2 or not learnt.first or not learnt.last:
            return cls(by_position, by_position[-1] if by_position else 0.0)
        return cls(by_position, learnt.last / learnt.followers, _decay(learnt, len(by_position)), learnt)

    @property
    def k(self) -> int:
        """The draft length of the run."""
        return len(self.by_position)

    def nudged_positions(self, nudge: float) -> Iterator[Chances]:
        """Yield the chances with one position's lower, for each position."""
        for place, chance in enumerate(self.by_position):
            lower = *self.by_position[:place], chance - nudge, *self.by_position[place + 1 :]
            yield replace(self, by_position=lower)

    def moved_by(self, given: Iterable[Evidence]) -> Iterator[tuple[float, float]]:
        """Yield how far each prompt's evidence moves `after_full` and `decay` (linearised: all prompts' add to 0)."""
        learnt, k = self.learnt, self.k
        if learnt is None:
            yield from ((0.0, 0.0) for _ in given)
            return
        first, second = learnt.behind(k, self.decay)
        log_decay = math.log(self.decay)
        slope = (_surplus(learnt, k, log_decay) - _surplus(learnt, k, log_decay - _NUDGE)) / _NUDGE
        for each in given:
            own_first, own_second = each.behind(k, self.decay)
            moved = each.last / learnt.last - each.first / learnt.first + own_second / second - own_first / first
            yield (each.last - self.after_full * each.followers) / learnt.followers, self.decay * moved / slope


def _decay(learnt: Evidence, k: int) -> float:
    """Return the factor of each position in the draft, between `_LEAST_DECAY` and 1.

    The k-th token of a draft is right `last` times and the first token of the next draft, as often tried, `first`
    times. They are k - 1 positions apart. But the first is also two places behind the last token that was seen to be
    right and the k-th only one, which counts where text changes from easy to hard within few tokens. Other drafts say
    by how much.
    """
    low, high = math.log(_LEAST_DECAY), 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if _surplus(learnt, k, middle) > 0 else (middle, high)
    return math.exp(low if low == math.log(_LEAST_DECAY) else high)


def _surplus(learnt: Evidence, k: int, log_decay: float) -> float:
    """Return by how much a decay is too large, as a logarithm of chances; it increases with the decay."""
    first, second = learnt.behind(k, math.exp(log_decay))
    return (k - 1) * log_decay - math.log(learnt.last / learnt.first * second / first)
