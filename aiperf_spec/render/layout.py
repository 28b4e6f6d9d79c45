"""The look that all tables share."""

from __future__ import annotations

from rich import box
from rich.table import Table


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
