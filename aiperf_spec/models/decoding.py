"""The decode steps of a response: those that verified a draft, and those that ran without one."""

from __future__ import annotations

from math import sqrt
from typing import Generic, NamedTuple, TypeVar

from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.identities import undrafted_steps
from aiperf_spec.models.run import RequestRecord

_DRAFTED_THROUGHOUT = 0.99
_AT_LIMIT = "length"


def some_undrafted(drafted_share: float | None) -> bool:
    """Say whether so many decode steps had no draft (verify steps / decode steps) that verify steps alone mislead."""
    return drafted_share is not None and drafted_share < _DRAFTED_THROUGHOUT


N = TypeVar("N", int, float)


class Decoding(NamedTuple, Generic[N]):
    """What the engine decoded after the prompt, whose own pass gives the first token.

    An engine may count only the steps that verified a draft (vLLM does). A drafter that often finds nothing, such as
    n-gram, then leaves steps uncounted that decoded one token each: `undrafted_steps`.

    They follow from the tokens: every decoded token that no verify step gave came from a step of its own. A last step
    that is cut at a limit or a stop gives fewer tokens than it counts, and hides as many undrafted steps. No response
    says how many; they are at most the drafts that this step accepted, so the truth lies between `undrafted_steps` and
    `undrafted_at_most`. Where `undrafted_steps` is 0 in every response of a run, its drafter drafts for every step.
    As an average over responses like this one, it need not be whole.
    """

    tokens: int
    """Completion tokens, by the engine's own count: a tokenizer's differs from what steps gave."""
    accepted: int
    """Accepted draft tokens."""
    verify_steps: int
    undrafted_steps: N
    undrafted_at_most: int

    @property
    def steps(self) -> N:
        """All decode steps."""
        return self.verify_steps + self.undrafted_steps

    @property
    def given(self) -> N:
        """The tokens that the steps gave, those cut off included."""
        return self.accepted + self.steps


def decoding(record: RequestRecord) -> Decoding[int] | None:
    """Return what is known of a request's decode steps.

    None where the engine reported nothing of speculation or counted no tokens. One that reported that no verify step
    ran decoded every token without a draft.
    """
    report = record.acceptance
    if report is None:
        usage = record.usage if record.drop_reason is DropReason.ZERO_STEP else None
        tokens = None if usage is None else usage.completion_tokens
        return Decoding(tokens, 0, 0, tokens - 1, tokens - 1) if tokens else None
    if not report.completion_tokens:
        return None
    tokens, accepted, steps = report.completion_tokens, report.num_accepted_draft_tokens, report.num_spec_steps
    cut = report.per_step_accepted[-1] if report.per_step_accepted else max(report.acceptance_histogram, default=0)
    least, most = undrafted_steps(tokens, accepted, steps), undrafted_steps(tokens, accepted - cut, steps)
    return Decoding(tokens, accepted, steps, least, most)


def ran_undrafted(record: RequestRecord) -> bool:
    """Say whether a step of the request is known to have run without a draft, at a fraction of `decoding`'s cost."""
    report = record.acceptance
    if report is not None and report.completion_tokens:
        return undrafted_steps(report.completion_tokens, report.num_accepted_draft_tokens, report.num_spec_steps) > 0
    found = decoding(record)
    return found is not None and found.undrafted_steps > 0


def likely_steps(record: RequestRecord, *, most: bool) -> Decoding[float] | None:
    """Return the decode steps that there were on average over responses like this one.

    A limit of tokens falls on every token of a response alike, so a verify step that gave j + 1 tokens is cut j + 1
    times as often as one that gave a single token, by 0 to j tokens, each as likely: sum(j (j + 1) / 2) / tokens given
    is what is cut on average. Nothing is known of a cut at a stop or at the end of the text: then there are as few
    steps as `decoding` counts, or as many as there may have been, where `most` is set.
    """
    found, report = decoding(record), record.acceptance
    if found is None:
        return None
    if report is None or record.finish_reason != _AT_LIMIT:
        bound = found.undrafted_at_most if most else found.undrafted_steps
        return Decoding(found.tokens, found.accepted, found.verify_steps, float(bound), found.undrafted_at_most)
    kept = found.tokens - 1
    weight = sum(count * steps * (count + 1) / 2 for count, steps in report.acceptance_histogram.items())
    cut = (sqrt(kept * kept + 4 * weight) - kept) / 2  # cut = weight / (kept + cut): the steps gave what was cut, too
    # One response may come out below zero, and their sum be right: most responses of a drafter that misses little do.
    undrafted = max(kept - found.accepted - found.verify_steps + cut, 1 - found.verify_steps)
    return Decoding(found.tokens, found.accepted, found.verify_steps, undrafted, found.undrafted_at_most)
