"""What contrasts come to: the best draft length of each load, and the loads at which each of them pays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.sweep.contrasts import Contrast, Contrasts, Verdict
from aiperf_spec.analysis.sweep.points import MIN_REPEATS
from aiperf_spec.models.sweep import Load


@dataclass(slots=True, frozen=True)
class Choice:
    """The draft length that was fastest at a load, and those that are not shown to differ from it.

    Where it is not `judged`, it is the fastest one that was measured and no more: `ties` is empty.
    """

    load: Load
    best: int
    ties: tuple[int, ...] = ()
    judged: bool = True
    """Whether it was held against any other: not where repeats or prompts are too few."""

    @property
    def shown(self) -> bool:
        """Whether it is shown to be faster than every other one."""
        return self.judged and not self.ties


class Trend(StrEnum):
    """Say at which loads a draft length pays."""

    ALWAYS = "pays at every load measured"
    NEVER = "never pays here"
    STOPS = "stops paying"
    """It is shown to be faster at low loads, and slower at all higher ones that are judged."""
    STARTS = "starts paying"
    PARTLY = "pays at some loads"
    """Faster at some, with no difference shown at the others, or faster and slower by turns."""
    NOT_SHOWN_TO_PAY = "not shown to pay at any load"
    """Slower at some, with no difference shown at the others."""
    NONE_SHOWN = "no difference shown at any load"
    NOT_JUDGED = "not judged"


@dataclass(slots=True, frozen=True, kw_only=True)
class Payoff:
    """At which loads a draft length pays, against k = 0.

    `unshown` are the loads at which no difference is shown, `unjudged` those without a verdict. `crossover` is the load
    at which the speed-up passes 1.
    """

    k: int
    trend: Trend
    faster: tuple[Load, ...]
    slower: tuple[Load, ...]
    unshown: tuple[Load, ...]
    unjudged: tuple[Load, ...]
    crossover: Estimate | None


def choices(found: Contrasts) -> tuple[Choice, ...]:
    """Return the fastest draft length of each load, and which others do not differ from it.

    That is by the verdicts of the family: over all pairs at every load, so that picking the fastest of several misleads
    no more often than is said.
    """
    loads = sorted({load for (load, *_), each in found.by_pair.items() if each.speed_up.value is not None})
    return tuple(choice(found, load, {k for at, *pair in found.by_pair for k in pair if at == load}) for load in loads)


def choice(found: Contrasts, load: Load, lengths: Iterable[int]) -> Choice:
    """Return the fastest of these draft lengths at a load, at least one, and which of them do not differ from it."""
    first, *others = sorted(lengths)
    speeds = {first: 1.0}
    for k in others:
        if (each := found.of(load, k, first)) is not None and each.speed_up.value is not None:
            speeds[k] = each.speed_up.value
    best = max(speeds, key=lambda k: (speeds[k], -k))
    rivals = [(k, found.of(load, best, k)) for k in (first, *others) if k != best]
    judged = any(each is not None and each.verdict is not Verdict.NOT_JUDGED for _, each in rivals)
    ties = tuple(k for k, each in rivals if each is None or not each.is_faster)
    return Choice(load, best, ties if judged else (), judged)


def payoffs(found: Contrasts) -> tuple[Payoff, ...]:
    """Return at which loads each draft length pays; empty where k = 0 was not measured."""
    lengths = sorted({k for _, k, base in found.by_pair if base == 0})
    loads = sorted({load for load, _, _ in found.by_pair})
    return tuple(_payoff(k, [each for load in loads if (each := found.of(load, k, 0)) is not None]) for k in lengths)


def _payoff(k: int, by_load: Sequence[Contrast]) -> Payoff:
    def loads(verdict: Verdict) -> tuple[Load, ...]:
        return tuple(each.load for each in by_load if each.verdict is verdict)

    faster, slower = loads(Verdict.FASTER), loads(Verdict.SLOWER)
    return Payoff(
        k=k,
        trend=_trend(by_load, faster, slower),
        faster=faster,
        slower=slower,
        unshown=loads(Verdict.NONE_SHOWN),
        unjudged=loads(Verdict.NOT_JUDGED),
        crossover=crossover(by_load),
    )


def _trend(by_load: Sequence[Contrast], faster: Sequence[Load], slower: Sequence[Load]) -> Trend:
    if all(each.verdict is Verdict.NOT_JUDGED for each in by_load):
        return Trend.NOT_JUDGED
    if not faster and not slower:
        return Trend.NONE_SHOWN
    if not slower:
        return Trend.ALWAYS if len(faster) == len(by_load) else Trend.PARTLY
    if not faster:
        return Trend.NEVER if len(slower) == len(by_load) else Trend.NOT_SHOWN_TO_PAY
    if max(faster) < min(slower):
        return Trend.STOPS
    return Trend.STARTS if max(slower) < min(faster) else Trend.PARTLY


def crossover(by_load: Sequence[Contrast]) -> Estimate | None:
    """Return the load at which the speed-up passes 1; None where it does not, or does so in both directions.

    Its value takes the logarithm of the speed-up to be straight in that of the load, between two loads. Nothing was
    measured there, so the interval does not lean on it: it reaches from the last load at which k is shown to be faster
    to the first one at which it is shown to be slower (or the other way round), and supposes only that the speed-up
    passes 1 once. The verdicts hold together, and so do the intervals of all k. An end without such a load is None.
    """
    known = [each for each in by_load if each.speed_up.value]
    loads = [each.load.value for each in known]
    values = [math.log(each.speed_up.value or 1.0) for each in known]
    faster, slower = (
        [at for at, each in zip(loads, known, strict=True) if each.verdict is verdict]
        for verdict in (Verdict.FASTER, Verdict.SLOWER)
    )
    for sign, before, after in ((1, faster, slower), (-1, slower, faster)):
        low, high = max(before, default=None), min(after, default=None)
        for i in range(1, len(known)):
            inside = loads[i - 1] >= (low or 0.0) and loads[i] <= (high or math.inf)
            if inside and sign * values[i - 1] > 0 >= sign * values[i]:
                share = values[i - 1] / (values[i - 1] - values[i])
                where = loads[i - 1] * (loads[i] / loads[i - 1]) ** share
                reason = None if low is not None and high is not None else Missing.NOT_REACHED
                if all(each.verdict is Verdict.NOT_JUDGED for each in known):
                    reason = Missing.FEW_REPEATS if known[0].repeats < MIN_REPEATS else Missing.TOO_FEW
                return Estimate(where, low, high, min(each.speed_up.n for each in known), reason=reason)
    return None
