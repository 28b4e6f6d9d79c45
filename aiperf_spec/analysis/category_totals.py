"""Acceptance of a category as running sums, in bounded memory whatever the number of requests."""

from dataclasses import dataclass, field, replace
from typing import Self

from aiperf_spec.analysis.intervals import Estimate, as_length, as_rate, missing, ratio
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.models.prompt_sums import PromptSums


@dataclass(slots=True)
class CategoryTotals:
    """Sums over the requests of a category that have an acceptance record.

    Two pools of different requests add up to the pool of all of them, exactly: every sum is a whole number. `prompts`
    holds the same four by prompt, for the intervals; it is empty where a source does not name requests.
    """

    requests: int = 0
    accepted: int = 0
    steps: int = 0
    proposed: int = 0
    prompts: PromptSums = field(default_factory=PromptSums)

    @classmethod
    def of(cls, prompts: PromptSums) -> Self:
        """Return the totals of all prompts."""
        requests, accepted, steps, proposed = (prompts.total(place) for place in range(4))
        return cls(requests, accepted, steps, proposed, prompts)

    def add(self, prompt: str, accepted: int, steps: int, proposed: int | None) -> None:
        """Add one request; `prompt` is its `prompt_key`, `proposed` None where it does not count that."""
        self.requests += 1
        self.accepted += accepted
        self.steps += steps
        self.proposed += proposed or 0
        self.prompts.add(prompt, 1, accepted, steps, proposed)

    def merge(self, other: Self) -> None:
        """Add another pool's requests."""
        self.requests += other.requests
        self.accepted += other.accepted
        self.steps += other.steps
        self.proposed += other.proposed
        self.prompts.merge(other.prompts)

    def length(self) -> Estimate:
        """Return 1 + sum(accepted) / sum(steps) with its 95 % interval."""
        return as_length(self._share(2, self.steps))

    def rate(self) -> Estimate:
        """Return sum(accepted) / sum(proposed), in percent, with its 95 % interval."""
        if not self.prompts.proposed_counted:
            return missing(Missing.PROPOSED_NOT_COUNTED)
        return as_rate(self._share(3, self.proposed))

    def _share(self, place: int, total: int) -> Estimate:
        if not total:
            return missing(Missing.NO_RECORDS)
        # As in the analysis, a prompt for which nothing was proposed says nothing of a rate.
        terms = (each for each in self.prompts.terms(place) if each[1])
        return replace(ratio(terms), value=self.accepted / total)
