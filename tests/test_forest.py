"""Forest plots: where their marks stand."""

from __future__ import annotations

import pytest

from aiperf_spec.render.html.forest import Line, forest
from aiperf_spec.render.html.page import Point


def point(value: float, low: float | None = None, high: float | None = None, **more: float) -> Point:
    return Point(value, low, high, str(value), "", "", **{"series": 0, **more})  # type: ignore[arg-type]


def test_marks_keep_their_order_and_their_distances() -> None:
    plot = forest("T", "F", "u", [Line("a", "", [point(4, 3, 5)]), Line("b", "", [point(2, 1.5, 2.5)])])
    assert plot is not None
    (a,), (b,) = (row.marks for row in plot.rows)
    assert a.low is not None
    assert a.high is not None
    assert b.low is not None
    assert 0 <= b.low < b.at < a.low < a.at < a.high <= 100
    assert a.high - a.at == pytest.approx(2 * (b.at - b.low), abs=0.05)
    ticks = {float(tick.label): tick.at for tick in plot.ticks}
    assert ticks[4.0] == pytest.approx(a.at, abs=0.01)
    assert plot.zero is None


def test_an_interval_that_is_far_wider_than_figures_differ_is_cut() -> None:
    lines = [Line("a", "", [point(2.0, 1.9, 2.1)]), Line("b", "", [point(2.4, -90, 95)])]
    plot = forest("T", "F", "u", lines)
    assert plot is not None
    (a,), (b,) = (row.marks for row in plot.rows)
    assert b.low == pytest.approx(0, abs=5)
    assert b.high == pytest.approx(100, abs=5)
    assert b.at - a.at > 20


def test_zero_is_on_the_axis_of_differences() -> None:
    plot = forest("T", "F", "u", [Line("a", "", [point(7, 6, 8)])], zero=True)
    assert plot is not None
    assert plot.zero is not None
    assert 0 <= plot.zero < plot.rows[0].marks[0].at


def test_series_stand_below_each_other_in_a_row() -> None:
    plot = forest("T", "F", "u", [Line("a", "", [point(1), point(2, series=1), point(3, series=2)])], legend=["x"])
    assert plot is not None
    marks = plot.rows[0].marks
    assert [mark.y for mark in marks] == pytest.approx([16.67, 50, 83.33])
    assert len({mark.shape for mark in marks}) == 3
    assert [mark.tone for mark in marks] == ["c1", "c2", "c3"]


def test_figures_that_are_all_the_same_have_an_axis() -> None:
    plot = forest("T", "F", "u", [Line("a", "", [point(0.0)]), Line("b", "", [point(0.0)])])
    assert plot is not None
    assert {mark.at for row in plot.rows for mark in row.marks} == {50}


def test_without_figures_there_is_no_plot() -> None:
    assert forest("T", "F", "u", [Line("a", "", [])]) is None
