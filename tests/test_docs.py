"""`spec-profile docs`: the pages, how they are shown, and that they are in what is installed."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aiperf_spec.cli.app import app
from aiperf_spec.cli.docs import topics
from aiperf_spec.config.yaml_file import parse_config
from aiperf_spec.errors import ExitCode
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.run import ErrorKind
from tests.test_architecture import LEVELS

ROOT = Path(__file__).parent.parent
TEMPLATES = {".j2", ".css", ".mplstyle"}
PAGES = sorted((ROOT / "aiperf_spec" / "docs").glob("*.md"))
TOPICS = {
    *(
        "architecture",
        "prompts",
        "load",
        "options",
        "metrics",
        "analysis",
        "compare",
        "gates",
        "report",
        "page",
        "files",
        "export",
    ),
    *("configuration", "performance", "python", "server", "sweep"),
}


def test_every_topic_has_a_page_that_says_what_it_is_about_in_a_line() -> None:
    assert set(topics()) == TOPICS
    for name, summary in topics().items():
        assert 20 < len(summary) <= 70, name
        assert summary.endswith("."), name


def test_without_a_topic_all_are_listed() -> None:
    shown = CliRunner().invoke(app, ["docs"], env={"COLUMNS": "120"})
    assert shown.exit_code == 0
    for name, summary in topics().items():
        assert f"{name} " in shown.stdout
        assert summary in shown.stdout


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_pipe_gets_the_page_as_it_stands(path: Path) -> None:
    shown = CliRunner().invoke(app, ["docs", path.stem], env={"COLUMNS": "60"})
    assert shown.exit_code == 0
    assert shown.stdout == path.read_text()


@pytest.mark.parametrize(
    ("typed", "nearest"), [("gate", "gates"), ("prompt", "prompts"), ("xyz", ""), ("../README", ""), ("", "")]
)
def test_an_unknown_topic_is_an_error_that_names_the_nearest(typed: str, nearest: str) -> None:
    shown = CliRunner().invoke(app, ["docs", typed])
    assert shown.exit_code == 2
    assert f"there is no page about {typed!r}" in shown.stderr
    assert f"the nearest topic is {nearest}" in shown.stderr


def test_a_terminal_gets_it_formatted_and_in_a_pager(tmp_path: Path) -> None:
    path = ROOT / "aiperf_spec" / "docs" / "report.md"
    ours, theirs = pty.openpty()
    try:
        paged = tmp_path / "paged"
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "PAGER": f"cat > {paged}", "LANG": "C.UTF-8"}
        environment.pop("MANPAGER", None)
        command = [sys.executable, "-m", "aiperf_spec", "docs", path.stem]
        subprocess.run(command, env=environment, stdin=theirs, stdout=theirs, timeout=60, check=True)
    finally:
        os.close(ours)
        os.close(theirs)
    text = paged.read_text()
    assert "\x1b[" in text
    assert path.read_text().splitlines()[2].split()[0] in text
    assert "](" not in text


def test_the_map_of_rooms_is_the_one_that_imports_are_held_to() -> None:
    page = (ROOT / "aiperf_spec" / "docs" / "architecture.md").read_text()
    rows = page[page.index("| room |") : page.index("`simulator/`")].splitlines()[2:]
    shown = [set(re.findall(r"`([a-z_]+)(?:/|\.py)`", row.split(" | ")[0])) for row in rows if row]
    assert shown == [set(level) for level in LEVELS if "__init__" not in level]


def test_what_the_architecture_names_is_there() -> None:
    page = (ROOT / "aiperf_spec" / "docs" / "architecture.md").read_text()
    for path in set(re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+(?:\.py)?)?|[a-z_]+\.py)`", page)):
        folder = ROOT if path.startswith(("aiperf_spec/", "tests/", "examples/")) else ROOT / "aiperf_spec"
        assert (folder / path).exists(), path
    for name in re.findall(r"`([A-Z][A-Za-z]+[a-z])`", page):
        sources = [path.read_text() for path in (ROOT / "aiperf_spec").rglob("*.py")]
        assert any(re.search(rf"\bclass {name}\b", source) for source in sources), name


def test_every_reason_kind_and_exit_code_is_explained() -> None:
    metrics = (ROOT / "aiperf_spec" / "docs" / "metrics.md").read_text()
    first_columns = "".join(re.findall(r"^\|.*?(?= \| )", metrics, re.M))
    assert [each for each in (*DropReason, *ErrorKind) if f"`{each}`" not in first_columns] == []
    readme = (ROOT / "README.md").read_text()
    table = readme[readme.index("## Exit codes") : readme.index("## Other tools")]
    codes = [int(code) for row in re.findall(r"^\| ([\d, ]+) \|", table, re.M) for code in row.split(",")]
    assert codes == list(ExitCode)


def test_the_configuration_file_that_is_shown_is_read(tmp_path: Path) -> None:
    page = (ROOT / "aiperf_spec" / "docs" / "configuration.md").read_text()
    shown = textwrap.dedent(page[page.index("    benchmark:\n") : page.index("- Every other option")])
    values = parse_config(shown, "shown.yaml", {"SERVER": "http://host:1", "MY_KEY": "secret"}.get, tmp_path)
    assert values["url"] == "http://host:1"
    assert values["request_rate"] == 4.0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)], check=True, timeout=60)
    (built,) = folder.glob("*.whl")
    return built


def test_the_pages_and_the_templates_are_in_the_wheel(wheel: Path) -> None:
    templates = [path for path in (ROOT / "aiperf_spec" / "render" / "html").rglob("*") if path.suffix in TEMPLATES]
    assert {path.suffix for path in templates} == TEMPLATES
    with zipfile.ZipFile(wheel) as archive:
        for path in (*PAGES, *templates):
            assert archive.read(path.relative_to(ROOT).as_posix()) == path.read_bytes()
