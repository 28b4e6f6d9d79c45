"""Turn the tables of a terminal into HTML: every text is escaped, and nothing else makes a tag."""

from collections.abc import Iterator
from html import escape
from typing import Any

from rich.console import Group as Renderables
from rich.table import Table
from rich.text import Text

from aiperf_spec.render.text import printable

_CLASSES = {"green": "good", "red": "bad", "yellow": "warn", "dim": "dim", "bold": "strong"}
_LONG = 4000


def html(renderable: Any) -> str:
    """Return a table, a text or a group of them as HTML."""
    if isinstance(renderable, Renderables):
        return "\n".join(html(part) for part in renderable.renderables if part != "")
    if isinstance(renderable, Table):
        return table_html(renderable)
    if not str(renderable).strip():
        return ""
    if isinstance(renderable, Text) and str(renderable.style) == "bold":
        return f'<p class="title">{safe(renderable.plain)}</p>'
    return f"<p>{text_html(renderable)}</p>"


def text_html(text: str | Text) -> str:
    """Return a text with its styles as classes, in one line for each of its own."""
    if isinstance(text, str):
        return safe(text)
    pieces, position = [], 0
    for span in sorted(text.spans, key=lambda span: span.start):
        if span.start < position:
            continue
        pieces.append(safe(text.plain[position : span.start]))
        pieces.append(_classed(safe(text.plain[span.start : span.end]), str(span.style)))
        position = span.end
    pieces.append(safe(text.plain[position:]))
    return _classed("".join(pieces), str(text.style))


def safe(text: str) -> str:
    """Return text as HTML that shows it, what a terminal could not show spelled out."""
    lines = ((line, printable(line, _LONG)) for line in text.split("\n"))
    # What parts a text from its neighbours is not for `printable` to take away.
    return "<br>".join(escape(_edges(line, shown)) for line, shown in lines)


def _edges(line: str, shown: str) -> str:
    if not shown:
        return " " if line else ""
    return f"{' ' if line[0] == ' ' else ''}{shown}{' ' if line[-1] == ' ' else ''}"


def _classed(inner: str, style: str) -> str:
    names = [_CLASSES[name] for name in style.split() if name in _CLASSES]
    return f'<span class="{" ".join(names)}">{inner}</span>' if names and inner else inner


def table_html(table: Table) -> str:
    """Return a table with its title as caption; figures stand to the right as they do in a terminal."""
    caption = (
        f"<caption>{text_html(table.title)}</caption>" if isinstance(table.title, str | Text) and table.title else ""
    )
    sides = ["num" if column.justify == "right" else "" for column in table.columns]
    head = ""
    if table.show_header and any(str(column.header) for column in table.columns):
        cells = (
            f"<th{_class(side)} scope='col'>{text_html(_text(column.header)).replace('<br>', ' ')}</th>"
            for column, side in zip(table.columns, sides, strict=True)
        )
        head = f"<thead><tr>{''.join(cells)}</tr></thead>"
    rows = "\n".join(_rows(table, sides))
    return f'<div class="scroll"><table>{caption}{head}<tbody>\n{rows}\n</tbody></table></div>'


def _rows(table: Table, sides: list[str]) -> Iterator[str]:
    below = False
    for row, *cells in zip(table.rows, *(column.cells for column in table.columns), strict=False):
        # The first column names the row.
        parts = []
        for position, (cell, side) in enumerate(zip(cells, sides, strict=True)):
            name, scope = ("th", " scope='row'") if position == 0 else ("td", "")
            parts.append(f"<{name}{_class(side)}{scope}>{text_html(_text(cell))}</{name}>")
        names = [*([_CLASSES[str(row.style)]] if str(row.style) in _CLASSES else []), *(["section"] if below else [])]
        yield f"<tr{_class(' '.join(names))}>{''.join(parts)}</tr>"
        below = row.end_section


def _class(names: str) -> str:
    return f' class="{names}"' if names else ""


def _text(cell: Any) -> str | Text:
    return cell if isinstance(cell, str | Text) else str(cell)
