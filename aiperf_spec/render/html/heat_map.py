"""The acceptance matrix as a heat map: a table, so that who cannot see colours reads it all the same."""

from aiperf_spec.analysis.matrix import Cell, Matrix, Row
from aiperf_spec.render.html.rich_to_html import safe
from aiperf_spec.render.matrix import notes
from aiperf_spec.render.text import count, middle, number

_MOST = 50
"""Per cent of colour under the largest figure: text on it keeps its contrast."""
_ACROSS = 6
"""Runs that stand side by side, categories down; more of them go down."""


def heat_map(matrix: Matrix) -> str:
    """Return the matrix, its figures with intervals and n, coloured from the smallest to the largest."""
    values = [cell.value for row in matrix.rows for cell in row.cells.values() if cell.value is not None]
    if not values:
        return ""
    low, high = min(values), max(values)
    several = len({row.model for row in matrix.rows}) < len(matrix.rows)
    names = [_name(row, several=several) for row in matrix.rows]
    grid = [
        [
            *(_coloured(row.cells.get(column), low, high) for column in matrix.columns),
            f"<td>{number(row.overall)}</td>",
            _coloured(row.pooled, low, high),
        ]
        for row in matrix.rows
    ]
    columns = [*(safe(middle(name, 32)) for name in matrix.columns), "Overall", "Pooled"]
    if len(names) <= _ACROSS:
        table = _table("Category", names, columns, [list(cells) for cells in zip(*grid, strict=True)])
    else:
        table = _table("Model", columns, names, grid)
    said = "".join(f"<p class='dim'>{safe(note)}</p>" for note in notes(matrix, intervals=True))
    return f"<div class='scroll'>{table}</div>{said}"


def _name(row: Row, *, several: bool) -> str:
    runs = f"<small>{safe(middle(' '.join(row.runs), 48))}</small>" if several else ""
    return f"{safe(middle(row.model, 48))}{runs}"


def _coloured(cell: Cell | None, low: float, high: float) -> str:
    if cell is None or cell.value is None:
        return "<td>–</td>"
    share = _MOST * (cell.value - low) / (high - low) if high > low else 0
    beside = []
    if cell.low is not None and cell.high is not None:
        beside.append(f"{number(cell.low)} to {number(cell.high)}")
    if cell.requests is not None:
        beside.append(f"n {count(cell.requests)}")
    small = f"<small>{safe(', '.join(beside))}</small>" if beside else ""
    shown = f"{'~' if cell.gauge else ''}{number(cell.value)}"
    return f'<td style="--h:{min(max(share, 0), _MOST):.0f}%">{shown}{small}</td>'


def _table(corner: str, across: list[str], down: list[str], grid: list[list[str]]) -> str:
    head = "".join(f"<th scope='col' class='num'>{name}</th>" for name in across)
    rows = "\n".join(
        f"<tr><th scope='row'>{name}</th>{''.join(cells)}</tr>" for name, cells in zip(down, grid, strict=True)
    )
    return (
        f"<table class='heat'><thead><tr><th scope='col'>{corner}</th>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )
