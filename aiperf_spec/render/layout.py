"""The look that all tables share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import replace

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.console import Group as Renderables
from rich.table import Column, Table
from rich.text import Text

from aiperf_spec.render.text import printable

_WRAPPED = 8
"""Columns that a text needs which may be broken."""


class FittingTable(Table):
    """A table that leaves columns out where the terminal is too narrow for all of them, rather than cut figures.

    `drops` names the columns that may go, the first one first.
    """

    drops: Sequence[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the columns that fit."""
        yield from Table.__rich_console__(self._fitted(options.max_width), console, options)

    @property
    def says_nothing(self) -> bool:
        """Whether no figure in it is other than zero."""
        return not any(re.search("[1-9]", _plain(cell)) for column in self._of_figures for cell in column.cells)

    def without_hollow(self) -> FittingTable:
        """Return it without the columns of figures in which no cell has a figure."""
        hollow = [
            column for column in self._of_figures if not any(re.search("[0-9]", _plain(cell)) for cell in column.cells)
        ]
        return self._of([column for column in self.columns if column not in hollow])

    @property
    def _of_figures(self) -> list[Column]:
        return [column for column in self.columns if column.justify == "right"]

    def _fitted(self, width: int) -> FittingTable:
        left = list(self.columns)
        if sum(map(_width, left)) + 2 * (len(left) - 1) <= width:
            return self
        for name in self.drops:
            if sum(map(_width, left)) + len(left) - 1 <= width:
                break
            left = [column for column in left if _plain(column.header) != name]
        close = self._of(left)
        if sum(map(_width, left)) + 2 * (len(left) - 1) > width:
            close.padding = (0, 0, 0, 0)
        return close

    def _of(self, columns: Sequence[Column]) -> FittingTable:
        chosen = copy(self)
        chosen.columns = [replace(column, _index=i) for i, column in enumerate(columns)]
        return chosen


def _plain(cell: RenderableType) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


def _width(column: Column) -> int:
    if not column.no_wrap:
        return min(_WRAPPED, max(map(cell_len, _plain(column.header).split()), default=0))
    lines = (line for cell in (column.header, *column.cells) for line in _plain(cell).split("\n"))
    return max(map(cell_len, lines), default=0)


def table_of(
    columns: Iterable[str | Text],
    rows: Iterable[Iterable[RenderableType]] = (),
    title: str | Text = "",
    wraps: str = "",
    drops: Sequence[str] = (),
) -> FittingTable:
    """Return a table with a rule under the header, no wider than it needs to be.

    Figures stand to the right; a column that is marked as "<name" holds text, which stands to the left. No column but
    the one named by `wraps` is broken where the terminal is narrow: those named by `drops` are left out, in that order.
    """
    table = FittingTable(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        padding=(0, 1, 0, 0),
        collapse_padding=True,
    )
    table.drops = drops
    for column in columns:
        text = isinstance(column, str) and column.startswith("<")
        name = column[1:] if text else column
        table.add_column(name, justify="left" if text else "right", no_wrap=not wraps or name != wraps)
    for row in rows:
        table.add_row(*row)
    return table


def pairs(style: str = "") -> Table:
    """Return a table of two columns without a header: names, in this style, and what is said of each."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style=style, no_wrap=True)
    grid.add_column()
    return grid


def titled(title: str, table: Table, notes: Sequence[str] = ()) -> RenderableType:
    """Return a table under its title and over its notes, both as wide as the terminal.

    A title of the table's own wraps at the table's width, which may be a few columns.
    """
    parts: list[RenderableType] = [Text(title, style="bold"), table]
    if notes:
        parts.append(Text(" ".join(notes), style="dim"))
    return Renderables(*parts)


Part = Callable[[], RenderableType | None]
"""Makes a table or a text; None where there is nothing to show."""


def spaced(parts: Iterable[RenderableType | Part]) -> Renderables:
    """Return tables and texts below each other, an empty line after each; tables that say nothing are left out."""
    made = (standing(part) if callable(part) else part for part in parts)
    return Renderables(*(each for part in made if part is not None for each in (part, "")))


def standing(part: Part) -> RenderableType | None:
    """Return what a part makes; where it fails, a line that says so, for the others are to be shown."""
    try:
        made = part()
        return None if isinstance(made, FittingTable) and made.rows and made.says_nothing else made
    except Exception as error:
        what = f"A table that belongs here could not be made ({type(error).__name__}: {printable(str(error))})."
        return Text(f"{what} Please report it.", style="red")
