"""Help, version and completion of the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aiperf_spec.cli.app import app
from aiperf_spec.version import __version__

PROGRAM = Path(sys.executable).with_name("spec-profile")


def test_help_ends_with_examples_that_fit() -> None:
    result = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    examples = result.stdout[result.stdout.index("Examples") :].splitlines()[1:]
    shown = [line.strip() for line in examples if line.strip()]
    assert len(shown) == 6
    assert all(line.startswith("spec-profile ") for line in shown)
    for group in ("Server", "Load", "Prompts", "Request", "Output", "Analysis", "Gates", "Commands"):
        assert f"─ {group} ─" in result.stdout


def test_version() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout == f"spec-profile {__version__}\n"


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not installed beside the interpreter")
@pytest.mark.parametrize(("typed", "offered"), [("doct", "doctor"), ("--server-metrics-u", "--server-metrics-url")])
def test_completion(typed: str, offered: str) -> None:
    environment = {
        **os.environ,
        "_SPEC_PROFILE_COMPLETE": "complete_bash",
        "COMP_WORDS": f"spec-profile {typed}",
        "COMP_CWORD": "1",
    }
    done = subprocess.run([PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [offered]
