"""`spec-profile sweep`: cells that are run folders, and what is kept of a sweep that ends early."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from aiperf_spec.artifacts.read.sweep_folder import load_cell, read_cell_ends, read_plan
from aiperf_spec.artifacts.write.sweep_folder import SweepFolder
from aiperf_spec.cli.app import app
from aiperf_spec.errors import ArtifactError
from aiperf_spec.models.sweep import Cell, CellEnd, Load, LoadKind
from tests.support import Simulate
from tests.waiting import PATIENCE_SECONDS, lines_of, wait_until

R80 = Cell(None, Load(LoadKind.REQUEST_RATE, 80.5))
C1, C3 = (Cell(None, Load(LoadKind.CONCURRENCY, number)) for number in (1, 3))


def sweep(url: str, folder: Path, *options: str) -> Result:
    given = ["--concurrency", "1,3", "--settle-time", "0", "--max-tokens", "12", "--num-prompts", "6"]
    return CliRunner().invoke(app, ["sweep", "-u", url, *given, "--artifact-dir", str(folder), *options])


def bodies(folder: Path) -> list[Any]:
    lines = [json.loads(line) for line in (folder / "profile_export_raw.jsonl").read_text().splitlines()]
    return [line["payload"] for line in sorted(lines, key=lambda line: line["metadata"]["session_num"])]


def test_a_server_that_does_not_answer_is_not_said_to_lack_a_page(tmp_path: Path) -> None:
    done = sweep("http://127.0.0.1:9", tmp_path / "sweep", "--reset-cache")
    assert done.exit_code == 1
    assert "--reset-cache: POST /reset_prefix_cache: no connection" in done.stderr
    assert "no page of the server" not in done.stderr


def test_each_cell_is_a_run_that_sends_the_same(simulate: Simulate, tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    config = tmp_path / "raw.yaml"
    config.write_text("benchmark:\n  artifacts: {level: raw}\n")
    options = ["--repeat", "2", "--config", str(config), "--dataset-sampling-strategy", "shuffle", "--reset-cache"]
    done = sweep(simulate("vllm").url, folder, *options)
    assert done.exit_code == 0, done.stderr
    names = {"c1-1", "c1-2", "c3-1", "c3-2"}
    assert {path.name for path in folder.iterdir() if path.is_dir()} == names
    sent = [bodies(folder / name) for name in names]
    assert len(sent[0]) == 6
    assert all(each == sent[0] for each in sent)
    assert [line.split()[:3] for line in done.stdout.splitlines() if "6/6" not in line and "12/12" in line] == [
        ["1", "2", "12/12"],
        ["3", "2", "12/12"],
    ]
    assert done.stderr.count("--reset-cache: no page of the server") == 1
    assert "4 of 4 cells done" in done.stderr
    cell = load_cell(C3, folder / "c3-1")
    assert (cell.engine, cell.reported_k, len(cell.records)) == ("vllm", 5, 6)
    assert cell.server_metrics is not None
    running = cell.server_metrics.metrics["vllm:num_requests_running"]
    assert running.type == "gauge"
    assert running.series[0].labels["engine"] == "0"
    report = CliRunner().invoke(app, ["report", str(folder)])
    assert all(name in report.stdout for name in names)


def test_resuming_skips_what_is_whole(simulate: Simulate, tmp_path: Path) -> None:
    url = simulate("vllm").url
    assert sweep(url, tmp_path).exit_code == 0
    before = (tmp_path / "c1-1" / "profile_export.jsonl").read_bytes()
    # What a kill leaves: a line that is cut, and a folder without a line.
    journal = tmp_path / "sweep_cells.jsonl"
    lines = [line for line in journal.read_bytes().splitlines(keepends=True) if b"c1-1" in line]
    journal.write_bytes(lines[0] + b'{"cell": "c3-1", "sec')
    again = sweep(url, tmp_path)
    assert again.exit_code == 2
    assert "already holds a sweep" in again.stderr
    other = sweep(url, tmp_path, "--resume", "--temperature", "0.5")
    assert other.exit_code == 2
    assert "measured with nothing in place of --temperature 0.5" in other.stderr
    more = sweep(url, tmp_path, "--resume", "--repeat", "2")
    assert more.exit_code == 0, more.stderr
    assert (tmp_path / "c1-1" / "profile_export.jsonl").read_bytes() == before
    whole = [name for name, end in read_cell_ends(tmp_path).items() if end.reason is None]
    assert sorted(whole) == ["c1-1", "c1-2", "c3-1", "c3-2"]
    assert more.stderr.count(" tok/s in ") == 3


def test_ctrl_c_keeps_what_is_done(simulate: Simulate, tmp_path: Path) -> None:
    url = simulate("vllm", step_time_ms=20.0).url
    folder = tmp_path / "sweep"
    command = [sys.executable, "-m", "aiperf_spec", "sweep", "-u", url, "--concurrency", "1,2,3", "--num-prompts", "6"]
    command += ["--settle-time", "0", "--max-tokens", "40", "--artifact-dir", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: lines_of(folder / "sweep_cells.jsonl") == 1, "a cell", process)
    done = json.loads((folder / "sweep_cells.jsonl").read_text())["cell"]
    wait_until(lambda: len(list(folder.glob("c*/profile_export.jsonl"))) == 2, "another", process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130, err
    assert "Cells" in out
    assert "1 of 3 cells are kept in" in err
    assert [name for name, end in read_cell_ends(folder).items() if end.reason is None] == [done]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--concurrency", "1,two"], "--concurrency: 'two' is not a number"),
        (["--concurrency", "1.5"], "--concurrency: 1.5 is not a whole number"),
        (["--concurrency", "nan"], "--concurrency: nan is out of range"),
        (["--concurrency", "1", "--input-file", "-"], "standard input can be read only once"),
        (["--concurrency", "1", "--resume", "--artifact-dir", "nowhere"], "there is no sweep in 'nowhere'"),
        (["--concurrency", "1", "--num-prompts", "999"], "--num-prompts 999: there are"),
        (["--concurrency", "1", "--fixed-schedule"], "there is no option --fixed-schedule"),
    ],
)
def test_what_cannot_be_swept_is_refused_before_anything_is_sent(
    options: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(app, ["sweep", "-u", "127.0.0.1:9", *options])
    assert refused.exit_code == 2
    assert message in refused.stderr
    assert not [*tmp_path.iterdir()]


def test_a_server_that_is_not_there_ends_the_sweep_at_once(tmp_path: Path) -> None:
    gone = sweep("127.0.0.1:9", tmp_path)
    assert gone.exit_code == 1
    assert "error: http://127.0.0.1:9/v1/models" in gone.stderr


def test_a_cell_without_a_result_costs_no_other(simulate: Simulate, tmp_path: Path) -> None:
    url = simulate("vllm", faults=(("http_500_json", 0.4),), seed=5).url
    done = sweep(url, tmp_path, "--max-error-rate", "0", "--keep-going")
    assert done.exit_code == 1
    ends = read_cell_ends(tmp_path)
    assert set(ends) == {"c1-1", "c3-1"}
    assert any(end.reason is not None and "--max-error-rate" in end.reason for end in ends.values())


def test_levels_may_be_rates(simulate: Simulate, tmp_path: Path) -> None:
    given = ["--request-rate", "40,80.5", "--settle-time", "0", "--max-tokens", "4", "--num-prompts", "6"]
    command = ["sweep", "-u", simulate("vllm").url, *given, "--artifact-dir", str(tmp_path)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.stderr
    assert "80.5 requests/s: " in done.stderr
    lags = [record.scheduled_ns for record in load_cell(R80, tmp_path / "r80.5-1").records]
    assert len(lags) == 6
    assert None not in lags


def test_few_prompts_are_said_beforehand(simulate: Simulate, tmp_path: Path) -> None:
    done = sweep(simulate("vllm").url, tmp_path, "--request-count", "3")
    assert done.stderr.startswith("note: each cell sends fewer than 5 prompts")


def test_a_folder_knows_what_is_whole(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path / "sweep")
    folder.begin({"options": ["--url http://h"]}, resume=False)
    assert read_plan(folder.path) == {"options": ["--url http://h"]}
    folder.note(C1, CellEnd(1.5))
    assert not folder.is_done(C1)  # a line, and no folder
    (folder.path / C1.name).mkdir()
    (folder.path / C1.name / "profile_export_aiperf.json").write_text("{}")
    assert folder.is_done(C1)
    folder.note(C1, CellEnd(1.0, "it failed"))
    assert not folder.is_done(C1)
    assert read_cell_ends(folder.path) == {"c1-1": CellEnd(1.0, "it failed")}
    (folder.path / "sweep_plan.json").write_text("no JSON")
    with pytest.raises(ArtifactError, match="cannot be read as a plan"):
        SweepFolder(folder.path).begin({}, resume=True)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("")
    with pytest.raises(ArtifactError, match="already holds a run"):
        SweepFolder(tmp_path / "run").begin({}, resume=False)
