"""The pages: what is on them, what may not be, and that they can be read by everyone."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner, Result

from aiperf_spec.analysis.comparison.compare import compare
from aiperf_spec.analysis.comparison.mismatches import Run, RunSettings
from aiperf_spec.analysis.gate_figures import Figures
from aiperf_spec.analysis.gates import evaluate, parse_gate
from aiperf_spec.analysis.report import analyse
from aiperf_spec.cli.app import app
from aiperf_spec.config.settings import ProfileConfig, ReportSettings
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.response import PromptAndAnswer
from aiperf_spec.models.run import DatasetInfo, ErrorKind, RequestRecord, RunResult, ServerTiming
from aiperf_spec.render.html import document
from aiperf_spec.render.html.comparison_page import ComparedRun, comparison_page
from aiperf_spec.render.html.rich_to_html import html, safe
from aiperf_spec.render.html.runs_page import PageRun, runs_page
from tests.records import failed, record
from tests.simulated_runs import simulated_run
from tests.support import Simulate

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>$\\frac{1}$ _日本語\x1b[31m\u202e"
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "section", "footer", "nav", "h1", "h2", "h3"),
    *("p", "a", "b", "br", "small", "span", "div", "ul", "li", "table", "caption", "thead", "tbody", "tr", "th", "td"),
    *("figure", "figcaption", "details", "summary", "pre"),
    *("svg", "desc", "defs", "g", "path", "use", "rect", "clippath", "text"),
}


class Reader(HTMLParser):
    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.ids: list[str] = []
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.append((tag, name, value or ""))
            if name == "id":
                self.ids.append(value or "")


def page_run(records: list[RequestRecord], name: str = "run", **options: float) -> PageRun:
    result = RunResult(
        config=ProfileConfig(url="http://h:1", concurrency=4),
        url="http://h:1/v1",
        model=HOSTILE,
        owned_by=None,
        dataset=DatasetInfo(HOSTILE, None, 8, has_categories=True),
        wall_offset_ns=0,
        records=records,
    )
    analysis = analyse(records, ReportSettings(draft_cost=0.1))
    texts = {outlier.index: PromptAndAnswer(HOSTILE, HOSTILE) for outlier in analysis.outliers.requests}
    return PageRun(name, result, summarise(records), analysis, f"models: {HOSTILE}", texts)


def hostile_run(requests: int = 40, seed: int = 1) -> list[RequestRecord]:
    records = simulated_run(seed, requests)
    for each in records:
        each.category = (HOSTILE, "_coding", "$x$")[each.index % 3]
        each.prompt_id = f"{HOSTILE} {each.index}"
        each.start_ns += each.index * 50_000_000
        each.first_content_ns = each.start_ns + 10_000_000
        each.last_content_ns = each.start_ns + 90_000_000
    records.append(failed(requests, ErrorKind.SERVER_ERROR, message=HOSTILE))
    records.append(record(requests + 1, start=0, contents=(5, 9), tokens=4, reason=DropReason.ABSENT, category=HOSTILE))
    return records


def check(page: bytes) -> Reader:
    """Hold a page against what holds for all of them."""
    reader = Reader(page)
    assert reader.tags <= TAGS
    assert len(page) < 2_000_000
    assert len(reader.ids) == len(set(reader.ids))
    for tag, name, value in reader.attributes:
        assert not name.startswith("on")
        assert name != "src"
        if name in ("href", "xlink:href"):
            assert value.startswith("#")
            assert value[1:] in reader.ids
        if name == "aria-labelledby":
            assert all(each in reader.ids for each in value.split())
        assert "url(" not in value or value.startswith("url(#") or tag == "meta"
    text = page.decode()
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert text.count("<svg") == text.count("<desc id=") == text.count('role="img"')
    assert re.findall(r"https?://(?!h:1|www\.w3\.org/1999/xlink)[^ <\"]*", text) == []
    # Every colour of a drawing is the page's, so that it follows light and dark.
    drawings = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    assert re.findall(r"#[0-9a-f]{6}\b", drawings) == []
    return reader


def test_the_page_of_a_run_shows_everything_and_runs_nothing() -> None:
    page = runs_page([page_run(hostile_run())])
    check(page)
    text = page.decode()
    for heading in (
        *("Acceptance length, pooled", "Accepted drafts per verify step", "Acceptance by position in the draft"),
        *("Acceptance length within responses", "What a shorter draft would have given (estimate)"),
        *("Latency distributions", "TTFT and ITL over time", "Acceptance against step time", "Worst requests"),
        *("Requests without an acceptance record", "Failed requests", "Configuration", "speed-up"),
    ):
        assert heading in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert page == runs_page([page_run(hostile_run())])


def test_what_the_engine_measured_stands_beside_what_was_measured_here() -> None:
    records = hostile_run()
    assert "Server-side timing" not in runs_page([page_run(records)]).decode()
    for each in records[:7]:
        each.server_timing = ServerTiming(time_to_first_token_ms=7.5)
    page = runs_page([page_run(records)])
    check(page)
    table = page.decode().partition("Server-side timing, medians")[2].partition("</table>")[0]
    assert re.findall(r">([^<>]+)</td>", table) == ["7", "7.50", "10.00"]
    assert "TTFT (ms)" in table


def test_a_page_of_many_runs_stays_small() -> None:
    runs = [page_run(hostile_run(300, seed), f"run-{seed}") for seed in range(6)]
    page = runs_page([*runs, runs[0]])
    check(page)
    assert "The first 6 have tables and charts of their own" in page.decode()


def test_a_run_without_acceptance_has_a_page_too() -> None:
    page = runs_page([page_run([record(0, start=0, contents=(5, 9), tokens=4, reason=DropReason.ABSENT)])])
    check(page)
    assert "0 of 1 successful request reported acceptance" in page.decode()
    check(runs_page([page_run([failed(0, ErrorKind.CONNECT_ERROR, message="no")])]))


def test_the_page_of_a_comparison() -> None:
    before, after = hostile_run(seed=1), hostile_run(seed=2)
    runs = [Run(name, records, RunSettings(model=HOSTILE)) for name, records in ((HOSTILE, before), ("b", after))]
    compared = [ComparedRun(run, summarise(run.records), analyse(run.records)) for run in runs]
    gates = evaluate([parse_gate("acceptance_length >= 99")], Figures(after), Figures(before))
    page = comparison_page(compare(runs[0], runs[1:]), compared, gates=[gates])
    check(page)
    for text in ("Difference, candidate less base", "not met", "Acceptance by position", "Holm"):
        assert text in page.decode()


def luminance(colour: str) -> float:
    full = colour.lstrip("#")
    full = "".join(c * 2 for c in full) if len(full) == 3 else full
    parts = [int(full[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


LIGHT, DARK = re.findall(r":root{[^}]*--bg:[^}]*}", document._style())


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_colours_can_be_told_from_what_is_behind_them(theme: str) -> None:
    colours = dict(re.findall(r"--(\w+):(#\w+)", theme))
    for name in ("ink", "muted", "good", "bad", "warn", "c1"):
        assert contrast(colours[name], colours["bg"]) >= 4.5
        assert contrast(colours[name], colours["card"]) >= 4.5
    for i in range(1, 9):
        assert contrast(colours[f"c{i}"], colours["bg"]) >= 3
    mixed = [(int(colours["heat"][i : i + 2], 16), full(colours["bg"])[(i - 1) // 2]) for i in (1, 3, 5)]
    under = "#" + "".join(f"{(a + b) // 2:02x}" for a, b in mixed)
    assert contrast(colours["ink"], under) >= 4.5


def full(colour: str) -> list[int]:
    text = colour.lstrip("#")
    text = "".join(c * 2 for c in text) if len(text) == 3 else text
    return [int(text[i : i + 2], 16) for i in (0, 2, 4)]


def test_tables_become_tables() -> None:
    table = Table(title="T")
    table.add_column("Name\nof it")
    table.add_column("n", justify="right")
    table.add_row(Text("<b>"), "1", style="dim")
    table.add_section()
    table.add_row(Text.assemble(("bad ", "red"), "x"), "2")
    text = html(table)
    assert "<caption>T</caption>" in text
    assert "<th scope='col'>Name of it</th>" in text
    assert "<th scope='row'>&lt;b&gt;</th>" in text
    assert '<td class="num">1</td>' in text
    assert '<span class="bad">bad </span>x' in text
    assert safe("a\nb\x07") == "a<br>b\\x07"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "120"})


@pytest.fixture
def run_folder(simulate: Simulate, tmp_path: Path) -> str:
    out = str(tmp_path / "run")
    done = invoke("--url", simulate("vllm").url, "--request-count", "12", "--max-tokens", "30", "--artifact-dir", out)
    assert done.exit_code == 0
    return out


def test_the_commands_write_pages_beside_what_they_print(run_folder: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    result = invoke("report", run_folder, "--html", str(file), "--require", "acceptance_length >= 99")
    assert result.exit_code == 3
    assert "written:" in result.stderr
    assert "Pooled" in result.stdout
    check(file.read_bytes().replace(b"http://127.0.0.1", b"").replace(b"https://", b""))
    text = file.read_text()
    assert "sampling is not pinned" in text
    assert "What the server counted" in text
    assert "Acceptance by category" in text
    file.unlink()
    result = invoke("compare", run_folder, run_folder, "--html", str(file))
    assert result.exit_code == 0
    assert b"Difference, candidate less base" in file.read_bytes()
    assert invoke("report", run_folder, "--html", str(tmp_path)).exit_code == 2
    assert invoke("report", run_folder, "--html", str(tmp_path / "no" / "p.html")).exit_code == 2


@pytest.mark.parametrize("command", ["report", "compare"])
def test_a_missing_extra_is_named(
    command: str, run_folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    folders = [run_folder] * (1 if command == "report" else 2)
    result = invoke(command, *folders, "--html", str(tmp_path / "page.html"))
    assert result.exit_code == 2
    assert "aiperf-spec[plots]" in result.stderr
    assert result.stdout == ""
