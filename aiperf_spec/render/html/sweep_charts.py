"""The charts of a sweep: speed-up over draft length and load, and figures over the load."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.analysis.sweep.contrasts import Verdict
from aiperf_spec.analysis.sweep.points import Point
from aiperf_spec.analysis.sweep.sweep import Answers, SweepAnalysis
from aiperf_spec.models.sweep import Load
from aiperf_spec.render.html.charts import line
from aiperf_spec.render.html.page import Chart
from aiperf_spec.render.html.svg_plots import COLOURS, INK, MUTED, SERIES, Tips, draw
from aiperf_spec.render.missing import figure, interval
from aiperf_spec.render.sweep import load_header
from aiperf_spec.render.sweep_sentences import crossover_text, load_text
from aiperf_spec.render.text import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FASTER, _SLOWER = COLOURS[2], COLOURS[1]
_STRONGEST = math.log(2)
"""The logarithm of the speed-up, either way, at which a cell of the heat map has its full colour."""


def series_of(analysis: SweepAnalysis) -> list[int | None]:
    """Return the draft lengths in the order of charts: 0 is the last one, for speed-ups have none of it."""
    found = dict.fromkeys(point.k for point in analysis.points)
    return sorted(found, key=lambda k: k or math.inf)


def speed_ups(name: str, title: str, answers: Answers, loads: Sequence[Load], lengths: Sequence[int]) -> Chart | None:
    """Return the heat map of the speed-up over k = 0: a cell for each k and load; None without any."""
    known = [
        (i, j, found)
        for i, load in enumerate(loads)
        for j, k in enumerate(lengths)
        if (found := answers.speed_up(load, k)) is not None and found.speed_up.value
    ]
    if not known:
        return None
    said = [
        f"k {each.k} at {load_text(each.load)}: {figure(each.speed_up)} ({interval(each.speed_up)}), {each.verdict}"
        for _, _, each in known
    ]

    def paint(axes: Axes, tips: Tips) -> None:
        from matplotlib.patches import Rectangle

        small = 10.0 if len(loads) <= 5 else 8.0 if len(loads) <= 8 else 6.5
        for (i, j, each), text in zip(known, said, strict=True):
            value = math.log(each.speed_up.value or 1.0)
            share = min(abs(value) / _STRONGEST, 1.0)
            colour = _FASTER if value > 0 else _SLOWER
            cell = Rectangle((i - 0.48, j - 0.46), 0.96, 0.92, facecolor=colour, alpha=0.08 + 0.5 * share, linewidth=0)
            axes.add_patch(cell)
            tips.add(cell, [text])
            shown = each.verdict in (Verdict.FASTER, Verdict.SLOWER)
            axes.text(
                i, j + 0.1, figure(each.speed_up), ha="center", va="center", color=INK if shown else MUTED,
                fontsize=small, fontweight="bold" if shown else "normal",
            )  # fmt: skip
            if each.speed_up.has_interval:
                ends = f"{number(each.speed_up.low)}–{number(each.speed_up.high)}"
                axes.text(i, j - 0.26, ends, ha="center", va="center", color=MUTED, fontsize=0.7 * small)
        axes.set(xlim=(-0.5, len(loads) - 0.5), ylim=(-0.5, len(lengths) - 0.5))
        axes.set(xlabel=load_header(loads), ylabel="draft length k")
        axes.set_xticks(range(len(loads)), [f"{load.value:g}" for load in loads])
        axes.set_yticks(range(len(lengths)), [str(k) for k in lengths])
        axes.grid(visible=False)

    note = "Bold where a difference from k 0 is shown; below, the 95 % interval."
    return draw(name, title, f"{title}. {'; '.join(said)}.", paint, note=note)


def speed_up_curves(name: str, analysis: SweepAnalysis) -> Chart | None:
    """Return the speed-up of each k over the load, with the loads at which it passes 1."""
    loads = analysis.loads
    lengths = [payoff.k for payoff in analysis.answers.payoffs][:SERIES]
    if not lengths or len(loads) < 2:
        return None
    crossings = {payoff.k: payoff.crossover for payoff in analysis.answers.payoffs if payoff.crossover is not None}

    def paint(axes: Axes, tips: Tips) -> None:
        for series, k in enumerate(lengths):
            found = [each for load in loads if (each := analysis.answers.speed_up(load, k)) is not None]
            points = [(each.load.value, each.speed_up, f"k {k} at {load_text(each.load)}") for each in found]
            _curve(axes, tips, points, series)
            if (crossing := crossings.get(k)) is not None and crossing.value is not None:
                if crossing.low is not None or crossing.high is not None:
                    low, high = crossing.low or loads[0].value, crossing.high or loads[-1].value
                    axes.plot([low, high], [1, 1], color=COLOURS[series], linewidth=4, alpha=0.35)
                (mark,) = axes.plot([crossing.value], [1], color=COLOURS[series], marker="|", markersize=13)
                tips.add(mark, [f"k {k} crosses 1 {crossover_text(crossing, loads[0])}"])
        axes.axhline(1, color=MUTED, linewidth=1, linestyle="--")
        _load_axis(axes, loads)
        axes.set(ylabel="speed-up over k = 0")

    said = "; ".join(f"k {k}: {crossover_text(found, loads[0])}" for k, found in crossings.items() if k in lengths)
    crosses = f" It passes 1: {said}." if said else ""
    note = "Strokes across the dashed line mark where a curve passes 1, thick lines the 95 % interval of it, if known."
    return draw(
        name, "Speed-up over the load", f"Speed-up of each k over the load.{crosses}", paint, note=note if said else ""
    )


def over_load(
    name: str, title: str, unit: str, analysis: SweepAnalysis, read: Callable[[Point], Estimate | float | None]
) -> Chart | None:
    """Return a figure of the points over the load, a line for each k; None where no point has it."""
    loads, lengths = analysis.loads, series_of(analysis)[:SERIES]
    by_length: dict[int | None, list[tuple[float, Estimate, str]]] = {}
    for point in analysis.points:
        found = read(point)
        given = found if isinstance(found, Estimate) else Estimate(found)
        if given.value is not None and point.k in lengths:
            of = "" if point.k is None else f"k {point.k} at "
            by_length.setdefault(point.k, []).append((point.load.value, given, f"{of}{load_text(point.load)}"))
    if not by_length or len(loads) < 2:
        return None

    def paint(axes: Axes, tips: Tips) -> None:
        for series, k in enumerate(lengths):
            _curve(axes, tips, by_length.get(k, []), series)
        _load_axis(axes, loads)
        axes.set(ylabel=unit)

    said = "; ".join(f"{text}: {figure(each)}" for points in by_length.values() for _, each, text in points)
    return draw(name, title, f"{title}, over the load. {said}.", paint)


def _curve(axes: Axes, tips: Tips, points: Sequence[tuple[float, Estimate, str]], series: int) -> None:
    known = [(at, each, text) for at, each, text in points if each.value is not None]
    if known:
        across, figures, names = zip(*known, strict=True)
        texts = [f"{text}: {figure(each)} ({interval(each)})" for each, text in zip(figures, names, strict=True)]
        line(axes, tips, across, figures, texts, series, band=True)


def _load_axis(axes: Axes, loads: Sequence[Load]) -> None:
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log")
    axes.set_xticks([load.value for load in loads], [f"{load.value:g}" for load in loads])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlabel=load_header(loads))
