"""Acceptance length by category as a forest plot."""

from __future__ import annotations

from collections.abc import Sequence

from aiperf_spec.analysis.matrix import Cell, Matrix, Row
from aiperf_spec.models.run import RequestRecord
from aiperf_spec.render.html.forest import Line, forest
from aiperf_spec.render.html.page import Forest, Point
from aiperf_spec.render.html.svg_plots import SERIES
from aiperf_spec.render.text import middle, number, plural

_DOTS = 24


def category_forest(matrix: Matrix, records: Sequence[RequestRecord] = ()) -> Forest | None:
    """Return each category's pooled acceptance length, the longest first, and that of everything together.

    A row of the matrix is a series. With the records of a single run, faint dots are the lengths of its requests.
    """
    rows = matrix.rows[:SERIES]
    alone = len(rows) == 1
    dots = _lengths(records) if alone else {}
    several = len({row.model for row in rows}) < len(rows)
    names = [_name(row, several=several) for row in rows]
    lines = []
    for column in matrix.columns:
        cells = [(i, cell) for i, row in enumerate(rows) if (cell := row.cells.get(column)) is not None]
        points = [p for i, cell in cells if (p := _point(column, names[i], i, cell, dots.get(column, ()))) is not None]
        if points:
            lines.append(Line(middle(column, 40), _n(cells[0][1]) if alone else "", points))
    lines.sort(key=lambda line: -line.middle)
    pooled = [p for i, row in enumerate(rows) if row.pooled and (p := _point("all", names[i], i, row.pooled, ()))]
    if len(lines) > 1:
        beside = _n(rows[0].pooled) if alone and rows[0].pooled else ""
        lines.append(Line("All, pooled", beside, pooled, is_whole=True))
    note = "Lines are 95 % intervals over prompts; a category of fewer than 5 prompts has none."
    note += " Faint dots are requests." if any(dots.values()) else ""
    if len(matrix.rows) > SERIES:
        note += f" {len(matrix.rows) - SERIES} more rows are in the table alone."
    legend = [] if alone else names
    return forest("Acceptance length by category", "Category", "acceptance length", lines, legend=legend, note=note)


def _name(row: Row, *, several: bool) -> str:
    return middle(" ".join(row.runs) if several else row.model, 40)


def _n(cell: Cell) -> str:
    if cell.prompts is not None:
        return plural(cell.prompts, "prompt")
    return "" if cell.requests is None else plural(cell.requests, "request")


def _point(column: str, run: str, series: int, cell: Cell, dots: Sequence[float]) -> Point | None:
    if cell.value is None:
        return None
    between = f"{number(cell.low)} to {number(cell.high)}" if cell.low is not None and cell.high is not None else ""
    shown = f"{cell.mark}{number(cell.value)}"
    said = ", ".join(filter(None, (f"{middle(run, 40)}, {middle(column, 40)}: {shown}", between, _n(cell))))
    return Point(cell.value, cell.low, cell.high, shown, between, said, series, dots=dots)


def _lengths(records: Sequence[RequestRecord]) -> dict[str, list[float]]:
    """Return the acceptance lengths of requests by category, at most `_DOTS` of each, evenly from least to greatest."""
    found: dict[str, list[float]] = {}
    for record in records:
        report = record.acceptance
        if report is not None and record.category is not None and (length := report.length) is not None:
            found.setdefault(record.category, []).append(length)
    return {name: _some(sorted(lengths)) for name, lengths in found.items()}


def _some(ordered: list[float]) -> list[float]:
    last = len(ordered) - 1
    return ordered if last < _DOTS else [ordered[i * last // (_DOTS - 1)] for i in range(_DOTS)]
