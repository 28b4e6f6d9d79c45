"""Help, version and completion of the command line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
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
        assert f"\n{group}:\n" in result.stdout
    assert result.stdout.index("\nCommands:\n") < result.stdout.index("\nServer:\n")
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize("command", [(), ("report",), ("compare",), ("doctor",), ("demo",), ("simulate",), ("docs",)])
def test_every_name_is_whole_in_80_columns(command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "80"})
    main: Any = typer.main.get_command(app)
    shown = main.commands[command[0]] if command else main
    names = {name for parameter in shown.params if parameter.param_type_name == "option" for name in parameter.opts}
    for name in names:
        assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", result.stdout), name
    assert not re.search(r"--[\w-]*-\n", result.stdout)


def test_the_program_alone_prints_an_overview() -> None:
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 2
    assert len(result.stdout.splitlines()) <= 15
    for command in ("doctor", "report", "compare", "demo", "docs", "--help"):
        assert f"spec-profile {command}" in result.stdout


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
