"""What a sweep prints and writes."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from aiperf_spec.analysis.sweep.slo import parse_slos
from aiperf_spec.analysis.sweep.sweep import SweepAnalysis, analyse_sweep
from aiperf_spec.artifacts.write.sweep_files import sweep_csv, sweep_json
from aiperf_spec.models.sweep import Cell, CellRun
from aiperf_spec.render.sweep import sweep_report
from aiperf_spec.render.sweep_sentences import sentences
from tests.simulated_sweeps import drafted_sweep, load, timed_sweep
from tests.test_sweep_analysis import latency_ms, step_ms
from tests.test_tables import shown

LENGTHS = (0, 1, 2, 4, 6)


@pytest.fixture(scope="module")
def full() -> SweepAnalysis:
    cells = drafted_sweep(1, step_ms, LENGTHS, (1, 8, 32))
    cells.append(CellRun(cell=Cell(9, load(1)), reason="the server died: \x1b[31m[bold]out of memory"))
    return analyse_sweep(cells, economy_lengths=LENGTHS, slos=parse_slos(["itl.p99 <= 20"]))


def test_the_closing_sentences_answer_each_question(full: SweepAnalysis) -> None:
    said = list(sentences(full))
    assert said[0].startswith("Best k: no difference shown between 2 and 4 at concurrency 1; 2 at concurrency 8 (1.39 ")
    assert "k 1: pays at every load measured." in said
    assert any(each.startswith("k 6: pays at concurrency 1") or "k 6: stops paying" in each for each in said)
    assert any(each.startswith("Under itl.p99 <= 20: the highest load is concurrency 32, with k 0") for each in said)
    assert said[-1].startswith("Predicted: 9 cells, all of them measured: error 0.")


def test_never_pays_is_said_in_those_words() -> None:
    cells = timed_sweep(1, lambda k, at: 10.0 + k, (0, 2, 4), (1, 8), of_both=0.02)
    _, never = sentences(analyse_sweep(cells))
    assert never.startswith("Speculation never pays here")
    mixed = timed_sweep(1, lambda k, at: {0: 10.0, 2: 8.0, 4: 15.0}[k], (0, 2, 4), (1, 8), of_both=0.02)
    assert "k 4: never pays here." in list(sentences(analyse_sweep(mixed)))


def test_cells_that_were_run_once_have_a_fastest_one_and_no_winner() -> None:
    said = list(sentences(analyse_sweep(timed_sweep(1, latency_ms, (0, 2, 4), (1, 64), repeats=1, of_both=0.01))))
    assert said[0].startswith("Fastest k measured: 4 at concurrency 1 (1.")
    assert said[0].endswith("; 0 at concurrency 64.")
    assert said[1].startswith("k 2: measured faster than k 0 at concurrency 1, not at concurrency 64 (even at about ")
    assert said[-1].startswith("No verdict: cells were run once")
    slow = timed_sweep(1, lambda k, at: 10.0 + k, (0, 2, 4), (1, 8), of_both=0.02, repeats=2)
    _, never, twice = sentences(analyse_sweep(slow))
    assert never == "k 2, 4: measured faster than k 0 at no load."
    assert twice.startswith("No verdict: cells were run twice")


def test_a_verdict_on_some_cells_does_not_pass_for_one_on_all() -> None:
    cells = timed_sweep(1, latency_ms, (0, 4), (1, 64), of_both=0.01)
    found = analyse_sweep([cell for cell in cells if cell.cell.name not in ("k4-c64-2", "k4-c64-3")])
    said = list(sentences(found))
    assert said[0].startswith("Best k: 4 at concurrency 1 (1.")
    assert said[0].endswith("; 0 at concurrency 64 (not judged).")
    assert said[1] == "k 4: pays at concurrency 1, not judged at concurrency 64."
    assert said[-1] == "Some cells were run once: there is no verdict on them."


def test_runs_that_scatter_make_no_winner() -> None:
    cells = timed_sweep(1, lambda k, at: 10.0, (0, 2, 4), (1, 8), repeats=3, of_run=0.4, of_both=0.02)
    best, every = sentences(analyse_sweep(cells))
    assert best == "Best k: no difference shown between 0, 2 and 4 at concurrency 1 and 8."
    assert every == "k 2, 4: no difference shown at any load."


def test_tables_show_speed_ups_with_what_they_are_made_of(full: SweepAnalysis) -> None:
    text = shown(sweep_report(full), 120)
    rows = [line.split() for line in text.splitlines()]
    assert ["8", "2", "40", "1.39", "1.29", "to", "1.50", "faster", "1.98", "17.00"] in rows
    assert ["32", "4", "0.81", "0.61", "to", "0.81", "0.81"] in [row[:7] for row in rows if len(row) == 8]
    assert "\x1b" not in text
    assert "k9-c1-1" in text
    assert "\\x1b[31m[bold]out of memory" in text


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_table_is_wider_than_the_terminal(full: SweepAnalysis, width: int) -> None:
    assert all(len(line) <= width for line in shown(sweep_report(full), width).splitlines())


def test_one_repeat_two_and_three_are_told_apart() -> None:
    notes = {
        n: " ".join(
            shown(sweep_report(analyse_sweep(timed_sweep(1, latency_ms, (0, 4), (1, 8), repeats=n))), 120).split()
        )
        for n in (1, 2, 3)
    }
    assert "No verdict: cells were run once" in notes[1]
    assert "do not hold how much equal runs differ" in notes[1]
    assert "Throughputs have intervals from 3 repeats on" in notes[2]
    assert "No verdict: cells were run twice" in notes[2]
    assert "No verdict" not in notes[3]
    assert "Where each k pays" not in notes[1] + notes[2]
    assert ["verdict" in notes[n].partition("Ratio of")[0] for n in (1, 2, 3)] == [False, False, True]
    assert "No acceptance was reported at k 4" in notes[3]


def test_the_best_of_each_category_is_shown() -> None:
    cells = timed_sweep(4, lambda k, at: 10.0 if not k else 6.0, (0, 4), (1,), of_both=0.02, categories=("a", "[b]"))
    text = shown(sweep_report(analyse_sweep(cells)), 100)
    assert "Best k of each category" in text
    assert "[b]" in text


def test_json_holds_figures_verdicts_and_sentences(full: SweepAnalysis) -> None:
    found = json.loads(sweep_json(full, list(sentences(full)), {"engine": {"schedule": [[1, 2, 4]]}}))
    assert [point["k"] for point in found["points"]] == [*LENGTHS] * 3
    assert found["points"][1]["inter_token_latency_ms"]["n"] == 40
    (pair,) = [each for each in found["speed_ups"] if (each["load"], each["k"], each["base_k"]) == (8, 2, 0)]
    assert pair["speed_up"]["value"] == pytest.approx(1.394, abs=0.001)
    assert pair["verdict"] == "faster"
    assert found["best"][1] == {"load": 8, "k": 2, "ties": [], "shown": True, "judged": True}
    assert found["slo"]["highest_load"] == 32
    assert len(found["economy"]["predictions"]) == 9
    assert found["failed_cells"][0]["k"] == 9
    assert found["configurations"] == {"engine": {"schedule": [[1, 2, 4]]}}
    assert (found["repeats"], found["repeats_for_verdicts"]) == (3, 3)
    assert found["sentences"][0].startswith("Best k")


def test_a_cell_with_less_load_than_asked_for_is_named_in_the_answer_and_the_files() -> None:
    late = timed_sweep(1, latency_ms, (0, 4), (2,), of_both=0.01)
    cells = [replace(run, cell=replace(run.cell, load=load(3))) if run.cell.name == "k4-c2-2" else run for run in late]
    found = analyse_sweep(cells)
    (said,) = [each for each in sentences(found) if each.startswith("Less load than asked for")]
    assert "k 4, concurrency 3, repeat 2 (2.0 in flight)" in said
    (told,) = json.loads(sweep_json(found))["cells_at_less_load"]
    assert (told["cell"], told["in_flight"]) == ("k4-c3-2", pytest.approx(2, abs=0.05))
    assert not any("Less load" in each for each in sentences(analyse_sweep(late)))


def test_csv_has_a_row_for_each_point(full: SweepAnalysis) -> None:
    rows = list(csv.DictReader(io.StringIO(sweep_csv(full).decode())))
    assert [(row["load"], row["k"]) for row in rows[:2]] == [("1", "0"), ("1", "1")]
    assert len(rows) == 15
    assert float(rows[7]["speed_up"]) == pytest.approx(1.394, abs=0.001)
    assert rows[7]["verdict"] == "faster"
    assert rows[0]["speed_up"] == ""
    assert rows[0]["acceptance_length"] == ""


def test_a_load_without_its_baseline_says_so() -> None:
    cells = timed_sweep(1, latency_ms, (0, 2, 4), (1, 8), of_both=0.02)
    text = shown(sweep_report(analyse_sweep([cell for cell in cells if not cell.cell.name.startswith("k0-c8")])), 120)
    assert "At concurrency 8 there is no cell of k = 0 to compare with." in text
    assert "8  4   –         –              –" in text


def test_categories_of_few_prompts_are_not_shown() -> None:
    cells = timed_sweep(4, lambda k, at: 10.0 if not k else 6.0, (0, 4), (1,), prompts=8, categories=("a", "b"))
    assert "Best k of each category" not in shown(sweep_report(analyse_sweep(cells)), 100)
