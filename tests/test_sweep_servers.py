"""`spec-profile sweep --k`: a server for each draft length, started, checked and ended."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from aiperf_spec.artifacts.read.sweep_folder import load_baseline, load_cell, read_cell_ends
from aiperf_spec.cli import demo
from aiperf_spec.cli.app import app
from aiperf_spec.config.sweep_settings import SweepSettings
from aiperf_spec.errors import ConfigError
from aiperf_spec.load import server_start
from aiperf_spec.load.cells import other_length
from aiperf_spec.models.sweep import Cell, Load, LoadKind
from tests.simulated_runs import request
from tests.support import Simulate
from tests.waiting import PATIENCE_SECONDS, lines_of, wait_until

ROOT = Path(__file__).parent.parent
SIMULATE = f"exec {shlex.quote(sys.executable)} -m aiperf_spec simulate --prefill-time-ms 2"
COSTS = "--step-time-ms 2 --batch-time-ms 0.2"


@pytest.fixture
def port() -> Iterator[int]:
    """Give a port that is free."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        number = found.getsockname()[1]
    yield number
    assert not is_taken(number), "a server was left running"


def is_taken(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def arguments(port: int, folder: Path, *options: str) -> list[str]:
    given = ["--settle-time", "0", "--max-tokens", "16", "--num-prompts", "8", "--artifact-dir", str(folder)]
    return ["sweep", "-u", f"127.0.0.1:{port}", "--concurrency", "1,4", *given, *options]


def sweep(port: int, folder: Path, *options: str) -> Result:
    return CliRunner().invoke(app, arguments(port, folder, *options), env={"COLUMNS": "200"})


def ends(folder: Path) -> dict[str, str | None]:
    return {name: end.reason for name, end in read_cell_ends(folder).items()}


def test_each_draft_length_has_a_server_of_its_own(port: int, tmp_path: Path) -> None:
    # Drafting costs so much that no machine is busy enough to hide it.
    costs = "--step-time-ms 2 --draft-time-ms 16"
    serve = f"echo k is $SPEC_PROFILE_K; {SIMULATE} {costs} --port {port} --num-spec-tokens {{k}}"
    options = ["--k", "0,3", "--serve", serve, "--serve-without", f"echo plain; {serve}", "--slo", "itl.p99 <= 1000"]
    done = sweep(port, tmp_path, *options)
    assert done.exit_code == 0, done.stderr
    assert ends(tmp_path) == dict.fromkeys(["k0-c1-1", "k0-c4-1", "k3-c1-1", "k3-c4-1"])
    logs = {path.name: path.read_text() for path in (tmp_path / "servers").iterdir()}
    assert logs["k0-1.log"].startswith("plain\nk is 0\n")
    assert logs["k3-1.log"].startswith("k is 3\n")
    assert not (tmp_path / "sweep_server.json").exists()
    told = json.loads((tmp_path / "sweep.json").read_text())
    assert [(point["load"], point["k"]) for point in told["points"]] == [(1, 0), (1, 3), (4, 0), (4, 3)]
    assert [(each["k"], each["comes_to"]) for each in told["pays"]] == [(3, "not judged")]
    assert "k 3: measured faster than k 0 at no load." in done.stdout
    assert "--repeat 1 gives no verdict" in done.stderr
    assert (tmp_path / "sweep.csv").read_text().count("\n") == 5
    for part in ("Speed-up over k = 0", "Fastest k measured at each load", "Under itl.p99 <= 1000"):
        assert part in done.stdout
    assert "no response reported" not in done.stderr


def test_what_fails_at_one_draft_length_costs_no_other(port: int, tmp_path: Path) -> None:
    # k 2 dies, and k 4 is served with another length.
    serve = (
        f"case {{k}} in 2) echo starting; echo out of memory; exit 3;; 4) k=1;; *) k={{k}};; esac; "
        f"{SIMULATE} {COSTS} --port {port} --num-spec-tokens $k"
    )
    done = sweep(port, tmp_path, "--k", "0,2,4", "--repeat", "2", "--serve", serve)
    assert done.exit_code == 1
    reasons = ends(tmp_path)
    assert len(reasons) == 12
    for name, reason in reasons.items():
        if name.startswith("k0"):
            assert reason is None
        elif name.startswith("k2"):
            assert reason is not None
            assert "the server ended with exit code 3 before it was ready" in reason
            assert "ends: starting | out of memory" in reason
        else:
            assert reason == "k 4 was asked for, and the engine reports 1"
    assert done.stderr.count("k 2 is not measured: the server ended") == 1
    # It is not started again for the second repeat.
    assert {path.name for path in (tmp_path / "servers").iterdir()} >= {"k0-1.log", "k0-2.log", "k2-1.log"}
    assert not (tmp_path / "servers" / "k2-2.log").exists()
    assert "Cells that failed" in done.stdout


def test_a_server_that_never_gets_ready_is_given_up(port: int, tmp_path: Path) -> None:
    done = sweep(port, tmp_path, "--k", "0,1", "--serve", "echo loading; sleep 600", "--serve-timeout", "0.5")
    assert done.exit_code == 1
    assert "--serve has no {k} in it, so the command has to read" in done.stderr
    for reason in ends(tmp_path).values():
        assert reason is not None
        assert "was not ready within 0.5 s (--serve-timeout)" in reason
        assert "ends: loading" in reason


def test_a_port_that_is_taken_is_said(simulate: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_start, "_FREE_SECONDS", 0.1)
    taken = int(simulate("vllm").url.rpartition(":")[2])
    done = sweep(taken, tmp_path, "--k", "0,1", "--serve", "exit 1")
    assert done.exit_code == 1
    assert all("is taken: something listens there" in (reason or "") for reason in ends(tmp_path).values())
    assert not list((tmp_path / "servers").glob("*"))


def test_what_a_kill_leaves_is_ended_and_gone_on_with(port: int, tmp_path: Path) -> None:
    serve = f"{SIMULATE.removeprefix('exec ')} --step-time-ms 5 --port {port} --num-spec-tokens {{k}} & wait"
    options = ["--k", "0,2", "--serve", serve]
    command = [sys.executable, "-m", "aiperf_spec", *arguments(port, tmp_path, *options)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    wait_until(lambda: lines_of(tmp_path / "sweep_cells.jsonl") == 1, "a cell", process)
    whole = json.loads((tmp_path / "sweep_cells.jsonl").read_text())["cell"]
    before = (tmp_path / whole / "profile_export.jsonl").read_bytes()
    wait_until(lambda: len(list(tmp_path.glob("k*/profile_export.jsonl"))) == 2, "another", process)
    process.kill()
    process.communicate(timeout=PATIENCE_SECONDS)
    state = json.loads((tmp_path / "sweep_server.json").read_text())
    wait_until(lambda: not is_taken(port), "the end of the server")
    # One whose watcher was killed as well: --resume ends it.
    left = subprocess.Popen(["/bin/sh", "-c", f"exec {SIMULATE.removeprefix('exec ')} --port {port}"], cwd=ROOT,
                            start_new_session=True, stdout=subprocess.DEVNULL)  # fmt: skip
    try:
        wait_until(lambda: is_taken(port), "the server", None)
        born = _born(left.pid)
        (tmp_path / "sweep_server.json").write_text(json.dumps({"group": left.pid, "born": born}))
        done = sweep(port, tmp_path, *options, "--resume")
        assert done.exit_code == 0, done.stderr
        assert left.wait(PATIENCE_SECONDS) is not None
    finally:
        if left.poll() is None:
            os.killpg(left.pid, signal.SIGKILL)
            left.wait()
    assert state["group"] != left.pid
    assert f"a server of the sweep was still running, and was ended (process group {left.pid})" in done.stderr
    assert ends(tmp_path) == dict.fromkeys(["k0-c1-1", "k0-c4-1", "k2-c1-1", "k2-c4-1"])
    assert (tmp_path / whole / "profile_export.jsonl").read_bytes() == before
    assert len(json.loads((tmp_path / "sweep.json").read_text())["points"]) == 4


def _born(process: int) -> Any:
    from aiperf_spec.load.process_group import _born

    return _born(process)


def test_ctrl_c_ends_the_server(port: int, tmp_path: Path) -> None:
    serve = f"{SIMULATE} --step-time-ms 10 --port {port} --num-spec-tokens {{k}}"
    command = [sys.executable, "-m", "aiperf_spec", *arguments(port, tmp_path, "--k", "0,2", "--serve", serve)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    wait_until(lambda: len(list(tmp_path.glob("k*/profile_export.jsonl"))) == 1, "a cell", process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130, err
    assert not is_taken(port)
    assert not (tmp_path / "sweep_server.json").exists()


def test_servers_that_run_already_are_used(simulate: Simulate, tmp_path: Path) -> None:
    urls = [simulate("vllm", num_spec_tokens=k).url for k in (0, 2, 4)]
    servers = [word for k, url in zip((0, 2, 4), urls, strict=True) for word in ("--server", f"{k}={url}")]
    given = ["sweep", "--concurrency", "1,2", "--settle-time", "0", "--max-tokens", "16", "--num-prompts", "6"]
    given += ["--artifact-dir", str(tmp_path / "sweep"), "--economy", *servers]
    done = CliRunner().invoke(app, given, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.stderr
    names = set(ends(tmp_path / "sweep"))
    # The winners are measured too, where they are predicted.
    assert {"k0-c1-1", "k0-c2-1", "k4-c1-1", "k4-c2-1"} <= names <= {f"k{k}-c{c}-1" for k in (0, 2, 4) for c in (1, 2)}
    told = json.loads((tmp_path / "sweep" / "sweep.json").read_text())["economy"]
    assert {each["k"] for each in told["predictions"]} == {2}


@pytest.mark.parametrize("engine", ["vllm", "llama_cpp"])
def test_a_cell_without_speculation_knows_its_engine(engine: str, simulate: Simulate, tmp_path: Path) -> None:
    given = ["sweep", "-u", simulate(engine, num_spec_tokens=0).url, "--concurrency", "1", "--num-prompts", "2"]
    done = CliRunner().invoke(app, [*given, "--max-tokens", "4", "--settle-time", "0", "--artifact-dir", str(tmp_path)])
    assert done.exit_code == 0, done.stderr
    cell = Cell(None, Load(LoadKind.CONCURRENCY, 1))
    assert load_cell(cell, tmp_path / cell.name).engine == engine


def test_runs_without_speculation_may_stand_for_k_0(simulate: Simulate, tmp_path: Path) -> None:
    plain, drafting = simulate("vllm", num_spec_tokens=0).url, simulate("vllm").url
    for name, url in (("plain", plain), ("other", drafting)):
        common = ["--concurrency", "2", "--max-tokens", "16", "--num-prompts", "6", "--settle-time", "0"]
        made = CliRunner().invoke(app, ["sweep", "-u", url, "--artifact-dir", str(tmp_path / name), *common])
        assert made.exit_code == 0, made.stderr
    loads = [Load(LoadKind.CONCURRENCY, 2)]
    (base,) = load_baseline(tmp_path / "plain", loads)
    assert (base.cell.k, base.cell.name, len(base.records)) == (0, "k0-c2-1", 6)
    with pytest.raises(ConfigError, match="no run without speculation at c8"):
        load_baseline(tmp_path / "plain", [*loads, Load(LoadKind.CONCURRENCY, 8)])
    with pytest.raises(ConfigError, match="no run without speculation at c2"):
        load_baseline(tmp_path / "other", loads)
    # Of runs of both kinds, those that drafted are no baseline.
    assert [run.folder for run in load_baseline(tmp_path, loads)] == [base.folder]
    given = ["sweep", "--server", f"5={drafting}", "--baseline", str(tmp_path / "plain"), *common]
    done = CliRunner().invoke(app, [*given, "--artifact-dir", str(tmp_path / "sweep")], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.stderr
    assert "Speed-up over k = 0" in done.stdout


@pytest.mark.parametrize(
    ("k", "reported", "accepted", "told"),
    [
        (4, 4, 4, None),
        (4, None, 4, None),
        (None, 7, 7, None),
        (4, 2, 2, "k 4 was asked for, and the engine reports 2"),
        (2, None, 3, "k 2 was asked for, and the engine accepted 3 draft tokens in a step"),
        (0, 5, 0, "k 0 was asked for, and the engine reports drafts"),
    ],
)
def test_what_an_engine_reports_is_held_to_what_was_asked(
    k: int | None, reported: int | None, accepted: int, told: str | None
) -> None:
    records = [request(0, (accepted, 0), k=reported, proposed=2 * (reported or 5))]
    assert other_length(k, records) == told


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"k": (0, 2)}, "--k needs --serve COMMAND"),
        ({"k": (0, 2, 0), "serve": "x"}, "--k: 0 is listed twice"),
        ({"k": (2, 4), "serve": "x"}, "list 0 among the draft lengths, or give --baseline"),
        ({"k": (0, -1), "serve": "x"}, "--k -1"),
        ({"k": (0, 2), "serve": "x", "baseline": Path("y")}, "are both a base for the speed-up"),
        ({"k": (2,), "serve": "x", "baseline": Path("y"), "serve_without": "z"}, "--serve-without starts"),
        ({"k": (0, 2), "serve": "x", "economy": True}, "--economy predicts draft lengths between"),
        ({"server": ((0, "a"), (0, "b"))}, "--server: 0 is listed twice"),
        ({"server": ((0, "a"),), "serve": "x"}, "give only one"),
        ({"server": ((0, "a"),), "k": (0,)}, "leave out --k"),
        ({"serve": "x"}, "--serve needs --k"),
        ({"economy": True}, "--economy needs --k"),
        ({"k": (0, 2), "serve": ""}, "--serve"),
    ],
)
def test_draft_lengths_that_make_no_sweep_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SweepSettings.create(concurrency=(1,), **values)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--server", "four=http://h:1"], "--server 'four=http://h:1': expected K=URL"),
        (["--server", "0=http://h:1", "-u", "h:2"], "--url and --server both name servers"),
        (["--k", "0,2", "--serve", "x"], "--url is missing"),
        (["-u", "h:1", "--slo", "ttft.p99 <="], "--slo 'ttft.p99 <='"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: list[str], message: str) -> None:
    refused = CliRunner().invoke(app, ["sweep", "--concurrency", "1", *options])
    assert refused.exit_code == 2
    assert message in refused.stderr


def test_the_demo_sweeps_a_simulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "_COSTS", {"--step-time-ms": 1.0, "--draft-time-ms": 0.1, "--batch-time-ms": 0.1})
    monkeypatch.setattr(demo, "_SWEPT", {"k": (0, 2, 4), "concurrency": (1, 4), "repeat": 1})
    done = CliRunner().invoke(app, ["demo", "--sweep", "--requests", "8"], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.stderr
    assert "6 of 6 cells are kept in artifacts/sweep-" in done.stderr
    # Which k it names depends on the machine.
    assert (
        done.stdout.index("Cells")
        < done.stdout.index("Speed-up over k = 0")
        < done.stdout.index("\nFastest k measured: ")
    )
