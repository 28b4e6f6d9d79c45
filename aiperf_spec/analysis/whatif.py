"""What a shorter draft would have given, modelled from one run: an estimate, never a measurement.

S'(i) = product of c(1..i); length(k') = 1 + sum(S'(1..k')) for k' <= k, never beyond. With a draft cost c (draft time
per token / target time per step), speed-up(k') = length(k') / (1 + c k').
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from aiperf_spec.adapters.registry import known_engines
from aiperf_spec.analysis.intervals import Estimate, as_length, effective_number, estimate, missing, ratio, scatter
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.positions import Drafting, Tallies
from aiperf_spec.models.run import RequestRecord

_SUDDEN_END = 100
"""Steps at risk, none of which went on: with c = 0.03 that happens to a chain in 5 runs of 100."""
_STILL_ALIVE = 0.1


@dataclass(slots=True, frozen=True)
class DraftLength:
    """What drafts of `k` tokens would have given.

    `length` supposes that every step proposes k. `as_drafted` = 1 + sum(S(1..k)) supposes that steps which proposed
    fewer than k still do, as a drafter does whose match has run out; the two are one where all drafts are full.
    `speedup` is None without a draft cost.
    """

    k: int
    length: Estimate
    as_drafted: Estimate
    speedup: Estimate | None = None


@dataclass(slots=True, frozen=True)
class WhatIf:
    """The modelled lengths for k' = 1..k, or the reason why there are none.

    `best` is the k' of the largest modelled speed-up, 0 where not speculating at all is faster; `ties` are the other
    k' whose speed-up does not differ from it at 95 %. Both are None and empty without a draft cost.
    """

    drafting: Drafting
    lengths: tuple[DraftLength, ...] = ()
    reason: Missing | None = None
    draft_cost: float | None = None
    best: int | None = None
    ties: tuple[int, ...] = ()


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
    """Return the modelled length for every k' <= k, with the jackknife's intervals: each prompt is left out once.

    From where S' is 0, longer drafts add nothing; where no step proposed as many, the figure is None.
    """
    if (reason := refusal(records, known, tallies, assume_chain=assume_chain)) is not None:
        return WhatIf(known, reason=reason, draft_cost=draft_cost)
    modelled, terms, df = _modelled(tallies)
    lengths = []
    for k, length in enumerate(modelled, start=1):
        speedup = None if draft_cost is None else length.scaled(1 / (1 + draft_cost * k))
        lengths.append(DraftLength(k, length, as_length(ratio(tallies.accepted_within(k))), speedup))
    best, ties = _best(lengths, terms, draft_cost, df)
    return WhatIf(known, tuple(lengths), draft_cost=draft_cost, best=best, ties=ties)


def _modelled(tallies: Tallies) -> tuple[list[Estimate], list[array[float]], float]:
    # terms[k' - 1] holds, by cluster, length(k') less what it is without the cluster.
    survival, length = 1.0, 1.0
    steps = [b for _, b in tallies.risks(1)] if tallies.reached else []
    df = effective_number(steps) - 1 if any(steps) else 0.0
    survival_left, total = array("d", (1.0 for _ in steps)), array("d", (0.0 for _ in steps))
    lengths: list[Estimate] = []
    terms: list[array[float]] = []
    for position, (reached, at_risk) in enumerate(zip(tallies.reached, tallies.at_risk, strict=True), start=1):
        accepted, risk = sum(reached), sum(at_risk)
        if survival and not risk:
            break
        conditional = accepted / risk if risk else 0.0
        left = (((accepted - a) / (risk - b) if risk > b else conditional) for a, b in tallies.risks(position))
        survival_left = array("d", (s * c for s, c in zip(survival_left, left, strict=True)))
        survival *= conditional
        length += survival
        total = array("d", (t + survival - s for t, s in zip(total, survival_left, strict=True)))
        terms.append(total)
        lengths.append(estimate(length, scatter(total), len(total), df).within(1, 1 + position))
    lengths += [missing(Missing.NONE_AT_RISK)] * (len(tallies.reached) - len(lengths))
    return lengths, terms, df


def _best(
    lengths: Sequence[DraftLength], terms: Sequence[Sequence[float]], cost: float | None, df: float
) -> tuple[int | None, tuple[int, ...]]:
    if cost is None or not lengths or not terms:
        return None, ()
    speeds = {0: 1.0} | {
        each.k: each.speedup.value for each in lengths if each.speedup and each.speedup.value is not None
    }
    best = max(speeds, key=lambda k: (speeds[k], -k))
    ties = []
    for k, speed in speeds.items():
        apart = [mine - other for mine, other in zip(_speed(terms, best, cost), _speed(terms, k, cost), strict=True)]
        difference = estimate(speeds[best] - speed, scatter(apart), len(apart), df, size=1)
        if k != best and (difference.low is None or difference.low <= 0):
            ties.append(k)
    return best, tuple(ties)


def _speed(terms: Sequence[Sequence[float]], k: int, cost: float) -> list[float]:
    if k == 0:
        return [0.0] * len(terms[0])
    return [term / (1 + cost * k) for term in terms[k - 1]]
