"""What a page holds, before a template makes HTML of it. All texts are data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiperf_spec.render.html.template import fill

Facts = Sequence[tuple[str, str | Sequence[str]]]
"""What was run, by name; a command is a sequence of its words."""


@dataclass(slots=True, frozen=True)
class Card:
    """A figure that is looked for first."""

    name: str
    value: str
    unit: str = ""
    beside: str = ""


@dataclass(slots=True, frozen=True)
class Chart:
    """A drawing. `drawing` is HTML of the charts' own making: names stand in it as escaped titles alone."""

    title: str
    drawing: Any
    note: str = ""


@dataclass(slots=True, frozen=True)
class Point:
    """A figure of one series, with its interval where it has one. `dots` are what it is made of."""

    value: float
    low: float | None
    high: float | None
    figure: str
    interval: str
    said: str
    series: int = 0
    tone: str = ""
    """The class that colours it, where it is not its series'."""
    dots: Sequence[float] = ()


@dataclass(slots=True, frozen=True)
class Mark:
    """Where a point stands in its row: places are in percent of the chart's width, `y` of the row's height."""

    point: Point
    at: float
    y: float
    shape: str
    tone: str
    low: float | None
    high: float | None
    dots: Sequence[float]


@dataclass(slots=True, frozen=True)
class ForestRow:
    """A row of a forest plot; `is_whole` marks the one of everything together."""

    name: str
    beside: str
    marks: Sequence[Mark]
    is_whole: bool = False


@dataclass(slots=True, frozen=True)
class Tick:
    """A place on an axis, in percent of its length."""

    at: float
    label: str


@dataclass(slots=True, frozen=True)
class Forest:
    """Figures with their intervals below each other, which is a table too."""

    title: str
    first: str
    unit: str
    rows: Sequence[ForestRow]
    ticks: Sequence[Tick]
    zero: float | None = None
    legend: Sequence[str] = ()
    note: str = ""


@dataclass(slots=True, frozen=True)
class Group:
    """Charts that belong together, and their tables, which open on a click where they are `folded`.

    `sentences` stand above all of it and say what it comes to. What is None is left out.
    """

    title: str = ""
    sentences: Sequence[str] = ()
    forests: Sequence[Forest | None] = ()
    charts: Sequence[Chart | None] = ()
    legend: Sequence[str] = ()
    is_small: bool = False
    note: str = ""
    tables: Sequence[Any] = ()
    folded: Sequence[tuple[str, Sequence[Any]]] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not any((*self.forests, *self.charts, *self.tables, *self.folded))


@dataclass(slots=True, frozen=True, kw_only=True)
class Part:
    """What a page holds, and each run's part of a page of several; sections that are empty are left out."""

    title: str
    warnings: Sequence[str]
    cards: Sequence[Card] = ()
    facts: Facts = ()
    sections: Sequence[Section]


@dataclass(slots=True, frozen=True)
class Section:
    """Groups under a heading; `text` is a file's, folded under its summary; `runs` fold as well."""

    heading: str
    groups: Sequence[Group] = ()
    text_summary: str = ""
    text: str = ""
    runs: Sequence[Part] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.text.strip() or self.runs or any(not group.is_empty for group in self.groups))


@dataclass(slots=True, frozen=True, kw_only=True)
class Page(Part):
    """A page: warnings and answers first, then what was run, then the sections."""

    kicker: str
    about: Sequence[str] = ()

    def html(self) -> bytes:
        """Return the page as a file."""
        return fill("page.html.j2", page=self)
