"""What a shorter draft would have given, modelled from one run: an estimate, never a measurement.

Each request's steps are replayed with drafts of k' tokens, for k' <= k, never beyond: length(k') = tokens / replayed
steps. Where an engine reports no single steps, its histogram stands in, and the estimate is rough. With a draft cost c
(draft time per token / target time per step), speed-up(k') = decoded tokens / (replayed steps x (1 + c k') + steps that
ran without a draft).
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from aiperf_spec.adapters.engines import known_engines
from aiperf_spec.analysis.clusters import Terms, prompt_of
from aiperf_spec.analysis.intervals import Estimate, Ratio, estimate, linearised, missing, scatter
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.positions import Drafting, Tallies
from aiperf_spec.analysis.step_replay import Replays
from aiperf_spec.models.decoding import decoding
from aiperf_spec.models.run import RequestRecord

_SUDDEN_END = 100
"""Steps at risk, none of which went on: with c = 0.03 that happens to a chain in 5 runs of 100."""
_STILL_ALIVE = 0.1
_ROUGH = 0.2
"""How far a length from histograms may lie from that of the replay, as a share of the length less 1, at k' = 1; less in
proportion to k - k'. `tests/bench/what_if.py` finds up to 0.15 where text is easy and hard by turns."""
_ROUGH_WHERE_SHORT = 0.1
"""The same for drafts that end short, such as an n-gram drafter's: what it proposes depends on where a draft begins and
not on the text alone. `tests/engines/test_what_if.py` finds up to 0.09."""


@dataclass(slots=True, frozen=True)
class DraftLength:
    """What drafts of `k` tokens would have given.

    `length` supposes that every step which proposes proposes k. `as_drafted` supposes that drafts which ended short
    still do, as those of a drafter whose match has run out; the two are one where all drafts are full. `speedup` is of
    `length`, over all decode steps; None without a draft cost.
    """

    k: int
    length: Estimate
    as_drafted: Estimate
    speedup: Estimate | None = None


@dataclass(slots=True, frozen=True)
class WhatIf:
    """The modelled lengths for k' = 1..k, or the reason why there are none.

    `best` is the k' of the largest modelled speed-up, 0 where not speculating at all is faster; `ties` are the other
    k' whose speed-up does not differ from it at 95 %. Both are None and empty without a draft cost. `rough` says that
    there are requests without figures of single steps, or drafts that ended short of k; intervals are then wider by the
    error that this may make.
    `decay` is the factor on a draft token's chance for each further position in the draft.
    """

    drafting: Drafting
    lengths: tuple[DraftLength, ...] = ()
    reason: Missing | None = None
    draft_cost: float | None = None
    best: int | None = None
    ties: tuple[int, ...] = ()
    rough: bool = False
    decay: float | None = None


def refusal(
    records: Sequence[RequestRecord], known: Drafting, tallies: Tallies, *, assume_chain: bool
) -> Missing | None:
    """Return why no shorter draft can be modelled; None where it can.

    The record does not name the kind of drafter. It shows a tree where more was proposed than k a step, or where
    acceptance ends abruptly short of k (at least 100 steps at risk of position i, none of which accepted it, after a
    position with c >= 0.1). A block drafter cannot be told from a chain by any record: who uses one has to know. An
    engine whose adapter does not say that it drafts chains is refused too. --assume-chain lifts all of these.
    """
    if not known.at_risk_known:
        return known.reason
    if assume_chain:
        return None
    chains = {name for name, engine in known_engines().items() if engine.drafts_chains}
    if any(record.acceptance and record.acceptance.engine not in chains for record in records):
        return Missing.UNKNOWN_DRAFTER
    before = 0.0
    for at_risk, reached in zip(tallies.at_risk, tallies.reached, strict=True):
        risk, accepted = sum(at_risk), sum(reached)
        if risk >= _SUDDEN_END and not accepted and before >= _STILL_ALIVE:
            return Missing.LOOKS_LIKE_A_TREE
        before = accepted / risk if risk else 0.0
    return None


def what_if(
    records: Sequence[RequestRecord],
    known: Drafting,
    tallies: Tallies,
    *,
    draft_cost: float | None = None,
    assume_chain: bool = False,
) -> WhatIf:
    """Return the modelled length for every k' <= k, with intervals over prompts as those of every ratio.

    From the first k' on that no step proposed, though some came as far, the figures are None.
    """
    if (reason := refusal(records, known, tallies, assume_chain=assume_chain)) is not None:
        return WhatIf(known, reason=reason, draft_cost=draft_cost)
    k = len(tallies.reached)
    model = Replays(records, tallies)
    undrafted = {} if draft_cost is None else _undrafted(records)
    lengths: list[DraftLength] = []
    speeds: dict[int, tuple[Ratio, float]] = {}
    for shorter in range(1, k + 1):
        if not sum(tallies.at_risk[shorter - 1]) and all(model.chances.by_position[: shorter - 1]):
            nothing = missing(Missing.NONE_AT_RISK)
            lengths += [DraftLength(each, nothing, nothing) for each in range(shorter, k + 1)]
            break
        error = 0.0 if known.full else _ROUGH_WHERE_SHORT
        if model.rough and k > 1:
            error = max(error, _ROUGH * (k - shorter) / (k - 1))
        terms = model.at(shorter)
        length = as_drafted = _length(terms, shorter, error)
        if not known.full:
            as_drafted = _length(model.at(shorter, short_stay=True), shorter, error * (shorter < k))
        speedup = None
        if draft_cost is not None:
            speed = _speed(undrafted, terms, 1 + draft_cost * shorter)
            # What makes the length wrong makes the speed-up wrong by the same share, or less.
            error *= speed.value * (1 - 1 / length.value) if length.value else 0.0
            speeds[shorter] = speed, error
            speedup = _widened(speed.estimate(), error)
        lengths.append(DraftLength(shorter, length, as_drafted, speedup))
    best, ties = _best(speeds)
    return WhatIf(
        known, tuple(lengths), None, draft_cost, best, ties, model.rough or not known.full, model.chances.decay
    )


def _length(terms: Mapping[str, Terms], k: int, error: float) -> Estimate:
    length = linearised(terms.values()).estimate()
    return _widened(length, error * ((length.value or 1) - 1)).within(1, 1 + k)


def _widened(figure: Estimate, error: float) -> Estimate:
    if figure.low is None or figure.high is None:
        return figure
    return replace(figure, low=figure.low - error, high=figure.high + error)


def _undrafted(records: Sequence[RequestRecord]) -> dict[str, int]:
    """Return the decode steps of each prompt that ran without a draft."""
    steps: dict[str, int] = {}
    for record in records:
        found, prompt = decoding(record), prompt_of(record)
        steps[prompt] = steps.get(prompt, 0) + (0 if found is None else found.undrafted_steps)
    return steps


def _speed(undrafted: Mapping[str, int], terms: Mapping[str, Terms], step_cost: float) -> Ratio:
    prompts = ((alone, *terms.get(prompt, (0.0, 0.0))) for prompt, alone in undrafted.items())
    return linearised(
        (tokens + alone, steps * step_cost + alone) for alone, tokens, steps in prompts if tokens or alone
    )


def _best(speeds: Mapping[int, tuple[Ratio, float]]) -> tuple[int | None, tuple[int, ...]]:
    if not speeds:
        return None, ()
    best = max((0, *speeds), key=lambda k: (speeds[k][0].value if k else 1.0, -k))
    some = next(iter(speeds.values()))[0]
    none = replace(some, value=1.0, terms=array("d", bytes(8 * some.n))), 0.0
    (mine, mine_error) = speeds.get(best, none)
    ties = []
    for k in (0, *speeds):
        other, error = speeds.get(k, none)
        apart = [one - two for one, two in zip(mine.terms, other.terms, strict=True)]
        difference = estimate(mine.value - other.value, scatter(apart), some.n, some.df, size=1)
        if k != best and (difference.low is None or difference.low - mine_error - error <= 0):
            ties.append(k)
    return best, tuple(ties)
