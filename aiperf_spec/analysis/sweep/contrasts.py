"""How much faster tokens come at one draft length than at another, at the same load and for the same prompts.

The speed-up is the ratio of the two inter-token latencies, both pooled (all time between tokens / all such tokens),
over the prompts and turns that both runs of a repeat answered. Two things make it scatter: prompts, by the jackknife
over them, and runs. How runs scatter is known from repeats: it is what is left of the logarithm of the latencies at a
load when the mean of each k and of each repeat are taken out, which for two draft lengths is the paired t-test. Two
that scatter more than all of the load together are held to their own scatter. Below 3 repeats the scatter of runs is
not known, so there is a speed-up and no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations
from statistics import fmean

from aiperf_spec.analysis.clusters import Terms, added_up, prompt_of, sums_by_key
from aiperf_spec.analysis.intervals import MIN_CLUSTERS, NOISE, Estimate, linearised, missing, scatter
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.speed import token_times
from aiperf_spec.analysis.statistics import holm_adjusted, t_quantile, t_two_sided_p
from aiperf_spec.analysis.sweep.points import MIN_REPEATS, PointRuns
from aiperf_spec.models.sweep import Load

ALPHA = 0.05

_Key = tuple[str, int]
"""A prompt and its turn."""


class Verdict(StrEnum):
    """What a contrast comes to, after Holm's correction."""

    FASTER = "faster"
    SLOWER = "slower"
    NONE_SHOWN = "no difference shown"
    NOT_JUDGED = "not judged"
    """Fewer repeats than show how runs scatter, or fewer prompts than an interval takes."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Contrast:
    """The speed-up of `k` over `base` at a load: above 1 where k is faster.

    `n` of the speed-up counts prompts that pair, `repeats` the repeats in which both were run. The interval is of this
    contrast alone; the verdict is corrected for all contrasts of its family. `p` is None where nothing is judged.
    """

    load: Load
    k: int
    base: int
    speed_up: Estimate
    repeats: int
    p: float | None
    adjusted_p: float | None = None

    @property
    def verdict(self) -> Verdict:
        """What it comes to."""
        if self.adjusted_p is None or self.speed_up.value is None:
            return Verdict.NOT_JUDGED
        if self.adjusted_p >= ALPHA:
            return Verdict.NONE_SHOWN
        return Verdict.FASTER if self.speed_up.value > 1 else Verdict.SLOWER

    @property
    def is_faster(self) -> bool:
        """Whether k is shown to be faster than the base."""
        return self.verdict is Verdict.FASTER

    def reversed(self) -> Contrast:
        """Return the same contrast of the base over k."""

        def inverse(value: float | None) -> float | None:
            return None if value is None else 1 / value

        found, error = self.speed_up, None
        if found.standard_error is not None and found.value:
            error = found.standard_error / found.value**2
        turned = Estimate(inverse(found.value), inverse(found.high), inverse(found.low), found.n, error, found.reason)
        return replace(self, k=self.base, base=self.k, speed_up=turned)


@dataclass(slots=True, frozen=True)
class Contrasts:
    """All contrasts between the draft lengths of each load: a family, judged together."""

    by_pair: Mapping[tuple[Load, int, int], Contrast]

    def of(self, load: Load, k: int, base: int) -> Contrast | None:
        """Return the contrast of k over base; None where one of them was not measured."""
        if (found := self.by_pair.get((load, k, base))) is not None:
            return found
        turned = self.by_pair.get((load, base, k))
        return None if turned is None else turned.reversed()

    @property
    def tests(self) -> int:
        """The number of contrasts that the correction covers."""
        return sum(each.adjusted_p is not None for each in self.by_pair.values())


def contrasts(points: Mapping[tuple[Load, int | None], PointRuns], *, groups: int = 1) -> Contrasts:
    """Return the contrasts between all draft lengths that were measured at each load, corrected by Holm's method.

    `groups` multiplies the correction: the number of families that are judged side by side, such as categories.
    """
    found: list[Contrast] = []
    for load in sorted({load for load, _ in points}):
        sums = {k: _sums(point) for (at, k), point in points.items() if at == load and k is not None}
        whole = _run_scatter(list(sums.values()))
        for base, k in combinations(sorted(sums), 2):
            own = _run_scatter([sums[base], sums[k]])
            found.append(_contrast(load, k, base, sums[k], sums[base], _wider(whole, own)))
    judged = [each for each in found if each.p is not None]
    corrected = holm_adjusted([each.p or 0.0 for each in judged])
    adjusted = {id(each): min(1.0, p * groups) for each, p in zip(judged, corrected, strict=True)}
    return Contrasts(
        {(each.load, each.k, each.base): replace(each, adjusted_p=adjusted.get(id(each))) for each in found}
    )


_Sums = Mapping[int, Mapping[_Key, Terms]]
"""Of each repeat, the (ms between tokens, tokens - 1) of each prompt and turn."""


def _sums(point: PointRuns) -> _Sums:
    found = {}
    for repeat, records in point.records.items():
        keys = ((prompt_of(record), record.turn_index) for record in records)
        found[repeat] = sums_by_key(keys, map(token_times, records))
    return found


def _run_scatter(sides: Sequence[_Sums]) -> tuple[float, float] | None:
    """Return the variance of log(latency) between runs at a load, and its degrees of freedom.

    It is over the repeats in which every side was run; None below two of these.
    """
    shared = set.intersection(*(set(side) for side in sides)) if len(sides) > 1 else set()
    logs: list[list[float]] = []
    for repeat in shared:
        keys = set.intersection(*(set(side[repeat]) for side in sides))
        if keys:
            logs.append([_log_ratio(side[repeat], keys) for side in sides])
    if len(logs) < 2:
        return None
    of_repeat, of_side = [fmean(row) for row in logs], [fmean(column) for column in zip(*logs, strict=True)]
    middle, df = fmean(of_repeat), float((len(logs) - 1) * (len(sides) - 1))
    squares = math.fsum(
        (value - of_repeat[i] - of_side[j] + middle) ** 2 for i, row in enumerate(logs) for j, value in enumerate(row)
    )
    return squares / df, df


def _wider(whole: tuple[float, float] | None, own: tuple[float, float] | None) -> tuple[float, float] | None:
    """Return the scatter at the load, or that of the two sides alone where it is more: one of them may be unsteady."""
    if whole is None or own is None:
        return whole or own
    return max(whole[0], own[0]), whole[1]


def _log_ratio(sums: Mapping[_Key, Terms], keys: set[_Key]) -> float:
    return math.log(math.fsum(sums[key][0] for key in keys) / math.fsum(sums[key][1] for key in keys))


def _contrast(
    load: Load, k: int, base: int, mine: _Sums, theirs: _Sums, between_runs: tuple[float, float] | None
) -> Contrast:
    repeats = sorted(set(mine) & set(theirs))
    prompts: list[str] = []
    sides: tuple[list[Terms], list[Terms]] = ([], [])
    for repeat in repeats:
        for key in mine[repeat]:
            if key in theirs[repeat]:
                prompts.append(key[0])
                sides[0].append(mine[repeat][key])
                sides[1].append(theirs[repeat][key])
    if not prompts:
        return Contrast(
            load=load, k=k, base=base, speed_up=missing(Missing.NO_COMMON_PROMPT), repeats=len(repeats), p=None
        )
    one, other = (linearised(added_up(prompts, side)) for side in sides)
    value = math.log(other.value / one.value)
    error = scatter([other.log_term(b) - one.log_term(a) for a, b in zip(one.terms, other.terms, strict=True)])
    sources = [(error, min(one.df, other.df))]
    if between_runs is not None:
        sources.append((math.sqrt(2 * between_runs[0] / len(repeats)), between_runs[1]))
    speed_up, p = _judged(value, one.n, sources)
    repeated = len(repeats) >= MIN_REPEATS
    return Contrast(load=load, k=k, base=base, speed_up=speed_up, repeats=len(repeats), p=p if repeated else None)


def _judged(value: float, n: int, sources: Sequence[tuple[float, float]]) -> tuple[Estimate, float | None]:
    """Return exp(value) with its interval, and p, from (standard error, degrees of freedom) of independent sources.

    The errors add up (Welch's degrees of freedom); the interval is never narrower than one source alone would make it.
    """
    known = [(error, df) for error, df in sources if error > NOISE and df > 0]
    ratio = math.exp(value)
    if n < MIN_CLUSTERS:
        return missing(Missing.TOO_FEW, ratio, n), None
    if not known:
        return missing(Missing.NO_SPREAD, ratio, n), 1.0 if abs(value) <= NOISE else None
    whole = math.hypot(*(error for error, _ in known))
    df = whole**4 / math.fsum(error**4 / df for error, df in known)
    every = [(whole, df), *known]
    reach = max(t_quantile(df) * error for error, df in every)
    if math.isinf(reach) or reach > 300:
        return missing(Missing.ONE_PROMPT, ratio, n), None
    p = max(t_two_sided_p(value / error, df) for error, df in every)
    return Estimate(ratio, math.exp(value - reach), math.exp(value + reach), n, ratio * whole), p
