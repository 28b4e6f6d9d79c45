"""What contrasts come to: the best draft length of each load, and the loads at which each of them pays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.sweep.contrasts import Contrast, Contrasts, Verdict
from aiperf_spec.models.sweep import Load


@dataclass(slots=True, frozen=True)
class Choice:
    """The draft length that was fastest at a load, and those that are not shown to differ from it."""

    load: Load
    best: int
    ties: tuple[int, ...] = ()
    judged: bool = True
    """Whether it was held against any other: not where prompts are too few."""

    @property
    def shown(self) -> bool:
        """Whether it is shown to be faster than every other one."""
        return not self.ties


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

    `crossover` is the load at which the speed-up passes 1, between the loads that were measured; an end of its interval
    is None where it lies beyond these. None where the speed-up does not pass 1.
    """

    k: int
    trend: Trend
    faster: tuple[Load, ...]
    slower: tuple[Load, ...]
    unshown: tuple[Load, ...]
    crossover: Estimate | None


def choices(found: Contrasts) -> tuple[Choice, ...]:
    """Return the fastest draft length of each load, and which others do not differ from it.

    That is by the verdicts of the family: over all pairs at every load, so that picking the fastest of several misleads
    no more often than is said.
    """
    chosen = []
    for load in sorted({load for load, _, _ in found.by_pair}):
        lengths = sorted({k for at, *pair in found.by_pair for k in pair if at == load})
        ahead = {k: _against(found, load, k, lengths[0]) for k in lengths}
        known = [k for k in lengths if ahead[k] is not None]
        if len(known) < 2:
            continue
        best = max(known, key=lambda k: (ahead[k] or 0.0, -k))
        others = [(k, found.of(load, best, k)) for k in lengths if k != best]
        ties = tuple(k for k, each in others if each is None or not each.is_faster)
        judged = any(each is not None and each.verdict is not Verdict.NOT_JUDGED for _, each in others)
        chosen.append(Choice(load, best, ties, judged))
    return tuple(chosen)


def _against(found: Contrasts, load: Load, k: int, base: int) -> float | None:
    if k == base:
        return 1.0
    contrast = found.of(load, k, base)
    return None if contrast is None else contrast.speed_up.value


def payoffs(found: Contrasts) -> tuple[Payoff, ...]:
    """Return at which loads each draft length pays; empty where k = 0 was not measured."""
    lengths = sorted({k for _, k, base in found.by_pair if base == 0})
    loads = sorted({load for load, _, _ in found.by_pair})
    return tuple(_payoff(k, [each for load in loads if (each := found.of(load, k, 0)) is not None]) for k in lengths)


def _payoff(k: int, by_load: Sequence[Contrast]) -> Payoff:
    def loads(*verdicts: Verdict) -> tuple[Load, ...]:
        return tuple(each.load for each in by_load if each.verdict in verdicts)

    faster, slower = loads(Verdict.FASTER), loads(Verdict.SLOWER)
    return Payoff(
        k=k,
        trend=_trend(by_load, faster, slower),
        faster=faster,
        slower=slower,
        unshown=loads(Verdict.NONE_SHOWN, Verdict.NOT_JUDGED),
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


_Curve = Sequence[float | None]


def crossover(by_load: Sequence[Contrast]) -> Estimate | None:
    """Return the load at which the speed-up passes 1; None where its value does not, between any two loads.

    Between two loads the logarithm of the speed-up is taken to be straight in the logarithm of the load. Steps whose
    time grows by a constant with each running request give a curve between one that is straight in the load and one
    that is straight in 1 / load. The interval holds the crossings of both, with the interval of the speed-up: it
    reaches as far as no load in between shows a difference. Of several crossings it is the first downward one, else the
    first upward one.
    """
    known = [each for each in by_load if each.speed_up.value]
    loads = [each.load.value for each in known]
    for sign in (1.0, -1.0):
        values = [sign * math.log(each.speed_up.value or 1.0) for each in known]
        ends = [(_log(each.speed_up.low), _log(each.speed_up.high)) for each in known]
        low = [None if end is None else sign * end for end in ((low if sign > 0 else high) for low, high in ends)]
        high = [None if end is None else sign * end for end in ((high if sign > 0 else low) for low, high in ends)]
        for i in range(1, len(known)):
            if values[i - 1] > 0 >= values[i]:
                where = _root(loads, values, i, math.log)
                if where is None:
                    continue
                lowest, highest = _first_end(loads, low, i), _last_end(loads, high, i)
                reason = None if lowest is not None and highest is not None else Missing.NOT_REACHED
                return Estimate(where, lowest, highest, min(each.speed_up.n for each in known), reason=reason)
    return None


def _log(value: float | None) -> float | None:
    return math.log(value) if value else None


def _root(loads: Sequence[float], curve: _Curve, i: int, shape: Callable[[float], float]) -> float | None:
    """Return where a curve that is straight in `shape` of the load is 0, between points i - 1 and i."""
    before, after = curve[i - 1], curve[i]
    if before is None or after is None or not before > after:
        return None
    first, last = shape(loads[i - 1]), shape(loads[i])
    return _UNSHAPED[shape](first + (last - first) * before / (before - after))


def _straight(load: float) -> float:
    return load


def _inverse(load: float) -> float:
    return 1 / load


_UNSHAPED: dict[Callable[[float], float], Callable[[float], float]] = {
    math.log: math.exp,
    _straight: _straight,
    _inverse: _inverse,
}
_EXTREMES = (_straight, _inverse)


def _first_end(loads: Sequence[float], low: _Curve, i: int) -> float | None:
    # The lower end is at most 0 at i, and so at every j that is come to.
    for j in range(i, 0, -1):
        before = low[j - 1]
        if before is None or low[j] is None:
            return None
        if before > 0:
            return min(root for shape in _EXTREMES if (root := _root(loads, low, j, shape)) is not None)
    return None


def _last_end(loads: Sequence[float], high: _Curve, i: int) -> float | None:
    for j in range(i, len(loads)):
        after = high[j]
        if after is None or high[j - 1] is None:
            return None
        if after < 0:
            return max(root for shape in _EXTREMES if (root := _root(loads, high, j, shape)) is not None)
    return None
