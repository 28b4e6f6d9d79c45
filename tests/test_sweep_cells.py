"""Cells of a sweep: their names are those of their folders."""

import pytest

from aiperf_spec.models.sweep import Cell, Load, LoadKind


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        (Cell(4, Load(LoadKind.CONCURRENCY, 8)), "k4-c8-1"),
        (Cell(0, Load(LoadKind.REQUEST_RATE, 2.5), repeat=3), "k0-r2.5-3"),
        (Cell(None, Load(LoadKind.CONCURRENCY, 1)), "c1-1"),
    ],
)
def test_a_cell_is_named_after_what_it_sets(cell: Cell, name: str) -> None:
    assert cell.name == name
