"""The acceptance matrix on screen."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group as Renderables
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from aiperf_spec.analysis.figure_names import FigureName
from aiperf_spec.analysis.matrix import Cell, Matrix, RunFigures
from aiperf_spec.config.choices import ReportSource
from aiperf_spec.models.decoding import some_undrafted
from aiperf_spec.render.layout import spaced, table_of
from aiperf_spec.render.text import broken, count, middle, number, plural, printable
from aiperf_spec.render.words import WORDS

_NAME = 32
_LISTED = 6
"""Runs that a note names."""

_GAUGE = (
    "~ marks a server's gauge averaged over time: it is not weighted by tokens, so do not compare it with other figures"
)
_AT_MOST = "≤ marks the greatest figure that the server's counters allow: some tokens may be of no finished request"


def matrix_report(
    matrix: Matrix, *, intervals: bool, width: int | None, labels: Mapping[str, str] | None = None
) -> RenderableType:
    """Return the matrix with its notes, in as many tables side by side as `width` asks for; None puts all in one.

    `labels` are what runs are called, by name.
    """
    tables = spaced(_tables(matrix, labels or {}, intervals=intervals, width=width))
    return Renderables(tables, Text("\n".join(notes(matrix, intervals=intervals)), style="dim"))


def _tables(matrix: Matrix, labels: Mapping[str, str], *, intervals: bool, width: int | None) -> Iterator[Table]:
    columns = [*matrix.columns, "Overall", "Pooled"]
    names = _names(matrix, labels)
    left = max(len(line) for lines in names for line in lines) + 1
    while columns:
        room, taken = (width or 1_000_000) - left, 0
        for name in columns:
            room -= max(len(name), 6 if not intervals else 11) + 1
            if room < 0 and taken:
                break
            taken += 1
        block, columns = columns[:taken], columns[taken:]
        yield _table(matrix, names, block, intervals=intervals)


def _names(matrix: Matrix, labels: Mapping[str, str]) -> list[list[str]]:
    several = len({row.model for row in matrix.rows}) < len(matrix.rows)
    names = []
    for row in matrix.rows:
        name = row.runs[0]
        run = printable(labels.get(name, name)) if len(row.runs) == 1 else plural(len(row.runs), "run")
        own = [f"  {line}" for line in broken(run, _NAME - 2)] if several or len(row.runs) > 1 else []
        names.append([middle(row.model, _NAME), *own])
    return names


def matrix_title(matrix: Matrix) -> str:
    """Return what the matrix shows, with its unit."""
    return matrix.metric.title if isinstance(matrix.metric, FigureName) else WORDS["matrix, title"][matrix.metric]


def _table(matrix: Matrix, names: list[list[str]], columns: Sequence[str], *, intervals: bool) -> Table:
    table = table_of(["<Model", *(Text(printable(name, 40)) for name in columns)], title=matrix_title(matrix))
    for row, lines in zip(matrix.rows, names, strict=True):
        cells: list[list[str]] = []
        for name in columns:
            if name == "Overall":
                mark = max((cell.mark for cell in row.cells.values()), default="")
                cells.append([f"{mark}{number(row.overall)}"])
            else:
                cell = row.pooled if name == "Pooled" else row.cells.get(name)
                cells.append(_lines(cell, intervals=intervals))
        height = max(len(lines), *(len(cell) for cell in cells))
        for i in range(height):
            texts = [lines[i] if i < len(lines) else "", *(cell[i] if i < len(cell) else "" for cell in cells)]
            table.add_row(*(Text(text) for text in texts), style="" if i == 0 else "dim", end_section=i == height - 1)
    return table


def _lines(cell: Cell | None, *, intervals: bool) -> list[str]:
    if cell is None or cell.value is None:
        return ["–"]
    lines = [f"{cell.mark}{number(cell.value)}"]
    if intervals:
        known = cell.low is not None and cell.high is not None
        lines.append(f"{number(cell.low)}–{number(cell.high)}" if known else "")
    n = cell.prompts if intervals and cell.prompts is not None else cell.requests
    if n is not None:
        lines.append(f"n={count(n)}")
    return lines


def notes(matrix: Matrix, *, intervals: bool) -> list[str]:
    """Return what is to be said under the table: the source and weighting of each run, and what was left out."""
    lines = []
    kind = ", figure" if isinstance(matrix.metric, FigureName) else ", rate" if matrix.is_timed else ""
    for source, weighting in WORDS[f"source{kind}"].items():
        if runs := [run for run in matrix.runs if run.source == source and not run.gauge]:
            lines.append(f"{source}: {_list(runs)}: {weighting}.")
    if gauges := [run for run in matrix.runs if run.gauge]:
        lines.append(f"{ReportSource.SERVER_METRICS}: {_list(gauges)}: {_GAUGE}.")
    if bounded := [run for run in matrix.runs if run.at_most]:
        lines.append(f"{ReportSource.SERVER_METRICS}: {_list(bounded)}: {_AT_MOST}.")
    if empty := [run for run in matrix.runs if run.source is None]:
        lines.append(f"no source: {_list(empty)}.")
    if matrix.is_timed and any(row.pooled and row.pooled.value is None and len(row.runs) > 1 for row in matrix.rows):
        lines.append("Pooled runs that were not all running at the same time have no combined throughput or duration.")
    behind = "prompts (or requests, where prompts cannot be told apart)" if intervals else "requests"
    lines.append(f"n: number of {behind}. Overall: unweighted mean of the categories. Pooled: all requests together.")
    if intervals:
        lines.append("Ranges are 95 % intervals over prompts; below 5 prompts there is none.")
    lines += [
        f"{printable(' '.join(run.names), 80)}: {100 * run.drafted_share:.0f} % of its decode steps had a draft. "
        "Length and rate exclude the other steps; --full shows tokens per decode step."
        for run in matrix.runs
        if run.drafted_share is not None and some_undrafted(run.drafted_share)
    ]
    lines += [
        f"{printable(' '.join(run.names), 80)}: {plural(run.unreadable, 'line')} of its records could not be read."
        for run in matrix.runs
        if run.unreadable
    ]
    return lines


def _list(runs: Sequence[RunFigures]) -> str:
    shown = ", ".join(printable(" ".join(run.names), 60) for run in runs[:_LISTED])
    return shown if len(runs) <= _LISTED else f"{shown} and {plural(len(runs) - _LISTED, 'other')}"
