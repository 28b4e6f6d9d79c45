"""A matrix as CSV, JSON or Markdown."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from aiperf_spec.analysis.figure_names import FigureName
from aiperf_spec.analysis.matrix import Cell, Matrix, Row
from aiperf_spec.artifacts.write.csv_table import csv_bytes
from aiperf_spec.artifacts.write.record_lines import to_json
from aiperf_spec.config.choices import ReportMetric
from aiperf_spec.render.matrix import matrix_title

_UNITS = {ReportMetric.ACCEPT_LENGTH: "ratio", ReportMetric.ACCEPT_RATE: "%", ReportMetric.THROUGHPUT: "tokens/sec"}


def matrix_csv(matrix: Matrix, *, intervals: bool) -> bytes:
    """Return a line a row: model, runs, source, each category with its requests (and interval), both overalls, the
    metric and its unit.
    """
    parts = ("", " n", " low", " high") if intervals else ("", " n")
    columns = [f"{column}{part}" for column in matrix.columns for part in parts]
    rows = [["Model", "Run", "Source", *columns, "Overall", *(f"Pooled{part}" for part in parts), "Metric", "Unit"]]
    for row in matrix.rows:
        cells = [_csv_cell(row.cells.get(column), intervals=intervals) for column in matrix.columns]
        pooled = _csv_cell(row.pooled, intervals=intervals)
        figures = [*chain(*cells), _digits(row.overall), *pooled, str(matrix.metric), _unit(matrix)]
        rows.append([row.model, " ".join(row.runs), _source(matrix, row), *figures])
    return csv_bytes(rows)


def _unit(matrix: Matrix) -> str:
    return matrix.metric.unit if isinstance(matrix.metric, FigureName) else _UNITS[matrix.metric]


def _csv_cell(cell: Cell | None, *, intervals: bool) -> list[str]:
    if cell is None:
        return [""] * (4 if intervals else 2)
    texts = [_digits(cell.value), "" if cell.requests is None else str(cell.requests)]
    return [*texts, _digits(cell.low), _digits(cell.high)] if intervals else texts


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _source(matrix: Matrix, row: Row) -> str:
    sources = {run.source: run.gauge for run in matrix.runs if run.model == row.model and set(run.names) & {*row.runs}}
    return " ".join(f"{source} (gauge)" if gauge else str(source or "none") for source, gauge in sources.items())


def matrix_json(matrix: Matrix, *, intervals: bool, summaries: Sequence[dict[str, Any]] = ()) -> bytes:
    """Return the matrix with all its figures; `summaries` are the pooled runs' own, where they were asked for."""
    document: dict[str, Any] = {
        "metric": str(matrix.metric),
        "unit": _unit(matrix),
        "columns": matrix.columns,
        "rows": [
            {
                "model": row.model,
                "runs": row.runs,
                "source": _source(matrix, row),
                "cells": {name: _json_cell(cell, intervals=intervals) for name, cell in row.cells.items()},
                "overall_unweighted": row.overall,
                "overall_pooled": None if row.pooled is None else _json_cell(row.pooled, intervals=intervals),
            }
            for row in matrix.rows
        ],
        "runs": [
            {
                "run": " ".join(run.names),
                "model": run.model,
                "source": run.source,
                "gauge": run.gauge,
                "succeeded": run.succeeded,
                "unreadable_lines": run.unreadable,
            }
            for run in matrix.runs
        ],
    }
    if summaries:
        document["pooled_runs"] = list(summaries)
    return to_json(document, indent=True) + b"\n"


def _json_cell(cell: Cell, *, intervals: bool) -> dict[str, Any]:
    value: dict[str, Any] = {"value": cell.value, "requests": cell.requests}
    if intervals:
        value |= {"low": cell.low, "high": cell.high, "prompts": cell.prompts}
    if cell.gauge:
        value["token_weighted"] = False
    if cell.at_most:
        value["at_most"] = True
    return value


def matrix_markdown(matrix: Matrix, notes: Sequence[str], *, intervals: bool) -> bytes:
    """Return the title and a table whose cells are figure, interval and (n), with the notes below."""
    several = len({row.model for row in matrix.rows}) < len(matrix.rows)
    head = ["Model", *(["Run"] if several else []), *matrix.columns, "Overall", "Pooled"]
    lines = [
        f"**{matrix_title(matrix)}**\n",
        markdown_row(head),
        markdown_row(["---", *("--:" if i or not several else "---" for i in range(len(head) - 1))]),
    ]
    for row in matrix.rows:
        cells = [_markdown_cell(row.cells.get(column), intervals=intervals) for column in matrix.columns]
        runs = [" ".join(row.runs)] if several else []
        overall = "" if row.overall is None else f"{row.overall:.2f}"
        lines.append(markdown_row([row.model, *runs, *cells, overall, _markdown_cell(row.pooled, intervals=intervals)]))
    text = "\n".join(lines) + "\n" + "".join(f"\n{escaped(note)}\n" for note in notes)
    return text.encode("utf-8", "replace")


def _markdown_cell(cell: Cell | None, *, intervals: bool) -> str:
    if cell is None or cell.value is None:
        return ""
    text = f"{cell.mark}{cell.value:.2f}"
    if intervals and cell.low is not None and cell.high is not None:
        text += f" [{cell.low:.2f}, {cell.high:.2f}]"
    n = cell.prompts if intervals and cell.prompts is not None else cell.requests
    return text if n is None else f"{text} ({n:,})"


def markdown_row(cells: Sequence[str]) -> str:
    """Return a row of a table in GitHub's Markdown."""
    return "| " + " | ".join(escaped(cell) for cell in cells) + " |"


def escaped(text: str) -> str:
    """Return text in which Markdown finds neither a cell's end nor a tag."""
    # A name is data: no pipe of it ends a cell, no tag of it is one.
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "\\`")
