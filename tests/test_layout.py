"""Tables that fit, and that are left out where they say nothing."""

from __future__ import annotations

import pytest

from aiperf_spec.render.layout import FittingTable, spaced, table_of
from tests.test_tables import shown


def a_table() -> FittingTable:
    rows = [("TTFT (ms)", "35", "24.66", "9,493", "18.66"), ("ITL (ms)", "35", "1.94", "1.02", "1.99")]
    return table_of(("<Latency", "n", "avg", "max", "p50"), rows, drops=("max", "avg"))


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (80, ["Latency", "n", "avg", "max", "p50"]),
        (36, ["Latency", "n", "avg", "max", "p50"]),
        (29, ["Latency", "n", "avg", "p50"]),
        (20, ["Latency", "n", "p50"]),
    ],
)
def test_columns_are_left_out_before_a_figure_is_cut(width: int, columns: list[str]) -> None:
    lines = shown(a_table(), width).splitlines()
    assert lines[0].split() == columns
    assert max(map(len, lines)) <= width
    assert lines[2].split()[-1] == "18.66"


def test_columns_without_a_figure_are_hollow() -> None:
    table = table_of(("<Category", "n", "95 %"), [("math", "3", "n too small"), ("qa", "2", "–")])
    assert [str(column.header) for column in table.without_hollow().columns] == ["Category", "n"]
    assert len(table.columns) == 3


def test_tables_of_dashes_and_zeros_are_left_out() -> None:
    empty = table_of(("<", "a", "b"), [("x", "–", "0"), ("y", "n too small", "0.00")])
    assert empty.says_nothing
    assert not a_table().says_nothing
    assert shown(spaced([lambda: empty, a_table]), 80).startswith("Latency")
