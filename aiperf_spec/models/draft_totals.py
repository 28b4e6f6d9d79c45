"""What is known of a request whose engine counts drafts and not verify steps: totals, kept apart from records."""

from __future__ import annotations

from dataclasses import dataclass

from aiperf_spec.models.identities import MAX_COUNT


@dataclass(slots=True, frozen=True, kw_only=True)
class DraftTotals:
    """Hold what one request proposed and accepted in all, and between which numbers its verify steps lie.

    No figure of `SpecDecodeAcceptanceRecord`s is made of it: there is no histogram, and often no length. Raises
    `ValueError` for what are no counts, or counts that contradict each other.
    """

    engine: str
    """The adapter's name for the engine."""
    num_draft_tokens: int
    """Proposed draft tokens."""
    num_accepted_draft_tokens: int
    fewest_steps: int
    """Verify steps, at the least; the same as `most_steps` where the engine counts them."""
    most_steps: int
    completion_tokens: int | None = None
    whole_batch: bool = False
    """Whether the engine counts over all requests that ran at the time: such totals are one request's only where it
    ran alone."""

    def __post_init__(self) -> None:
        proposed, accepted, fewest, most = counts = (
            self.num_draft_tokens,
            self.num_accepted_draft_tokens,
            self.fewest_steps,
            self.most_steps,
        )
        if any(
            type(count) is not int or not 0 <= count <= MAX_COUNT for count in (*counts, self.completion_tokens or 0)
        ):
            raise ValueError("a count must be an integer, and none below zero")
        if accepted > proposed:
            raise ValueError("more draft tokens accepted than proposed")
        if not fewest <= most <= proposed or (proposed and not fewest):
            raise ValueError("steps that these drafts cannot make")
