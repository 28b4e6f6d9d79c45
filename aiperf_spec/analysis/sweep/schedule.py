"""The draft length of each size of the batch, from what was best at each load."""

from __future__ import annotations

import math
from dataclasses import replace

from aiperf_spec.adapters.engines import known_engines
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.sweep.choices import Choice
from aiperf_spec.analysis.sweep.sweep import Answers, SweepAnalysis
from aiperf_spec.models.schedule import BatchRange, Configuration, NoConfiguration, Schedule


def schedule(analysis: SweepAnalysis) -> Schedule | Missing:
    """Return the best draft length by the running batch that was measured, or why none can be given.

    A draft length that is in use at the load below stays where no other is shown to be faster. It changes where the
    speed-ups of both are equal, by interpolation between the two loads, or, where they do not cross, in the middle.
    """
    chosen = _chosen(analysis.answers)
    if not chosen:
        return Missing.NO_BASELINE
    batches: list[float] = []
    for choice, k in chosen:
        point = analysis.point(choice.load, k)
        if point is None or point.running is None:
            return Missing.NO_COUNTERS
        batches.append(point.running)
    ranges: list[BatchRange] = []
    first = 1
    for i, (choice, k) in enumerate(chosen[:-1]):
        following, after = chosen[i + 1]
        if after == k:
            continue
        share = _share(analysis.answers, choice, following, k, after)
        last = math.floor(math.exp((1 - share) * _log(batches[i]) + share * _log(batches[i + 1])) + 1e-9)
        if last >= first:
            ranges.append(BatchRange(first, last, k))
            first = last + 1
    ranges.append(BatchRange(first, max(first, math.ceil(max(batches))), chosen[-1][1]))
    speculating = [point for point in analysis.points if point.k]
    drafter = next((point.drafter for point in speculating if point.drafter is not None), None)
    return Schedule(
        ranges=_merged(ranges),
        engines=max((point.engines for point in analysis.points), default=1),
        method=None if drafter is None else drafter.method,
        branches=None if drafter is None else drafter.branches,
    )


def configurations(analysis: SweepAnalysis) -> dict[str, Configuration | NoConfiguration | Missing]:
    """Return the schedule as each engine of the sweep takes it, by the engine's name; empty where none takes one."""
    names = {point.engine for point in analysis.points} - {None}
    found: dict[str, Configuration | NoConfiguration | Missing] = {}
    made = schedule(analysis)
    for name, engine in known_engines().items():
        if name in names and engine.schedule is not None:
            given = made if isinstance(made, Missing) else engine.schedule(made)
            if isinstance(given, Configuration) and (doubt := _doubt(analysis.answers)) is not None:
                given = replace(given, limits=(doubt, *given.limits))
            found[engine.name] = given
    return found


def _doubt(answers: Answers) -> str | None:
    """Say what a schedule rests on that no verdict covers."""
    if not answers.is_judged:
        return (
            "it follows the fastest draft lengths that were measured, without a verdict: another sweep may give "
            "another one"
        )
    unshown = [f"{choice.load.value:g}" for choice in answers.choices if not choice.shown]
    if not unshown:
        return None
    return (
        f"at a load of {', '.join(unshown)} no draft length is shown to be the best one: the one in use at the load "
        "below stays while none is shown to be faster, and the first is the fastest that was measured"
    )


def _chosen(answers: Answers) -> list[tuple[Choice, int]]:
    chosen: list[tuple[Choice, int]] = []
    for choice in answers.choices:
        before = chosen[-1][1] if chosen else None
        stays = before is not None and before in choice.ties
        chosen.append((choice, before if before is not None and stays else choice.best))
    return chosen


def _log(batch: float) -> float:
    return math.log(max(batch, 1.0))


def _share(answers: Answers, choice: Choice, following: Choice, k: int, after: int) -> float:
    """Return how far from one load to the next, from 0 to 1 in their logarithm, the other draft length is as fast."""
    here, there = (answers.contrasts.of(each.load, k, after) for each in (choice, following))
    ahead = None if here is None else here.speed_up.value
    behind = None if there is None else there.speed_up.value
    if not ahead or not behind or ahead <= 1 or behind >= 1:
        return 0.5
    return math.log(ahead) / (math.log(ahead) - math.log(behind))


def _merged(ranges: list[BatchRange]) -> tuple[BatchRange, ...]:
    merged: list[BatchRange] = []
    for each in ranges:
        if merged and merged[-1].k == each.k:
            merged[-1] = BatchRange(merged[-1].first, each.last, each.k)
        else:
            merged.append(each)
    return tuple(merged)
