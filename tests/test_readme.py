"""What README and the pages show works as it stands there, and every option is in them and in the changelog."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import textwrap
from pathlib import Path
from typing import Any

import pytest
import typer.main

from aiperf_spec.cli.app import app
from tests.support import Simulate

ROOT = Path(__file__).parent.parent
PAGES = {
    path.relative_to(ROOT): path.read_text()
    for path in [ROOT / "README.md", *sorted((ROOT / "aiperf_spec" / "docs").glob("*.md"))]
}
README = PAGES[Path("README.md")]
ALL = "\n".join(PAGES.values())
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
    "artifacts/AGAIN": "artifacts/A1",
    "artifacts/BASE": "artifacts/one",
    **{
        f"artifacts/{name} ": "artifacts/two "  # which has the tags
        for name in ("step-1000", "step-2000", "step-3000", "fresh", "half", "trained")
    },
    "artifacts/WITHOUT": "artifacts/plain",
    "tests/aiperf/": f"{ROOT}/tests/aiperf/",
    "examples/": f"{ROOT}/examples/",
    "--benchmark-duration 10": "--benchmark-duration 1",
}
# Run by other tests: they serve until they are stopped, take their configuration from a run, or start an engine.
ELSEWHERE = (
    "spec-profile simulate",
    "spec-profile --config config.yaml",
    "spec-profile sweep --url 127.0.0.1:8000 --k",
)


def shown_commands() -> list[str]:
    """Return the lines of indented blocks that run the program, continued ones joined."""
    text = ALL.replace(" \\\n     ", "")
    lines = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    return list(
        dict.fromkeys(line for line in lines if line.startswith("spec-profile ") and not line.startswith(ELSEWHERE))
    )


IN_A_NOTEBOOK = """
import ast, asyncio
# A notebook's cell may await, and a loop runs already.
cell = compile({code!r}, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
asyncio.run(eval(cell))
"""


def python_examples() -> list[str]:
    """Return the indented blocks that import the package."""
    blocks = map(textwrap.dedent, re.findall(r"(?:^    .*\n|^\n(?=    ))+", ALL, re.M))
    return [block for block in blocks if re.search("^from aiperf_spec", block, re.M)]


def commands(group: Any) -> dict[str, Any]:
    return {"": group, **group.commands}


def test_the_two_commands_stand_there_exactly() -> None:
    assert TWO_COMMANDS in README


@pytest.mark.parametrize("text", [ALL, CHANGELOG], ids=["pages", "CHANGELOG"])
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
        assert f"spec-profile {name}".strip() in ALL, name


def test_readme_is_short_and_leads_to_every_page() -> None:
    assert len(README.splitlines()) <= 200
    assert [str(path) for path in PAGES if str(path) != "README.md" and f"({path})" not in README] == []


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_every_link_leads_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\((?!http)([^)]+)\)", PAGES[path]):
        file, _, section = link.partition("#")
        target = (ROOT / path.parent / file).resolve() if file else ROOT / path
        assert target.exists(), link
        if section:
            headings = re.findall(r"^#+ (.+)$", target.read_text(), re.M)
            assert section in [heading.lower().replace(" ", "-") for heading in headings], link


@pytest.fixture(scope="module")
def folder(simulate: Simulate, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with two runs and one without speculation, for the commands that read some."""
    folder = tmp_path_factory.mktemp("readme")
    for name, undrafted in (("one", 0.0), ("two", 0.0), ("plain", 1.0)):
        url = simulate("vllm", level="none" if undrafted else "detailed", undrafted_share=undrafted).url
        tags = "--tag step=1000 --tag trained=1" if name == "two" else ""
        given = f"--request-count 12 --temperature 0 --artifact-dir artifacts/{name} {tags}"
        run(f"spec-profile --url {url} {given}", folder)
    for name in ("A1", "A2", "A3", "B1", "B2", "B3"):
        shutil.copytree(folder / "artifacts" / ("one" if name < "B" else "two"), folder / "artifacts" / name)
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


def shown_tables() -> list[tuple[str, list[str]]]:
    """Return the header of each table of output that a page shows, and the labels of its rows."""
    tables = []
    lines = ALL.splitlines()
    for number, line in enumerate(lines):
        if re.fullmatch(r"    ─+", line):
            rows = itertools.takewhile(str.strip, lines[number + 1 :])
            labels = [match[1] for row in rows if (match := re.match(r"    (\S.*?)  +\S.*\d", row))]
            tables.append((lines[number - 1], labels))
    return tables


def test_tables_that_are_shown_are_those_that_are_printed(simulate: Simulate, folder: Path) -> None:
    commands = [
        f"spec-profile --url {simulate('vllm').url} --input-file {ROOT}/tests/aiperf/speed_bench_8.jsonl "
        "--full --request-rate 100 --draft-cost 0.1 --require 'acceptance_length >= 2.1' --require 'error_rate == 0' "
        "--require 'time_to_first_token.p99 <= 20000'",
        f"spec-profile report {ROOT}/tests/aiperf/vllm-speedbench",
        f"spec-profile report {ROOT}/tests/aiperf/vllm-speedbench --full",
        f"spec-profile report {ROOT}/tests/aiperf/vllm-speedbench --source records",
        "spec-profile compare artifacts/one artifacts/two",
        "spec-profile adapters",
    ]
    # What a simulator does not draft is in the snapshots of analyses, which tests hold too.
    texts = [run(command, folder).stdout for command in commands]
    texts += [path.read_text() for path in (ROOT / "tests" / "snapshots").glob("*.txt")]
    printed = {" ".join(line.split()) for text in texts for line in text.splitlines()}
    tables = shown_tables()
    assert len(tables) >= 10
    for header, labels in tables:
        # Only a real vLLM sends its own timing: tests/engines holds that table.
        if header.split() == ["n", "server", "here"]:
            continue
        assert " ".join(header.split()) in printed
        for label in labels:
            assert any(line.startswith(" ".join(label.split())) for line in printed), label


@pytest.mark.parametrize("code", python_examples())
def test_python_examples_work(code: str, simulate: Simulate, tmp_path: Path) -> None:
    path = tmp_path / "example.py"
    code = code.replace("http://127.0.0.1:8000", simulate("vllm").url)
    path.write_text(IN_A_NOTEBOOK.format(code=code) if "await " in code else code)
    ran = subprocess.run([SCRIPTS / "python", path], capture_output=True, text=True, timeout=60, check=True)
    shown = (
        r"35 of 35 requests: \d\.\d",
        r"(\d\.\d+ ){2}\d\.\d+$",
        "2 of 2 requests$",
        r"builtin-\d+ \d+\.\d+$",
        r"<ProfileResult .*: 35 of 35 requests succeeded; acceptance length \d\.\d\d; 95 % .* 35 prompts>$",
    )
    assert any(re.match(each, ran.stdout) for each in shown), ran.stdout


def test_the_python_examples_are_found() -> None:
    assert len(python_examples()) >= 5
