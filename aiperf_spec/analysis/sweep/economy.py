"""What the draft lengths between 0 and the largest would give, predicted from these two: fewer cells to measure.

Acceptance comes from the what-if over the steps of the largest k, at each load by itself. Steps without a draft stay as
many as they were: an n-gram drafter finds none where the text has no match, whatever k is.

Time is in units of that of a step of k = 0. At the largest k a step takes `mean` on average, which is what makes its
speed-up the measured one. A part of what it takes beyond 1 comes with speculation at any k, the rest with the drafts,
and is taken to grow in a straight line with k. The two runs alone do not tell the parts, so a prediction has a range:
from all of it at any k to none. Where some steps ran without a draft, requests with more and with fewer of them tell
the parts. Where all steps had one, all of it is taken to grow with k.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, linear_regression, stdev

from aiperf_spec.analysis.intervals import MIN_CLUSTERS
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.positions import drafting, tally_all
from aiperf_spec.analysis.statistics import t_quantile
from aiperf_spec.analysis.step_replay import Replays
from aiperf_spec.analysis.sweep.contrasts import Contrasts
from aiperf_spec.analysis.sweep.points import PointRuns, figures_of
from aiperf_spec.analysis.whatif import refusal
from aiperf_spec.metrics.latency import content_span_ns
from aiperf_spec.models.decoding import decoding
from aiperf_spec.models.sweep import Load

_NEARLY = 0.95
_TELLING = 0.05
"""The share of steps without a draft from which on they tell what drafts cost."""
_TOLD = 0.5
"""How wide the interval of that may be, as a share of what is to be split."""


@dataclass(slots=True, frozen=True)
class Prediction:
    """The speed-up over k = 0 that was predicted for a draft length at a load, and what was measured, if it was.

    `low` and `high` are what it would be if all, or nothing, of what a step takes more with speculation came at any k.
    """

    load: Load
    k: int
    predicted: float
    low: float
    high: float
    measured: float | None

    @property
    def error(self) -> float | None:
        """Predicted / measured - 1."""
        return self.predicted / self.measured - 1 if self.measured else None


@dataclass(slots=True, frozen=True)
class Economy:
    """The predictions of a sweep; `refused` says for a load why there are none.

    `winners` are, of each load, the draft length whose range reaches highest, where it is not yet measured, and its
    upper end is above what was measured, or within 5 % of it.
    """

    predictions: tuple[Prediction, ...]
    refused: Mapping[Load, Missing]
    winners: tuple[tuple[Load, int], ...]

    @property
    def errors(self) -> list[float]:
        """The absolute errors of what was measured as well, in ascending order."""
        return sorted(abs(each.error) for each in self.predictions if each.error is not None)


def economy(
    points: Mapping[tuple[Load, int | None], PointRuns],
    found: Contrasts,
    lengths: Sequence[int],
    *,
    assume_chain: bool = False,
) -> Economy:
    """Return the predictions for each of `lengths` between 0 and the largest, at every load that has these two."""
    longest = max(lengths, default=0)
    predictions: list[Prediction] = []
    refused: dict[Load, Missing] = {}
    winners: list[tuple[Load, int]] = []
    for load in sorted({load for load, _ in points}):
        contrast = found.of(load, longest, 0)
        if contrast is None or contrast.speed_up.value is None:
            refused[load] = Missing.NO_COMMON_PROMPT
            continue
        at_longest = contrast.speed_up.value
        modelled = _modelled(points[load, longest], longest, at_longest, assume_chain=assume_chain)
        if isinstance(modelled, Missing):
            refused[load] = modelled
            continue
        might_be: dict[int, float] = {}
        for k in sorted(set(lengths) - {0, longest}):
            if (speed := modelled.get(k)) is None:
                continue
            known = found.of(load, k, 0)
            predictions.append(Prediction(load, k, *speed, None if known is None else known.speed_up.value))
            might_be[k] = predictions[-1].high
        # One that might be nearly as fast as the fastest may be faster.
        best = max(might_be, key=lambda k: (might_be[k], -k), default=0)
        if best and might_be[best] >= _NEARLY * max(1.0, at_longest) and (load, best) not in points:
            winners.append((load, best))
    return Economy(tuple(predictions), refused, tuple(winners))


def _modelled(
    point: PointRuns, longest: int, at_longest: float, *, assume_chain: bool
) -> dict[int, tuple[float, float, float]] | Missing:
    """Return the speed-up of each shorter k and its range, or why no shorter draft can be modelled."""
    records = point.all_records
    reports = [report for record in records if (report := record.acceptance) and report.num_spec_steps]
    if not reports:
        return Missing.NO_RECORDS
    known = drafting(reports, assume_chain=assume_chain)
    tallies = tally_all(records, known)
    if (reason := refusal(records, known, tallies, assume_chain=assume_chain)) is not None:
        return reason
    if len(tallies.reached) != longest:
        return Missing.DRAFT_LENGTH_UNKNOWN
    model = Replays(records, tallies)
    alone = sum(found.undrafted_steps for record in records if (found := decoding(record)) is not None)

    def replayed(k: int) -> tuple[float, float]:
        # Drafts that ended short of the largest k, such as those of an n-gram drafter, still do.
        terms = model.at(k, short_stay=not known.full).values()
        return sum(tokens for tokens, _ in terms), sum(steps for _, steps in terms)

    tokens, drafted = replayed(longest)
    mean = (tokens + alone) / at_longest / (drafted + alone)
    share = drafted / (drafted + alone)
    ways = _at_any_k(point, mean, share), max(mean, 1.0), 1.0
    speeds = {}
    for k in range(1, longest):
        if not sum(tallies.at_risk[k - 1]) and all(model.chances.by_position[: k - 1]):
            break
        tokens, drafted = replayed(k)
        of_drafts = ((mean - at_any_k) / share * k / longest for at_any_k in ways)
        spent = [(drafted + alone) * at_any_k + drafted * more for at_any_k, more in zip(ways, of_drafts, strict=True)]
        if min(spent) > 0:
            predicted, low, high = ((tokens + alone) / each for each in spent)
            speeds[k] = predicted, low, high
    return speeds


def _at_any_k(point: PointRuns, mean: float, share: float) -> float:
    """Return what a step would take without its drafts, between 1 and `mean`; `share` of the steps have one.

    Requests of which more or fewer steps had a draft tell it, by how much longer a request's own draft makes a step:
    all requests of a batch wait for the same step. Where they scatter too much to tell, it is `mean`: a drafter that
    leaves steps without a draft looks drafts up, and they cost no time to make.
    """
    if share > 1 - _TELLING or mean <= 1:
        return 1.0
    shares, times = [], []
    for record in point.all_records:
        found, span = decoding(record), content_span_ns(record)
        if found is not None and found.steps and span is not None:
            shares.append(found.verify_steps / found.steps)
            times.append(span / found.steps)
    if len(set(shares)) < MIN_CLUSTERS:
        return mean
    slope, start = linear_regression(shares, times)
    left = math.hypot(*(time - start - slope * share for share, time in zip(shares, times, strict=True)))
    error = left / math.sqrt(len(times) - 2) / (stdev(shares) * math.sqrt(len(shares) - 1))
    # From a request's own draft to those of the batch, and from ns to the unit of `mean`.
    scale = share * (figures_of(point).running or 1.0) * mean / fmean(times)
    if 2 * t_quantile(len(times) - 2) * error * scale > _TOLD * (mean - 1):
        return mean
    return min(max(mean - slope * scale, 1.0), mean)
