"""What a shorter draft would have given, modelled from one run: an estimate, never a measurement.

S'(i) = product of c(1..i); length(k') = 1 + sum(S'(1..k')) for k' <= k, never beyond. With a draft cost c (draft time
per token / target time per step), speed-up(k') = length(k') / (1 + c k').
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aiperf_spec.analysis.clusters import Terms, clustered
from aiperf_spec.analysis.intervals import Estimate, as_length, estimate, missing, ratio, scatter
from aiperf_spec.analysis.positions import MAX_POSITIONS, Drafting, Tally, at_risk_terms
from aiperf_spec.analysis.reasons import Missing
from aiperf_spec.models.run import RequestRecord

KNOWN_ENGINES = frozenset({"vllm", "tensorrt_llm", "sglang"})

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
    records: Sequence[RequestRecord], known: Drafting, tallies: Mapping[int, Tally], *, assume_chain: bool
) -> Missing | None:
    """Return why no shorter draft can be modelled; None where it can.

    The record does not name the kind of drafter. It shows a tree where more was proposed than k a step, or where
    acceptance ends abruptly short of k (at least 100 steps at risk of position i, none of which accepted it, after a
    position with c >= 0.1). A block drafter cannot be told from a chain by any record: who uses one has to know. Of a
    plug-in's engine nothing is known, so that it is refused too. --assume-chain lifts all of these.
    """
    if not known.at_risk_known:
        return known.reason
    if assume_chain:
        return None
    reports = [record.acceptance for record in records if record.acceptance is not None]
    if any(report.engine not in KNOWN_ENGINES for report in reports):
        return Missing.UNKNOWN_DRAFTER
    before = 0.0
    for position in range(_last(known)):
        risk = sum(counted.at_risk[position] for counted in tallies.values())
        accepted = sum(counted.reached[position] for counted in tallies.values())
        if risk >= _SUDDEN_END and not accepted and before >= _STILL_ALIVE:
            return Missing.LOOKS_LIKE_A_TREE
        before = accepted / risk if risk else 0.0
    return None


def what_if(
    records: Sequence[RequestRecord],
    known: Drafting,
    tallies: Mapping[int, Tally],
    *,
    draft_cost: float | None = None,
    assume_chain: bool = False,
) -> WhatIf:
    """Return the modelled length for every k' <= k, with intervals by the delta method, clustered as everywhere.

    A request adds to length(k') the linearised term sum over i <= k' of S'(i) * sum over j <= i of
    (a_j - c_j b_j) / A_j, where a_j and b_j are its steps that accepted j and were at risk of it, and A_j is the sum of
    a_j. From where S' is 0, longer drafts add nothing; where no step proposed as many, the figure is None.
    """
    if (reason := refusal(records, known, tallies, assume_chain=assume_chain)) is not None:
        return WhatIf(known, reason=reason, draft_cost=draft_cost)
    modelled, terms = _modelled(records, _last(known), tallies)
    lengths = []
    for k, length in enumerate(modelled, start=1):
        speedup = None
        if draft_cost is not None:
            speedup = length.scaled(1 / (1 + draft_cost * k))
        lengths.append(DraftLength(k, length, _as_drafted(records, k, tallies), speedup))
    best, ties = _best(lengths, terms, draft_cost)
    return WhatIf(known, tuple(lengths), draft_cost=draft_cost, best=best, ties=ties)


def _last(known: Drafting) -> int:
    return min(known.k or 0, MAX_POSITIONS)


def _modelled(
    records: Sequence[RequestRecord], last: int, tallies: Mapping[int, Tally]
) -> tuple[list[Estimate], list[list[float]]]:
    # terms[k' - 1] holds each cluster's linearised term of length(k').
    survival, length = 1.0, 1.0
    slope: list[float] = []
    total: list[float] = []
    lengths: list[Estimate] = []
    terms: list[list[float]] = []
    for position in range(1, last + 1):
        pairs = at_risk_terms(records, position, tallies)
        accepted, risk = math.fsum(a for a, _ in pairs), math.fsum(b for _, b in pairs)
        if position == 1:
            slope, total = [0.0] * len(pairs), [0.0] * len(pairs)
        if survival and not risk:
            break
        conditional = accepted / risk if risk else 0.0
        if accepted:
            slope = [s + (a - conditional * b) / accepted for s, (a, b) in zip(slope, pairs, strict=True)]
        survival *= conditional
        length += survival
        total = [t + survival * s for t, s in zip(total, slope, strict=True)]
        terms.append(total)
        lengths.append(estimate(length, scatter(total), len(total)).within(1, 1 + position))
    lengths += [missing(Missing.NONE_AT_RISK)] * (last - len(lengths))
    return lengths, terms


def _as_drafted(records: Sequence[RequestRecord], k: int, tallies: Mapping[int, Tally]) -> Estimate:
    # sum(min(accepted, k)) over the steps is the sum of those that reached 1, 2, ... k.
    def read(record: RequestRecord) -> Terms | None:
        counted = tallies.get(id(record))
        return None if counted is None else (sum(counted.reached[:k]), counted.steps)

    return as_length(ratio(clustered(records, read)))


def _best(
    lengths: Sequence[DraftLength], terms: Sequence[Sequence[float]], cost: float | None
) -> tuple[int | None, tuple[int, ...]]:
    if cost is None or not lengths or not terms:
        return None, ()
    speeds = {0: 1.0} | {
        each.k: each.speedup.value for each in lengths if each.speedup is not None and each.speedup.value is not None
    }
    best = max(speeds, key=lambda k: (speeds[k], -k))
    ties = []
    for k, speed in speeds.items():
        apart = [mine - other for mine, other in zip(_speed(terms, best, cost), _speed(terms, k, cost), strict=True)]
        difference = estimate(speeds[best] - speed, scatter(apart), len(apart))
        if k != best and (difference.low is None or difference.low <= 0):
            ties.append(k)
    return best, tuple(ties)


def _speed(terms: Sequence[Sequence[float]], k: int, cost: float) -> list[float]:
    if k == 0:
        return [0.0] * len(terms[0])
    return [term / (1 + cost * k) for term in terms[k - 1]]
