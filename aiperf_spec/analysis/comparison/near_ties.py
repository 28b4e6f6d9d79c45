"""Whether two answers part where the base all but chose the candidate's token itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from aiperf_spec.models.response import Answer, TokenChoice

NEAR_TIE_NATS = 0.1
"""Up to so far apart, two log-probabilities are a near-tie: rounding in another order may turn it."""


class Untold(StrEnum):
    """Why it is not known whether a place is a near-tie."""

    NO_EVENTS = "no events kept"
    NO_LOGPROBS = "no log-probabilities in the base"
    NOT_HERE = "none listed at the place"
    NO_TOKENS = "no tokens listed in the candidate"
    OTHER_TEXT = "tokens listed that are not the answer's"
    UNLISTED = "the candidate's token not among those listed"
    NOT_CHOSEN_BY = "the base's token chosen by more than its log-probability"
    SAMPLED = "sampled answers"


@dataclass(slots=True, frozen=True)
class Place:
    """What the base's log-probabilities say of the token at which two answers part.

    `gap` is the base's token less the candidate's in nats; where the candidate's is not listed, less the least likely
    one listed, and the true gap is larger. `near_tie` is None where that cannot be told, and `untold` says why.
    """

    near_tie: bool | None = None
    gap: float | None = None
    untold: Untold | None = None


def place_of(base: Answer, candidate: Answer, shared: str) -> Place:
    """Return the place at which two answers part that share these first characters.

    The place is the first token that differs.
    """
    mine, theirs = base.choices, candidate.choices
    if base.temperature or candidate.temperature:
        return Place(untold=Untold.SAMPLED)
    if not mine or not theirs:
        return Place(untold=Untold.NO_EVENTS)
    if not any(choice.others for choice in mine):
        return Place(untold=Untold.NO_LOGPROBS)
    at = next((at for at, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a.token != b.token), None)
    at = min(len(mine), len(theirs)) if at is None else at
    if not _begins(shared, mine[:at]):
        return Place(untold=Untold.OTHER_TEXT)
    if at == len(mine) or mine[at].logprob is None:
        return Place(untold=Untold.NOT_HERE)
    other = theirs[at] if at < len(theirs) else None
    if other is not None and other.logprob is None and _may_share_token(mine[at].token, other.token):
        return Place(untold=Untold.NO_TOKENS)
    return _judged(mine[at], other)


def _may_share_token(token: bytes, text: bytes) -> bool:
    return token.startswith(text) or text.startswith(token)


def _begins(shared: str, choices: Sequence[TokenChoice]) -> bool:
    # A character may be cut between two tokens. Some servers strip the blank that the first token begins with.
    before = b"".join(choice.token for choice in choices).decode("utf-8", "ignore")
    return shared.lstrip().startswith(before.lstrip())


def _judged(base: TokenChoice, candidate: TokenChoice | None) -> Place:
    assert base.logprob is not None
    listed = dict(base.others)
    known = None if candidate is None else listed.get(candidate.token)
    gap = base.logprob - (min(listed.values()) if known is None else known)
    if gap > NEAR_TIE_NATS:
        return Place(near_tie=False, gap=gap)
    if known is None:
        return Place(untold=Untold.UNLISTED)
    if gap < -NEAR_TIE_NATS:
        return Place(untold=Untold.NOT_CHOSEN_BY)  # by a penalty or a grammar, say
    return Place(near_tie=True, gap=gap)
