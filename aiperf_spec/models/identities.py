"""What has to hold between the figures of an acceptance record, whoever made it and wherever it is read."""

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import gt, mul

MAX_COUNT = 2**53 - 1
"""The largest count a record holds: beyond it JSON readers lose digits, so the figure could not be checked."""
MAX_DRAFT = 10_000
"""The longest draft: figures by position are made for each, and no drafter comes near it."""
ROUNDING = 0.005
"""What rounding to two decimals may add to a length or a rate, or take from it."""


def undrafted_steps(tokens: int, accepted: int, steps: int) -> int:
    """Return how many decode steps ran without a draft, at the least.

    They gave the completion tokens that neither the prompt's own pass nor a verify step gave, one each.
    """
    return max(0, tokens - 1 - accepted - steps)


def check_identities(
    *,
    histogram: Mapping[int, int],
    steps: int,
    accepted: int,
    proposed: int,
    bound: int | None,
    length: float,
    rate: float,
    per_step_accepted: Sequence[int] | None,
    per_step_proposed: Sequence[int] | None,
) -> None:
    """Raise `ValueError` where figures contradict each other; names and units are `SpecDecodeAcceptanceRecord`'s."""
    times = histogram.values()
    if not all(times):
        raise ValueError("acceptance_histogram holds a zero bucket")
    if sum(times) != steps:
        raise ValueError("acceptance_histogram does not sum to num_spec_steps")
    if sum(map(mul, histogram, times)) != accepted:
        raise ValueError("acceptance_histogram does not weigh up to num_accepted_draft_tokens")
    if accepted > proposed:
        raise ValueError("more draft tokens accepted than proposed")
    if steps == 0 and proposed:
        raise ValueError("draft tokens without a verify step")
    if not sent_figures_hold(histogram, accepted, proposed, bound, length, rate):
        raise ValueError("a length or a rate that these counts cannot have")
    if bound is not None and max(histogram, default=0) > bound:
        raise ValueError("a histogram bucket exceeds num_spec_tokens")
    if bound is not None and max(per_step_proposed or (), default=0) > bound:
        raise ValueError("a step proposed more than num_spec_tokens")
    for name, entries, total in (
        ("per_step_accepted", per_step_accepted, accepted),
        ("per_step_drafted", per_step_proposed, proposed),
    ):
        if entries is not None and len(entries) != steps:
            raise ValueError(f"{name} has not one entry a verify step")
        if entries is not None and sum(entries) != total:
            raise ValueError(f"{name} does not sum to its total")
    if per_step_accepted is None:
        return
    if Counter(per_step_accepted) != histogram:
        raise ValueError("per_step_accepted is not what acceptance_histogram counts")
    if per_step_proposed is not None and any(map(gt, per_step_accepted, per_step_proposed)):
        raise ValueError("a step accepted more than it proposed")


def check_by_proposed(found: Mapping[int, Mapping[int, int]], histogram: Mapping[int, int], proposed: int) -> None:
    """Raise `ValueError` where a histogram for each proposed length does not add up to the one of all steps."""
    among: Counter[int] = Counter()
    for accepted in found.values():
        among.update(accepted)
    if +among != Counter(histogram) or any(max(accepted, default=0) > length for length, accepted in found.items()):
        raise ValueError("histogram_by_proposed is not what acceptance_histogram counts")
    if sum(length * sum(accepted.values()) for length, accepted in found.items()) != proposed:
        raise ValueError("histogram_by_proposed does not weigh up to num_draft_tokens")


def sent_figures_hold(
    histogram: Mapping[int, int], accepted: int, proposed: int, bound: int | None, length: float, rate: float
) -> bool:
    """Say whether a sent length is one of steps that emit k + 1 tokens at most, and a sent rate that of the counts.

    A length may differ from the counts otherwise: some engines count the tokens that were kept. Without k, no step
    emitted more than the largest bucket and a token.
    """
    most = bound if bound is not None else max(histogram, default=0)
    if proposed == 0 and rate > 0:
        return False
    return length <= most + 1 and abs(rate * proposed - accepted) <= ROUNDING * proposed
