"""The page of a sweep, and the files of its folder."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from aiperf_spec.analysis.sweep.slo import parse_slos
from aiperf_spec.analysis.sweep.sweep import SweepAnalysis, analyse_sweep
from aiperf_spec.artifacts.write.sweep_results import write_sweep
from aiperf_spec.models.sweep import Cell, CellRun, Load, LoadKind
from aiperf_spec.render.html.sweep_page import sweep_page
from tests.simulated_sweeps import drafted_sweep, load, timed, timed_sweep
from tests.test_schedules import with_batches
from tests.test_sweep_analysis import latency_ms, step_ms

HOSTILE = "<script>alert(1)</script>\x1b[31m"


@pytest.fixture(scope="module")
def full() -> SweepAnalysis:
    cells = with_batches(
        timed_sweep(3, latency_ms, (0, 2, 4), (1, 8, 64), of_both=0.05, categories=("code", HOSTILE), repeats=3)
    )
    cells.append(CellRun(cell=Cell(9, load(1)), reason=HOSTILE))
    return analyse_sweep(cells, slos=parse_slos(["itl.avg <= 13"]))


def test_the_page_has_the_heat_map_the_curves_and_the_crossings(full: SweepAnalysis) -> None:
    page = sweep_page(full).decode()
    assert page.count("<figcaption>Speed-up by k and load</figcaption>") == 1
    assert page.count("<figcaption>Speed-up over the load</figcaption>") == 1
    assert re.search(r"<title>k 2 at concurrency 1: 1\.\d\d \(1\.\d\d to 1\.\d\d\), faster</title>", page)
    assert "<title>k 4 crosses 1 between concurrency" in page
    assert "Configuration for vLLM" in page
    assert "num_speculative_tokens_per_batch_size" in page
    assert "Best k of each category" in page or "best k of each category" in page


def test_the_page_takes_names_for_data_and_has_no_script(full: SweepAnalysis) -> None:
    page = sweep_page(full).decode()
    assert "<script" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "http" not in re.sub(r"http://www\.w3\.org/[^\"']*|http-equiv", "", page)


def test_the_page_is_the_same_each_time(full: SweepAnalysis) -> None:
    assert sweep_page(full) == sweep_page(full)


@pytest.mark.parametrize(
    "cells",
    [
        [],
        timed_sweep(1, latency_ms, (0, 4), (1,), prompts=3),
        [CellRun(cell=Cell(None, Load(LoadKind.REQUEST_RATE, 2.5)), records=[timed(i, 5) for i in range(6)])],
        drafted_sweep(1, step_ms, (0, 4), (1, 8)),
    ],
)
def test_a_page_is_made_of_whatever_there_is(cells: list[CellRun]) -> None:
    assert sweep_page(analyse_sweep(cells)).startswith(b"<!DOCTYPE html>")


def test_the_folder_holds_every_file(full: SweepAnalysis, tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text("of an earlier call")
    assert write_sweep(tmp_path, full) == []
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"sweep.json", "sweep.csv", "sweep.html", "speculative_config.json"}
    told = json.loads((tmp_path / "sweep.json").read_bytes())["configurations"]["vLLM"]
    assert told["content"] == json.loads((tmp_path / "speculative_config.json").read_bytes())
    assert told["file"] == "speculative_config.json"


def test_a_file_that_cannot_be_written_costs_no_other(full: SweepAnalysis, tmp_path: Path) -> None:
    (tmp_path / "sweep.csv").mkdir()
    (fault,) = write_sweep(tmp_path, full, page=False)
    assert "sweep.csv" in fault.message
    assert {path.name for path in tmp_path.iterdir()} == {"sweep.json", "sweep.csv", "speculative_config.json"}
