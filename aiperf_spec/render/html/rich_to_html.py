"""Take a terminal's tables and texts apart, so that a template can show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group as Renderables
from rich.table import Table
from rich.text import Text

_CLASSES = {"green": "good", "red": "bad", "yellow": "warn", "dim": "dim", "bold": "strong"}


@dataclass(slots=True, frozen=True)
class Span:
    """A piece of text and the classes of its style."""

    text: str
    classes: str


@dataclass(slots=True, frozen=True)
class Cell:
    """A cell of a table; figures stand to the right, as they do in a terminal."""

    spans: Sequence[Span]
    is_figure: bool


@dataclass(slots=True, frozen=True)
class Row:
    """A row of a table, its first cell the row's name."""

    cells: Sequence[Cell]
    classes: str


@dataclass(slots=True, frozen=True)
class Block:
    """A text, or a table with `spans` as its caption."""

    spans: Sequence[Span]
    is_title: bool = False
    is_table: bool = False
    head: Sequence[Cell] = ()
    rows: Sequence[Row] = ()


def blocks(renderable: Any) -> Iterator[Block]:
    """Yield the tables and texts of a table, a text or a group of them; nothing of None and of empty texts."""
    if isinstance(renderable, Renderables):
        for part in renderable.renderables:
            yield from blocks(part)
    elif isinstance(renderable, Table):
        yield _table(renderable)
    elif renderable is not None and str(renderable).strip():
        bold = isinstance(renderable, Text) and str(renderable.style) == "bold"
        yield Block([Span(str(renderable), "")] if bold else _spans(renderable), is_title=bold)


def _table(table: Table) -> Block:
    figures = [column.justify == "right" for column in table.columns]
    head: list[Cell] = []
    if table.show_header and any(str(column.header) for column in table.columns):
        head = [
            Cell([Span(span.text.replace("\n", " "), span.classes) for span in _spans(column.header)], is_figure)
            for column, is_figure in zip(table.columns, figures, strict=True)
        ]
    return Block(_spans(table.title or ""), is_table=True, head=head, rows=list(_rows(table, figures)))


def _rows(table: Table, figures: Sequence[bool]) -> Iterator[Row]:
    below = False
    for row, *cells in zip(table.rows, *(column.cells for column in table.columns), strict=False):
        found = [Cell(_spans(cell), is_figure) for cell, is_figure in zip(cells, figures, strict=True)]
        yield Row(found, " ".join(filter(None, (_classes(str(row.style)), "section" if below else ""))))
        below = row.end_section


def _spans(text: Any) -> list[Span]:
    if not isinstance(text, Text):
        return [Span(str(text), "")]
    base, pieces, position = _classes(str(text.style)), [], 0
    for span in sorted(text.spans, key=lambda span: span.start):
        if span.start < position:
            continue
        pieces.append(Span(text.plain[position : span.start], base))
        pieces.append(Span(text.plain[span.start : span.end], _classes(str(span.style))))
        position = span.end
    return [piece for piece in (*pieces, Span(text.plain[position:], base)) if piece.text]


def _classes(style: str) -> str:
    return " ".join(_CLASSES[name] for name in style.split() if name in _CLASSES)
