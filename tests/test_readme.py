"""What the README shows works as it stands there, and every option is in it and in the changelog."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import typer.main

from aiperf_spec.cli.app import app
from tests.support import Simulate

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
SCRIPTS = Path(sysconfig.get_path("scripts"))
TWO_COMMANDS = """
    python3 -m venv .venv && .venv/bin/pip install -e '.[dev]' && .venv/bin/spec-profile demo
    .venv/bin/pytest
"""
# What stands for a server, a model or a run of the reader's own.
STAND_INS = {
    "http://HOST:PORT": "{url}",
    "http://127.0.0.1:8101": "{url}",
    "--model NAME": "--model simulated-model",
    "--model tinycode": "--model simulated-model",
    "artifacts/RUN": "artifacts/one",
    "artifacts/BEFORE": "artifacts/one",
    "artifacts/AFTER": "artifacts/two",
    "BASE CANDIDATE...": "artifacts/one artifacts/two",
    "tests/aiperf/": f"{ROOT}/tests/aiperf/",
    "spec-profile ... ": "spec-profile --url {url} ",
    "acceptance_length >= 2.1": "acceptance_length >= 1.1",
}
# Started by other tests, for they serve until they are stopped, or install.
ELSEWHERE = ("spec-profile simulate", "spec-profile --install-completion", "spec-profile --config config.yaml")


def shown_commands() -> list[str]:
    """Return the lines of indented blocks that run the program, continued ones joined."""
    text = README.replace(" \\\n     ", "")
    lines = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    return [line for line in lines if line.startswith("spec-profile ") and not line.startswith(ELSEWHERE)]


def commands(group: Any) -> dict[str, Any]:
    return {"": group, **group.commands}


def test_the_two_commands_stand_there_exactly() -> None:
    assert TWO_COMMANDS in README


@pytest.mark.parametrize("text", [README, CHANGELOG], ids=["README", "CHANGELOG"])
def test_every_option_is_there(text: str) -> None:
    options = {
        (name, option)
        for name, command in commands(typer.main.get_command(app)).items()
        for parameter in command.params
        for option in [*parameter.opts, *parameter.secondary_opts]
        if option.startswith("--") and option != "--help"
    }
    assert ("demo", "--requests") in options
    missing = [pair for pair in options if not re.search(rf"{re.escape(pair[1])}(?![\w-])", text)]
    assert sorted(missing) == []


def test_every_command_is_there() -> None:
    for name in commands(typer.main.get_command(app)):
        assert f"spec-profile {name}".strip() in README


def test_every_linked_file_exists() -> None:
    links = re.findall(r"\]\((?!http|#)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_linked_section_exists() -> None:
    headings = {heading.lower().replace(" ", "-") for heading in re.findall(r"^## (.+)$", README, re.M)}
    assert set(re.findall(r"\]\(#([^)]+)\)", README)) <= headings


@pytest.fixture(scope="module")
def folder(simulate: Simulate, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with two runs, for the commands that read some."""
    folder = tmp_path_factory.mktemp("readme")
    for name in ("one", "two"):
        run(f"spec-profile --url {simulate('vllm').url} --request-count 12 --artifact-dir artifacts/{name}", folder)
    return folder


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(
        shlex.split(command), cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, f"{command}\n{ran.stdout[-1500:]}\n{ran.stderr[-1500:]}"
    assert "Traceback" not in ran.stderr
    return ran


@pytest.mark.parametrize("command", shown_commands())
def test_shown_commands_work(command: str, simulate: Simulate, folder: Path) -> None:
    if "--html" in command:
        pytest.importorskip("matplotlib")
    for shown, meant in STAND_INS.items():
        command = command.replace(shown, meant)
    run(command.format(url=simulate("vllm").url), folder)


def test_the_python_example_works(simulate: Simulate, tmp_path: Path) -> None:
    section = README[README.index("## From Python") :]
    code = "\n".join(line[4:] for line in section.splitlines() if line.startswith("    "))
    code = code.replace("http://127.0.0.1:8000", simulate("vllm").url)
    path = tmp_path / "example.py"
    path.write_text(code)
    ran = subprocess.run([SCRIPTS / "python", path], capture_output=True, text=True, timeout=60, check=True)
    assert re.match(r"35 of 35 requests: \d\.\d", ran.stdout)
