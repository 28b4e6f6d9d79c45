"""Acceptance of a category from running sums, in bounded memory whatever the number of requests."""

from dataclasses import dataclass
from typing import Self

from aiperf_spec.analysis.intervals import Estimate, as_length, as_rate, missing, ratio
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.models.prompt_sums import PromptSums


@dataclass(slots=True)
class CategoryTotals(PromptSums):
    """Sums over the requests of a category that have an acceptance record.

    Two pools of different requests add up to the pool of all of them, exactly: every sum is a whole number.
    """

    @classmethod
    def unnamed(cls, requests: int, accepted: int, steps: int, proposed: int | None) -> Self:
        """Return the totals of a source that does not tell prompts apart, and so gives no interval."""
        totals = cls()
        totals.add("", requests, accepted, steps, proposed)
        return totals

    def length(self) -> Estimate:
        """Return 1 + sum(accepted) / sum(steps) with its 95 % interval."""
        return as_length(ratio(self.terms(2)))

    def rate(self) -> Estimate:
        """Return sum(accepted) / sum(proposed), in percent, with its 95 % interval."""
        if not self.proposed_counted:
            return missing(Missing.PROPOSED_NOT_COUNTED)
        # As in the analysis, a prompt for which nothing was proposed says nothing of a rate.
        return as_rate(ratio(each for each in self.terms(3) if each[1]))
