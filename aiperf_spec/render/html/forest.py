"""Forest plots: figures with their intervals below each other. They are tables, whose strips the template draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from aiperf_spec.render.html.page import Forest, ForestRow, Mark, Point, Tick
from aiperf_spec.render.text import number

_SHAPES = (
    "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0",
    "M-4,-4h8v8h-8z",
    "M0,-5l5,9h-10z",
    "M0,-5l5,5l-5,5l-5,-5z",
    "M0,5l5,-9h-10z",
    "M-1.5,-5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z",
    "M-5,-3l2,-2l3,3l3,-3l2,2l-3,3l3,3l-2,2l-3,-3l-3,3l-2,-2l3,-3z",
    "M0,-6l1.7,4.2h4.3l-3.4,2.7l1.3,4.3l-3.9,-2.6l-3.9,2.6l1.3,-4.3l-3.4,-2.7h4.3z",
)
"""Of the series, in the order of `svg_plots.MARKERS`."""
_WHOLE = _SHAPES[3]


@dataclass(slots=True, frozen=True)
class Line:
    """A row: its name, what is said beside it, and its figures."""

    name: str
    beside: str
    points: Sequence[Point]
    is_whole: bool = False

    @property
    def middle(self) -> float:
        """What rows are sorted by."""
        return median(point.value for point in self.points)


def forest(
    title: str,
    first: str,
    unit: str,
    lines: Sequence[Line],
    *,
    zero: bool = False,
    legend: Sequence[str] = (),
    note: str = "",
) -> Forest | None:
    """Return the plot; None without figures. With `zero` the axis has a line there, for differences."""
    kept = [line for line in lines if line.points]
    if not kept:
        return None
    low, high = _extent([point for line in kept for point in line.points], zero=zero)
    ticks = [value for value in _ticks(low, high) if low <= value <= high]

    def at(value: float) -> float:
        return round(min(max(100 * (value - low) / (high - low), 0), 100), 2)

    def marks(line: Line) -> list[Mark]:
        return [
            Mark(
                point,
                at=at(point.value),
                y=round(100 * (i + 0.5) / len(line.points), 2),
                shape=_WHOLE if line.is_whole and not legend else _SHAPES[point.series % len(_SHAPES)],
                tone=point.tone or f"c{point.series + 1}",
                low=None if point.low is None or point.high is None else at(point.low),
                high=None if point.low is None or point.high is None else at(point.high),
                dots=[at(dot) for dot in point.dots],
            )
            for i, point in enumerate(line.points)
        ]

    rows = [ForestRow(line.name, line.beside, marks(line), line.is_whole) for line in kept]
    decimals = next((d for d in range(3) if all(abs(round(tick, d) - tick) < 1e-9 for tick in ticks)), 3)
    shown = [Tick(at(tick), number(tick, decimals)) for tick in ticks]
    return Forest(title, first, unit, rows, shown, at(0) if zero else None, legend, note)


def _extent(points: Sequence[Point], *, zero: bool) -> tuple[float, float]:
    """Return the axis' ends: all figures are within; of intervals much wider than the figures differ, a part."""
    values = [point.value for point in points] + [dot for point in points for dot in point.dots]
    values += [0.0] if zero else []
    ends = [end for point in points for end in (point.low, point.high) if end is not None]
    low, high = min(values), max(values)
    room = high - low or abs(high) or 1.0
    low, high = max(min([low, *ends]), low - room), min(max([high, *ends]), high + room)
    edge = 0.04 * (high - low) or 0.5
    return low - edge, high + edge


def _ticks(low: float, high: float) -> Sequence[float]:
    from matplotlib.ticker import MaxNLocator

    return [float(each) for each in MaxNLocator(nbins=4, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)]
