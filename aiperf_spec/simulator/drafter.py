"""Draw what a speculative decoder would have done, from a seed and nothing else."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from typing import Literal

POSITION_DECAY = 0.93
SHORT_DRAFT_SHARE = 0.04
EASE = 4.0
"""By how much easy text raises the odds that a draft token is accepted; hard text divides them by as much."""

# Natural lengths are log-normal, so that some answers end by themselves under any limit.
_LENGTH_MEDIAN = 110
_LENGTH_SIGMA = 0.8
_LENGTH_FLOOR = 4


@dataclass(frozen=True, slots=True)
class Draw:
    """Hold one sequence: what each verify step proposed and accepted, and what came out.

    `chunks` counts the tokens of each chunk: the prefill token, then one chunk a step. The last chunk is
    cut at the length of the sequence, while the last step counts in full, as engines count it. `undrafted`
    names the steps, from 1, that ran without a draft: they verified nothing and gave one token.
    """

    accepted: tuple[int, ...]
    drafted: tuple[int, ...]
    chunks: tuple[int, ...]
    finish_reason: Literal["stop", "length"]
    undrafted: tuple[int, ...] = ()

    @property
    def steps(self) -> int:
        """Return the number of verify steps."""
        return len(self.accepted)

    @property
    def decode_steps(self) -> int:
        """Return the number of steps after prefill, those without a draft included."""
        return len(self.chunks) - 1

    @property
    def num_accepted(self) -> int:
        """Return the number of accepted draft tokens."""
        return sum(self.accepted)

    @property
    def num_drafted(self) -> int:
        """Return the number of proposed draft tokens."""
        return sum(self.drafted)

    @property
    def completion_tokens(self) -> int:
        """Return the number of tokens in the output, the end-of-sequence token included."""
        return sum(self.chunks)

    def dense_histogram(self, length: int) -> list[int]:
        """Count the steps by how many tokens they accepted, as a list of at least `length` buckets."""
        counts = Counter(self.accepted)
        return [counts[j] for j in range(max(length, max(counts, default=-1) + 1))]

    def head(self, steps: int) -> Draw:
        """Return the same sequence as it stood after its first `steps` steps."""
        undrafted = self.undrafted[: bisect_right(self.undrafted, steps)]
        verified = max(0, steps - len(undrafted))
        chunks = self.chunks[: steps + 1]
        return Draw(self.accepted[:verified], self.drafted[:verified], chunks, self.finish_reason, undrafted)


def digest(*parts: object) -> int:
    """Hash the parts into an integer that is the same in every process."""
    hasher = blake2b(digest_size=16)
    for part in parts:
        data = str(part).encode("utf-8", "surrogatepass")
        hasher.update(len(data).to_bytes(8, "big"))
        hasher.update(data)
    return int.from_bytes(hasher.digest(), "big")


def uniform(*parts: object) -> float:
    """Return a number in 0..1 (1 excluded) that the parts alone decide."""
    return (digest(*parts) >> 75) / (1 << 53)


def acceptance_curve(first: float, draft_length: int) -> tuple[float, ...]:
    """Return the probability that position i is accepted given those before it: first * decay^(i - 1)."""
    return tuple(first * POSITION_DECAY**i for i in range(draft_length))


def easy_places(seed: int, places: int, mean: int) -> list[bool]:
    """Say of each place in an output whether its text is easy: stretches of easy and hard text by turns.

    A stretch has `mean` tokens on average. The seed of the sequence alone decides, so that drafts of any length meet
    the same text.
    """
    rng = Random(seed ^ 0x7E87)
    easy = [rng.random() < 0.5]
    for _ in range(places - 1):
        easy.append(easy[-1] ^ (rng.random() < 1 / mean))
    return easy


def natural_length(seed: int) -> int:
    """Return the number of tokens after which the sequence would end by itself."""
    length = math.exp(math.log(_LENGTH_MEDIAN) + _LENGTH_SIGMA * Random(seed ^ 0x1E17).gauss(0.0, 1.0))
    return max(_LENGTH_FLOOR, round(length))


def draw_sequence(
    seed: int,
    *,
    first_acceptance: float,
    draft_length: int,
    max_tokens: int,
    min_tokens: int = 0,
    ignore_eos: bool = False,
    short_drafts: bool = False,
    stretch_tokens: int | None = None,
    undrafted_share: float = 0.0,
    pads_drafts: bool = False,
    drafts_to_limit: bool = False,
) -> Draw:
    """Draw one sequence of at most `max_tokens` tokens.

    Prefill gives the first token and every verify step its accepted tokens and one more. Steps do not
    depend on the limit: a shorter limit sees a prefix of the same steps. `short_drafts` lets a step
    propose fewer than `draft_length` tokens, as an n-gram drafter does when its match runs out.
    `stretch_tokens` gives the text stretches of this mean length, easy and hard by turns. In
    `undrafted_share` of the steps the drafter finds nothing; an engine that `pads_drafts` then verifies a
    full draft of padding, of which it accepts nothing. `drafts_to_limit` keeps the last drafts within
    `max_tokens`, so that no limit cuts what a step accepted, and the last token may have no draft. A `draft_length` of
    0 leaves every step without one.
    """
    rng, found = Random(seed), Random(seed ^ 0x5117)
    curve = acceptance_curve(first_acceptance, draft_length)
    limit = max(1, max_tokens)
    natural = max(natural_length(seed), min_tokens)
    ends_itself = not ignore_eos and natural <= limit
    accepted: list[int] = []
    drafted: list[int] = []
    undrafted: list[int] = []
    chunks = [1]
    length = natural if ends_itself else limit
    easy = easy_places(seed, length + draft_length, stretch_tokens) if stretch_tokens else []
    left = length - 1
    while left > 0:
        room = limit - (length - left) - 1 if drafts_to_limit else draft_length
        if found.random() < undrafted_share or not (room and draft_length):
            if pads_drafts and draft_length:
                drafted.append(draft_length)
                accepted.append(0)
            else:
                undrafted.append(len(chunks))
            chunks.append(1)
            left -= 1
            continue
        proposed = _proposed(rng, draft_length, first=not drafted) if short_drafts else min(draft_length, room)
        drafted.append(proposed)
        chances = curve[:proposed]
        if easy:
            places = easy[length - left : length - left + proposed]
            factors = (EASE if place else 1 / EASE for place in places)
            chances = tuple(map(_with_odds, chances, factors))
        accepted.append(_leading_successes(rng, chances))
        chunks.append(min(left, accepted[-1] + 1))
        left -= chunks[-1]
    reason: Literal["stop", "length"] = "stop" if ends_itself else "length"
    return Draw(tuple(accepted), tuple(drafted), tuple(chunks), reason, tuple(undrafted))


def _proposed(rng: Random, draft_length: int, *, first: bool) -> int:
    short = rng.random() < (0.5 if first else SHORT_DRAFT_SHARE)
    return rng.randint(1, draft_length) if short else draft_length


def _with_odds(chance: float, factor: float) -> float:
    return chance * factor / (chance * factor + 1 - chance)


def _leading_successes(rng: Random, curve: tuple[float, ...]) -> int:
    # Every position is drawn, accepted or not, so that a step consumes the same amount of randomness
    # and a change of the acceptance leaves the later steps comparable.
    draws = [rng.random() for _ in curve]
    return next((index for index, value in enumerate(draws) if value >= curve[index]), len(curve))
