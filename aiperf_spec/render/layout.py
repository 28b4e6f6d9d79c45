"""The look that all tables share."""

from collections.abc import Callable, Iterable, Sequence

from rich import box
from rich.console import Group as Renderables
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from aiperf_spec.render.text import printable


def table_of(
    columns: Iterable[str | Text],
    rows: Iterable[Iterable[RenderableType]] = (),
    title: str | Text = "",
    wraps: str = "",
) -> Table:
    """Return a table with a rule under the header, no wider than it needs to be.

    Figures stand to the right; a column that is marked as "<name" holds text, which stands to the left. No column but
    the one named by `wraps` is broken where the terminal is narrow.
    """
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        padding=(0, 1, 0, 0),
        collapse_padding=True,
    )
    for column in columns:
        text = isinstance(column, str) and column.startswith("<")
        name = column[1:] if text else column
        table.add_column(name, justify="left" if text else "right", no_wrap=not wraps or name != wraps)
    for row in rows:
        table.add_row(*row)
    return table


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
    """Return tables and texts below each other, an empty line after each.

    A part that makes one stands alone: where it fails, a line in its place says so, and the others are shown.
    """
    made = (_made(part) if callable(part) else part for part in parts)
    return Renderables(*(each for part in made if part is not None for each in (part, "")))


def _made(part: Part) -> RenderableType | None:
    try:
        return part()
    except Exception as error:
        what = f"A table that belongs here could not be made ({type(error).__name__}: {printable(str(error))})."
        return Text(f"{what} Please report it.", style="red")
