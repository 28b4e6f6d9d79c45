"""The page of a course of candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from aiperf_spec.analysis.comparison.course import Against, Checkpoint, Course, place_value
from aiperf_spec.analysis.gates import GateResult
from aiperf_spec.render.course import cautions, course_table, left_out, method, name_of, p_text, sentences
from aiperf_spec.render.gates import gates_table
from aiperf_spec.render.html.comparison_page import TONES
from aiperf_spec.render.html.forest import Line, forest
from aiperf_spec.render.html.page import Card, Chart, Forest, Group, Page, Point, Section
from aiperf_spec.render.html.svg_plots import COLOURS, INK, MARKERS, MUTED, Tips, draw
from aiperf_spec.render.missing import figure, interval, signed
from aiperf_spec.render.text import middle, plural, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TICKS = 8
"""Places that are named on the axis; tips name all."""


def course_page(found: Course, gates: Mapping[str, Sequence[GateResult]], *, strict: bool) -> bytes:
    """Return the page: what it comes to, then the lengths in order, with the table folded under them.

    `gates` are their outcomes by candidate.
    """
    ordered_by = printable(found.ordered_by, 40)
    folded = [("Table: course", [course_table(found)])]
    charts = [course_chart("co", found)]
    course = Group(charts=charts, folded=folded, note=method(found)) if found.checkpoints else Group()
    base = [(each, each.against_base) for each in found.checkpoints]
    best = [(each, each.against_best) for each in found.checkpoints if each.against_best is not None]
    plots = [_forest("Difference from the base", found, base), _forest("Difference from the best", found, best)]
    judged = [
        Group(tables=[gates_table(gates[each.name], strict=strict, title=name_of(found, each))])
        for each in found.checkpoints
        if each.name in gates
    ]
    sections = [
        Section(f"Acceptance length by {ordered_by}", [course]),
        Section("Differences", [Group(forests=plots)]),
        Section("Gates", judged),
        Section("Left out", [Group(tables=["\n".join(left_out(found))])]),
    ]
    return Page(
        kicker=f"Course of {plural(len(found.checkpoints), 'candidate')}, by {ordered_by}",
        title=f"{middle(found.base, 60)} and {plural(len(found.checkpoints), 'candidate')}",
        about=list(sentences(found)),
        warnings=cautions(found),
        cards=_cards(found),
        facts=[("Base", printable(found.base, 400))],
        sections=sections,
    ).html()


def _cards(found: Course) -> list[Card]:
    base = Card("Base", figure(found.base_length), beside=interval(found.base_length))
    if found.best is None:
        return [base]
    best = found.checkpoints[found.best]
    tied = sum(each.is_tied for each in found.checkpoints)
    name = f"Best: {name_of(found, best)}"
    beside = interval(best.length) + (f"\nno difference shown to {plural(tied, 'other')}" if tied else "")
    return [Card(name, figure(best.length), beside=beside), base]


def _forest(title: str, found: Course, rows: Sequence[tuple[Checkpoint, Against | None]]) -> Forest | None:
    known = [(each, against, against.difference.estimate) for each, against in rows if against is not None]
    lines = [
        Line(
            name_of(found, each),
            "",
            [
                Point(
                    value.value, value.low, value.high, signed(value.value), interval(value), _said(found, each),
                    tone=TONES.get(against.verdict, "muted"),
                )
            ],
        )
        for each, against, value in known
        if value.value is not None
    ]  # fmt: skip
    note = "Intervals are 95 %, paired by prompt. Green is better, red is worse, grey is no difference shown."
    return forest(title, "Candidate", "difference of acceptance length", lines, zero=True, note=note)


def course_chart(name: str, found: Course) -> Chart | None:
    """Return the length of each candidate over its place, the base as a line, the best marked; None without any.

    Numbers stand where they are; other places stand beside each other.
    """
    known = [each for each in found.checkpoints if each.length.value is not None]
    if not known:
        return None
    values = [place_value(each.place) for each in found.checkpoints]
    numbers = [value for value in values if value is not None]
    are_numbers = len(numbers) == len(values)
    places = numbers if are_numbers else [float(i) for i in range(len(values))]
    at = [x for x, each in zip(places, found.checkpoints, strict=True) if each in known]
    texts = [_said(found, each) for each in known]

    def paint(axes: Axes, tips: Tips) -> None:
        base = found.base_length
        if base.value is not None:
            line = axes.axhline(base.value, color=MUTED, linewidth=1.2, linestyle="--")
            tips.add(line, [f"base: {figure(base)} ({interval(base)})"])
            if base.low is not None and base.high is not None:
                axes.axhspan(base.low, base.high, color=MUTED, alpha=0.08, linewidth=0)
        for x, each in zip(at, known, strict=True):
            if each.length.low is not None and each.length.high is not None:
                axes.plot([x, x], [each.length.low, each.length.high], color=COLOURS[0], linewidth=1.4)
        lengths = [each.length.value or 0.0 for each in known]
        if found.best is not None:
            best = found.checkpoints[found.best]
            axes.plot(
                [places[found.best]], [best.length.value or 0.0], color=INK, marker="o", markersize=11,
                markerfacecolor="none", linestyle="none",
            )  # fmt: skip
        (drawn,) = axes.plot(at, lengths, color=COLOURS[0], marker=MARKERS[0])
        tips.add(drawn, texts)
        if not are_numbers:
            every = -(-len(places) // _TICKS)
            shown = range(0, len(places), every)
            names = [_tick(i, found.checkpoints[i].place) for i in shown]
            axes.set_xticks([places[i] for i in shown], names)
        axes.set(xlabel=found.ordered_by[:30] if found.ordered_by.isascii() else "", ylabel="acceptance length")

    title = f"Acceptance length by {printable(found.ordered_by, 40)}"
    note = "Lines are 95 % intervals over prompts. Dashes: the base, with its interval. The circle marks the best."
    return draw(name, title, f"{title}. {'; '.join(texts)}.", paint, note=note)


def _tick(number: int, place: str) -> str:
    # The drawing's font does not have every character.
    return place[:10] if place.isascii() else str(number + 1)


def _said(found: Course, each: Checkpoint) -> str:
    said = f"{name_of(found, each)}: {figure(each.length)} ({interval(each.length)})"
    return "; ".join(filter(None, (said, _against("base", each.against_base), _against("best", each.against_best))))


def _against(name: str, found: Against | None) -> str:
    if found is None:
        return "the best" if name == "best" else ""
    estimate = found.difference.estimate
    p = "" if found.adjusted_p is None else f", p {p_text(found.adjusted_p)}"
    return f"{signed(estimate.value)} to the {name} ({found.verdict}{p})"
