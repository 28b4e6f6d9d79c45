"""A sweep starts a real engine for each draft length, measures it, and ends all of its processes."""

from __future__ import annotations

import json
import re
import shlex
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aiperf_spec.artifacts.read.sweep_folder import load_cell, read_cell_ends
from aiperf_spec.cli.app import app
from aiperf_spec.models.sweep import Cell, Load, LoadKind
from tests.engines.conftest import Serve
from tests.engines.runs import CODE_PROMPTS
from tests.engines.server import EXAMPLES, MODEL, Engine, Setup, free_port
from tests.engines.vllm import DETAILED, VLLM

pytestmark = [pytest.mark.engine, pytest.mark.parametrize("engine", [VLLM], indirect=True, ids=["vllm"])]
LENGTHS, LOADS = (0, 2, 4), (1, 4)


def serving(engine: Engine, folder: Path, port: int) -> str:
    """Return the command that serves each draft length; in development mode the engine can empty its prefix cache."""
    script = str(EXAMPLES / engine.example / "serve.sh")
    branches = ""
    for k in LENGTHS:
        options = engine.arguments(Setup("ngram", k, DETAILED)) if k else ["--max-num-seqs", "64"]
        branches += f"{k}) exec {shlex.join(['sh', script, str(folder), str(port), *options])};; "
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in engine.place().items())
    return f"export VLLM_SERVER_DEV_MODE=1 {variables}; case {{k}} in {branches}esac"


def test_each_draft_length_is_started_measured_and_ended(serve: Serve, engine: Engine, tmp_path: Path) -> None:
    serve.stop()
    port, folder = free_port(), tmp_path / "sweep"
    options = f"--k {','.join(map(str, LENGTHS))} --concurrency {','.join(map(str, LOADS))} --num-prompts 8"
    options += f" --max-tokens 24 --temperature 0 --extra-inputs ignore_eos:true --model {MODEL} --reset-cache"
    command = ["sweep", "-u", f"127.0.0.1:{port}", *options.split(), "--input-file", str(CODE_PROMPTS)]
    command += ["--serve", serving(engine, tmp_path, port), "--artifact-dir", str(folder)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.stderr
    assert "--reset-cache" not in done.stderr
    assert {end.reason for end in read_cell_ends(folder).values()} == {None}
    accepted = set()
    for k in LENGTHS:
        log = (folder / "servers" / f"k{k}-1.log").read_text()
        assert len(re.findall(r"POST /reset_prefix_cache HTTP/1.1. 200", log)) == len(LOADS)
        for load in LOADS:
            cell = Cell(k, Load(LoadKind.CONCURRENCY, load))
            run = load_cell(cell, folder / cell.name)
            assert run.reported_k == (k or None)
            assert [record.output_tokens for record in run.records] == [24] * 8
            assert run.server_metrics is not None
            accepted.add((k, *(r.acceptance.num_accepted_draft_tokens for r in run.records if r.acceptance)))
    # At temperature 0, what is accepted depends on the draft length and not on the load.
    assert len(accepted) == len(LENGTHS)
    told = json.loads((folder / "sweep.json").read_text())
    assert len(told["points"]) == len(LENGTHS) * len(LOADS)
    with socket.socket() as tried:
        assert tried.connect_ex(("127.0.0.1", port)) != 0
