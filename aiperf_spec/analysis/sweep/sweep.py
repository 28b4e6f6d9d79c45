"""Everything that is asked of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aiperf_spec.analysis.gates import Gate
from aiperf_spec.analysis.sweep.choices import Choice, Payoff, choices, payoffs
from aiperf_spec.analysis.sweep.contrasts import Contrast, Contrasts, contrasts
from aiperf_spec.analysis.sweep.economy import Economy, economy
from aiperf_spec.analysis.sweep.points import Point, PointRuns, figures_of, load_shortfall, points_of
from aiperf_spec.analysis.sweep.slo import SloAnswer, slo_answer
from aiperf_spec.metrics.goodput import Objective
from aiperf_spec.models.sweep import Cell, CellRun, Load, LoadKind

_QUICK = 0.85
"""The share of the time of a step without a draft below which one with a draft is too quick to be true."""


@dataclass(slots=True, frozen=True)
class Answers:
    """The speed-ups of all prompts, or of a category, and what they come to."""

    contrasts: Contrasts
    choices: tuple[Choice, ...]
    payoffs: tuple[Payoff, ...]

    @property
    def is_judged(self) -> bool:
        """Whether there is a verdict on any draft length."""
        return any(choice.judged for choice in self.choices)

    def speed_up(self, load: Load, k: int | None) -> Contrast | None:
        """Return the speed-up of a draft length over k = 0; None where one of both was not measured."""
        return None if not k else self.contrasts.of(load, k, 0)


@dataclass(slots=True, frozen=True, kw_only=True)
class SweepAnalysis:
    """The answers that a sweep gives. Intervals are 95 %.

    `points` are in the order of load and k. `failed` are the cells without a successful request, and why; `short` those
    with less load than was asked for, and how many requests they had in flight.
    """

    points: tuple[Point, ...]
    answers: Answers
    categories: Mapping[str, Answers]
    slo: SloAnswer | None
    economy: Economy | None
    failed: tuple[tuple[Cell, str], ...]
    short: tuple[tuple[Cell, float], ...]

    @property
    def loads(self) -> list[Load]:
        """The loads that were measured."""
        return sorted({point.load for point in self.points})

    @property
    def lengths(self) -> list[int]:
        """The draft lengths that were measured; empty where none was set."""
        return sorted({point.k for point in self.points if point.k is not None})

    @property
    def fewest_repeats(self) -> int:
        """How often the point was run that was run least often; 0 without a point."""
        return min((point.repeats for point in self.points), default=0)

    @property
    def has_telling_categories(self) -> bool:
        """Whether there are several categories, and prompts enough in some of them for intervals."""
        found = (each for answers in self.categories.values() for each in answers.contrasts.by_pair.values())
        return len(self.categories) > 1 and any(each.speed_up.has_interval for each in found)

    @property
    def quick_steps(self) -> list[Point]:
        """The points of which a decode step took clearly less time than one of k = 0 at the same load.

        A step that verifies a draft computes more than one without: the speed-up is then one of the machine's or the
        server's state, and not of speculation. At a rate of requests a faster server has smaller batches, so its steps
        may be quicker.
        """
        found = []
        for point in self.points:
            base, own = self.point(point.load, 0), point.step_time_ms.value
            plain = None if base is None else base.step_time_ms.value
            closed = point.load.kind is LoadKind.CONCURRENCY
            if closed and point.k and own is not None and plain is not None and own < _QUICK * plain:
                found.append(point)
        return found

    def point(self, load: Load, k: int | None) -> Point | None:
        """Return a point; None where it was not measured."""
        return next((point for point in self.points if (point.load, point.k) == (load, k)), None)


def analyse_sweep(
    runs: Sequence[CellRun],
    *,
    slos: Sequence[Gate] = (),
    goals: Sequence[Objective] = (),
    economy_lengths: Sequence[int] = (),
    assume_chain: bool = False,
) -> SweepAnalysis:
    """Return the analysis of a sweep's cells, as far as they were run.

    `slos` are the conditions of `parse_slos`, `goals` the objectives of goodput. With `economy_lengths`, the draft
    lengths that were asked for, those that were not measured are predicted; see `economy`. Nothing is raised for what
    cells lack.
    """
    found = points_of(runs)
    answers = _answers(found)
    names = sorted({r.category for point in found.values() for r in point.all_records if r.category is not None})
    measured = {(point.load, point.k, repeat) for point in found.values() for repeat in point.runs}
    failed = [run for run in runs if (run.cell.load, run.cell.k, run.cell.repeat) not in measured]
    return SweepAnalysis(
        points=tuple(figures_of(point, goals) for point in found.values()),
        answers=answers,
        categories={name: _answers(_of_category(found, name), len(names)) for name in names},
        slo=slo_answer(slos, found, answers.contrasts, goals) if slos else None,
        economy=economy(found, answers.contrasts, economy_lengths, assume_chain=assume_chain)
        if economy_lengths
        else None,
        failed=tuple((run.cell, run.reason or "no request succeeded") for run in failed),
        short=tuple((run.cell, mean) for run in runs if (mean := load_shortfall(run)) is not None),
    )


def predict(runs: Sequence[CellRun], lengths: Sequence[int], *, assume_chain: bool = False) -> Economy:
    """Return the predictions of a sweep that has run k = 0 and the largest of `lengths` at its loads.

    Its `winners` are what is to be measured next.
    """
    found = points_of(runs)
    return economy(found, contrasts(found), lengths, assume_chain=assume_chain)


def _answers(points: Mapping[tuple[Load, int | None], PointRuns], groups: int = 1) -> Answers:
    found = contrasts(points, groups=groups)
    return Answers(found, choices(found), payoffs(found))


def _of_category(
    points: Mapping[tuple[Load, int | None], PointRuns], category: str
) -> dict[tuple[Load, int | None], PointRuns]:
    return {key: point.of_category(category) for key, point in points.items()}
