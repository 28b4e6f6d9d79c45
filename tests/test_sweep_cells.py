"""Cells of a sweep: their names, their order, and how far a sweep is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aiperf_spec.analysis.sweep.points import load_shortfall
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.config.sweep_settings import SweepSettings
from aiperf_spec.errors import ConfigError
from aiperf_spec.load.cells import cell_config, loads_of, planned_cells
from aiperf_spec.models.sweep import Cell, CellRun, Load, LoadKind
from aiperf_spec.render.sweep_progress import SweepProgress, cell_lines, seconds_left
from aiperf_spec.render.sweep_sentences import cell_text
from tests.records import record


def at(concurrency: float) -> Load:
    return Load(LoadKind.CONCURRENCY, concurrency)


@pytest.mark.parametrize(
    ("cell", "name", "words"),
    [
        (Cell(4, at(8)), "k4-c8-1", "k 4, concurrency 8"),
        (Cell(0, Load(LoadKind.REQUEST_RATE, 2.5), repeat=3), "k0-r2.5-3", "k 0, 2.5 requests/s, repeat 3"),
        (Cell(None, at(1)), "c1-1", "concurrency 1"),
    ],
)
def test_a_cell_is_named_after_what_it_sets(cell: Cell, name: str, words: str) -> None:
    assert cell.name == name
    assert cell_text(cell) == words


def test_the_order_is_random_by_the_seed_and_keeps_repeats_and_draft_lengths_together() -> None:
    loads, ks = [at(n) for n in (1, 2, 4, 8)], [0, 2, 4]
    cells = planned_cells(loads, ks, 3, seed=1)
    assert len(cells) == len(set(cells)) == 36
    assert [cell.repeat for cell in cells] == [1] * 12 + [2] * 12 + [3] * 12
    # One server start for each draft length of each repeat.
    starts = [cell.k for before, cell in zip([None, *cells], cells, strict=False) if not before or before.k != cell.k]
    assert len(starts) <= 9
    groups = [cells[i : i + 4] for i in range(0, 36, 4)]
    assert all({cell.load for cell in group} == set(loads) for group in groups)
    assert len({tuple(cell.load for cell in group) for group in groups}) > 1
    assert cells == planned_cells(loads, ks, 3, seed=1)
    assert cells != planned_cells(loads, ks, 3, seed=2)


def test_a_cell_differs_from_the_others_in_its_load_alone() -> None:
    base = ProfileConfig(url="http://h:1", request_count=9, random_seed=3)
    config = cell_config(base, at(4))
    assert (config.concurrency, config.request_rate, config.concurrency_cap) == (4, None, 4)
    rated = cell_config(base, Load(LoadKind.REQUEST_RATE, 2.5), url="http://h:2")
    assert (rated.request_rate, rated.concurrency_cap, rated.url) == (2.5, None, "http://h:2")
    for other in (config, rated):
        assert (other.request_count, other.random_seed) == (9, 3)


def test_levels_keep_the_order_in_which_they_were_given() -> None:
    assert loads_of(SweepSettings(concurrency=(4, 1))) == [at(4), at(1)]
    assert loads_of(SweepSettings(request_rate=(0.5,))) == [Load(LoadKind.REQUEST_RATE, 0.5)]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "a sweep needs levels of load: --concurrency 1,2,4,8 or --request-rate 1,2,4"),
        ({"concurrency": (1,), "request_rate": (2.0,)}, "both set the levels"),
        ({"concurrency": (1, 2, 1)}, "--concurrency: 1 is listed twice"),
        ({"request_rate": (1.0, 0.0)}, "--request-rate 0: a level is more than 0"),
        ({"concurrency": (1,), "repeat": 0}, "--repeat"),
    ],
)
def test_levels_that_make_no_sweep_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SweepSettings.create(**values)


@pytest.mark.parametrize(
    ("concurrency", "late_ms", "shortfall"),
    [(4, 1, None), (4, 10, pytest.approx(4 / 1.1, abs=0.1)), (1, 10, pytest.approx(1 / 1.1, abs=0.01))],
)
def test_a_client_that_sends_late_has_less_in_flight(concurrency: int, late_ms: int, shortfall: object) -> None:
    records = []
    for index in range(10 * concurrency):
        start = (index // concurrency) * (100 + late_ms) + (index % concurrency) * 20
        records.append(record(index, start=start, contents=(10, 99), tokens=9))
    run = CellRun(cell=Cell(2, at(concurrency)), records=records)
    assert load_shortfall(run) == shortfall
    # Of too few requests, most are the beginning and the end; a rate sets no number in flight.
    assert load_shortfall(replace(run, records=records[: 2 * concurrency])) is None
    assert load_shortfall(replace(run, cell=Cell(2, Load(LoadKind.REQUEST_RATE, concurrency)))) is None


def test_what_is_left_takes_what_others_took_at_its_load() -> None:
    done = {Cell(0, at(1)): 10.0, Cell(2, at(1)): 6.0, Cell(0, at(8)): 2.0}
    assert seconds_left({}, [Cell(4, at(1))]) is None
    assert seconds_left(done, [Cell(4, at(1)), Cell(2, at(8)), Cell(0, at(4))]) == 8 + 2 + 6
    assert seconds_left(done, []) == 0


def test_the_table_shows_every_cell() -> None:
    cells = planned_cells([at(1), at(8)], [0, 4], 2, seed=0)
    progress = SweepProgress(cells)
    progress.throughputs = {Cell(0, at(1)): 100.0, Cell(0, at(1), 2): 120.0, Cell(4, at(1)): 210.4}
    progress.seconds = dict.fromkeys(progress.throughputs, 30.0)
    progress.failed = {Cell(4, at(8))}
    progress.current = Cell(0, at(8))
    assert [line.plain for line in cell_lines(progress, 80)] == [
        "4 of 8 cells done, 1 without a result, about 2:00 left",
        "           c 1     c 8",
        "k 0  110 (2/2)       ▸",
        "k 4  210 (1/2)  failed",
    ]
    # The first repeat's server of k 0 runs; three others are still to be started.
    progress.starts = [10.0, 20.0]
    progress.failed.clear()
    progress.cells = [cell for cell in cells if cell != Cell(4, at(8))]
    assert progress.summary() == "3 of 7 cells done, about 2:15 left"
    assert all(len(line.plain) < 20 for line in cell_lines(progress, 20))
