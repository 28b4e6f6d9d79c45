"""The look that all tables share."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Group as Renderables
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text


def new_table(title: str) -> Table:
    """Return an empty table: a title, a rule under the header, and no wider than it needs to be."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        padding=(0, 1, 0, 0),
        collapse_padding=True,
    )


def add_columns(table: Table, *names: str, right: bool = True) -> None:
    """Add columns that never wrap; figures stand to the right."""
    for name in names:
        table.add_column(name, justify="right" if right else "left", no_wrap=True)


def titled(title: str, table: Table, notes: Sequence[str] = ()) -> RenderableType:
    """Return a table under its title and over its notes, both as wide as the terminal.

    A title of the table's own wraps at the table's width, which may be a few columns.
    """
    parts: list[RenderableType] = [Text(title, style="bold"), table]
    if notes:
        parts.append(Text(" ".join(notes), style="dim"))
    return Renderables(*parts)
