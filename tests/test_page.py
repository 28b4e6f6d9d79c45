"""The pages: what is on them, what may not be, and that they can be read by everyone."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner, Result

from aiperf_spec.analysis.category_totals import CategoryTotals
from aiperf_spec.analysis.clusters import grouped, measured
from aiperf_spec.analysis.comparison.compare import POOLED_LENGTH, compare
from aiperf_spec.analysis.comparison.course import Candidate, course
from aiperf_spec.analysis.comparison.mismatches import Run, RunSettings
from aiperf_spec.analysis.gate_figures import Figures
from aiperf_spec.analysis.gates import evaluate, parse_gate
from aiperf_spec.analysis.matrix import Matrix, RunFigures, build_matrix
from aiperf_spec.analysis.report import analyse
from aiperf_spec.cli.app import app
from aiperf_spec.config.choices import ReportMetric, ReportSource
from aiperf_spec.config.settings import ProfileConfig, ReportSettings
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.response import PromptAndAnswer
from aiperf_spec.models.run import DatasetInfo, ErrorKind, Notice, NoticeKind, RequestRecord, RunResult, ServerTiming
from aiperf_spec.models.server_metrics import Agreement, CountName, ReconciledCount, Reconciliation
from aiperf_spec.render.html.comparison_page import ComparedRun, comparison_page
from aiperf_spec.render.html.course_page import course_page
from aiperf_spec.render.html.rich_to_html import blocks
from aiperf_spec.render.html.runs_page import PageRun, runs_page
from aiperf_spec.render.html.svg_plots import Tips, draw
from aiperf_spec.render.html.template import shown, style
from aiperf_spec.render.missing import signed
from aiperf_spec.render.notices import notice_text
from aiperf_spec.render.text import middle, number, plural
from tests.records import failed, record
from tests.simulated_runs import request, simulated_run
from tests.support import Simulate

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>$\\frac{1}$ _日本語\x1b[31m\u202e"
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "section", "footer", "nav", "h1", "h2", "h3"),
    *("p", "a", "b", "i", "br", "small", "span", "div", "ul", "li", "dl", "dt", "dd", "code", "aside"),
    *(
        "table",
        "caption",
        "thead",
        "tbody",
        "tfoot",
        "tr",
        "th",
        "td",
        "figure",
        "figcaption",
        "details",
        "summary",
        "pre",
    ),
    *("svg", "desc", "defs", "g", "path", "use", "rect", "clippath", "text", "line", "circle"),
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
    # A chart says what it shows; a forest plot's strips need not, for their rows are a table.
    assert len(re.findall(r"<svg viewBox", text)) == text.count("<desc id=") == text.count('role="img"')
    assert len(re.findall(r'<(?:svg|tfoot) aria-hidden="true">', text)) == text.count('<td class="strip">')
    assert re.findall(r"https?://(?!h:1|www\.w3\.org/1999/xlink)[^ <\"]*", text) == []
    # Every colour of a drawing is the page's, so that it follows light and dark.
    drawings = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    assert re.findall(r"#[0-9a-f]{6}\b", drawings) == []
    return reader


class Outline(HTMLParser):
    """The places of a page's tables, and whether each is folded."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.folds = 0
        self.folded: dict[str, bool] = {}
        self.caption: str | None = None
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.folds += tag == "details"
        self.caption = "" if tag == "caption" else self.caption

    def handle_data(self, data: str) -> None:
        if self.caption is not None:
            self.caption += data

    def handle_endtag(self, tag: str) -> None:
        self.folds -= tag == "details"
        if tag == "caption" and self.caption is not None:
            self.folded[self.caption], self.caption = bool(self.folds), None


def titles(page: bytes) -> list[str]:
    """Return what the marks of all charts say when they are pointed at."""
    return [unescape(text) for text in re.findall(r"<title>(.*?)</title>", page.decode())]


def headings(page: bytes) -> list[str]:
    return [unescape(text) for text in re.findall(r"<h2[^>]*>(.*?)</h2>", page.decode())]


def matrix_of(records: list[RequestRecord], *more: list[RequestRecord]) -> Matrix:
    figures = []
    for i, each in enumerate((records, *more)):
        run = RunFigures("m", [f"run-{i}"], ReportSource.RECORDS)
        for name, members in grouped(measured(each), lambda record: record.category).items():
            run.pools[name] = CategoryTotals()
            for member in members:
                if (report := member.acceptance) is not None:
                    sums = (report.num_accepted_draft_tokens, report.num_spec_steps, report.num_draft_tokens)
                    run.pools[name].add(member.prompt_id, 1, *sums)
        figures.append(run)
    return build_matrix(ReportMetric.ACCEPT_LENGTH, figures)


@pytest.fixture(scope="module")
def page_of_a_run() -> bytes:
    records = hostile_run()
    return runs_page([page_run(records)], matrix_of(records))


def test_the_page_of_a_run_shows_everything_and_runs_nothing(page_of_a_run: bytes) -> None:
    page = page_of_a_run
    check(page)
    text = page.decode()
    assert headings(page) == [
        *("Failed requests", "Acceptance by category", "Position acceptance", "Draft length"),
        *("Acceptance within responses and by ITL", "Latency", "Over time", "Records and the server's counters"),
        *("Worst requests", "The run"),
    ]
    assert re.findall(r"<figcaption>(.*?)</figcaption>", text)[1:4] == [
        *("Accepted drafts per verify step", "Position acceptance, unconditional", "Position acceptance, conditional"),
    ]
    for chart in (
        *("Acceptance length by draft length (estimate)", "Speed-up at a draft cost of 0.1 (estimate)"),
        *("Acceptance length within responses", "Acceptance length by ITL", "TTFT", "ITL", "Request latency"),
        *("TTFT over time", "ITL over time", "Output tokens per second over time"),
    ):
        assert f"<figcaption>{chart}</figcaption>" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    records = hostile_run()
    assert page == runs_page([page_run(records)], matrix_of(records))


def test_warnings_and_the_answer_come_first() -> None:
    records = hostile_run()
    run = page_run(records)
    notice = Notice(NoticeKind.UNPINNED_SAMPLING, {})
    told = replace(run, result=replace(run.result, notices=[notice]), started=datetime(2026, 12, 1, 5, 44, tzinfo=UTC))
    page = runs_page([replace(told, command=("spec-profile", "--url 'http://h:1/<b>'"))], matrix_of(records))
    check(page)
    text = page.decode()
    assert run.analysis is not None
    length = run.analysis.run.length.value
    order = ["1 December 2026, 05:44 UTC", "vLLM, k 4", notice_text(notice)[:30], f"<b>{length:.2f}</b>", "TTFT, p50"]
    order += ["--url &#x27;http://h:1/&lt;b&gt;&#x27;</span>", "<nav", "<h2"]
    places = [text.index(each) for each in order]
    assert places == sorted(places)


def test_a_speed_up_over_a_baseline_has_a_card() -> None:
    records = hostile_run()
    run, analysis = page_run(records), analyse(records, ReportSettings(baseline_itl=40.0))
    assert "Speed-up over the baseline" not in runs_page([run]).decode()
    page = runs_page([replace(run, analysis=analysis)])
    check(page)
    found = analysis.speed_up.measured.value
    assert f"<span>Speed-up over the baseline</span><b>{number(found)}</b>" in page.decode()


def test_tables_fold_under_their_charts(page_of_a_run: bytes) -> None:
    folded = Outline(page_of_a_run).folded
    assert {name for name in folded if not folded[name]} == {
        *("Failed requests", "Requests without an acceptance record", "Worst requests by acceptance length"),
    }
    latency = page_of_a_run.partition(b"<details><summary>Table: latency</summary>")[2].partition(b"</details>")[0]
    assert b"<table>" in latency
    assert b"TTFT (ms)" in latency


def test_marks_say_what_they_stand_for(page_of_a_run: bytes) -> None:
    run, said = page_run(hostile_run()), titles(page_of_a_run)
    for tag, label in (("time_to_first_token", "ms"), ("inter_token_latency", "ms")):
        stats = run.summary.record_stats[tag]
        for q in (50, 90, 99):
            assert f"p{q}: {number(stats.percentiles[q])} {label}" in said
    histogram = run.summary.acceptance.histogram
    steps = plural(histogram[4], "step")
    assert f"all requests, 4 accepted: {100 * histogram[4] / sum(histogram.values()):.1f} % ({steps})" in said
    assert sum(text.startswith("request 7: ITL, ms") for text in said) == 1


def test_a_drawing_is_shortened_and_its_text_is_not() -> None:
    def paint(axes: Axes, tips: Tips) -> None:
        (drawn,) = axes.plot([1.23456, 2.34567], [2.1251, 2.1249], marker="o")
        tips.add(drawn, ["first: 2.1251", "<second>"])
        axes.set_yticks([2.125], ["2.125"])

    drawing = draw("x", "T", "D 1.23456", paint).drawing
    assert ">2.125</text>" in drawing
    assert '<desc id="x-d">D 1.23456</desc>' in drawing
    assert re.findall(r"<use [^>]*><title>(.*?)</title></use>", drawing) == ["first: 2.1251", "&lt;second&gt;"]
    assert re.findall(r"<[^>]*\d\.\d{3}[^>]*>", drawing) == []
    assert "<!--" not in drawing


def categories_of(number_of: int) -> list[RequestRecord]:
    """Return 8 requests of each category, which accept the more the greater its number."""
    return [
        request(8 * c + i, tuple((s + i) % (c % 4 + 2) for s in range(12)) + (4,) * c, category=f"category-{c:02d}")
        for c in range(number_of)
        for i in range(8)
    ]


@pytest.mark.parametrize(("number_of", "drawn"), [(3, 3), (12, 12), (20, 12)])
def test_worst_and_best_category_are_always_drawn(number_of: int, drawn: int) -> None:
    run = page_run(categories_of(number_of))
    assert run.analysis is not None
    groups = run.analysis.categories
    ranked = sorted(groups, key=lambda name: groups[name].length.value or 0)
    page = runs_page([run], matrix_of(list(run.result.records)))
    captions = re.findall(r"<figcaption>(category-.*?)</figcaption>", page.decode())
    assert len(captions) == drawn
    assert captions[0] == f"{ranked[0]} (worst)"
    assert captions[-1] == f"{ranked[-1]} (best)"
    assert ("8 between them are in the table alone" in page.decode()) == (drawn < number_of)


def test_what_a_shorter_draft_never_proposes_is_not_drawn_as_zero() -> None:
    short = [request(i, (0, 1, 2, 0, 2, 1) * 3, k=3) for i in range(8)]
    long = [request(i, (0, 1, 4, 0, 2, 3) * 3, k=5) for i in range(8)]
    page = runs_page([page_run(short, "short"), page_run(long, "long")])
    check(page)
    said = titles(page)
    for run, k in (("short", 3), ("long", 5)):
        bars = [text for text in said if text.startswith(f"{run}, ") and "accepted" in text]
        assert [text.split()[1] for text in bars] == [str(i) for i in range(k + 1)]
        assert bars[k].startswith(f"{run}, {k} accepted: 0.0 %")  # proposed, and never accepted
        positions = {text.split()[2] for text in said if text.startswith(f"{run}, position")}
        assert positions == {f"{i}:" for i in range(1, k + 1)}
    # A variable draft that never got to its bound.
    varied = [request(i, (0, 1, 2, 0), drafted=(2, 2, 3, 1), k=5) for i in range(8)]
    said = titles(runs_page([page_run(varied)]))
    assert max(text for text in said if text.startswith("all requests, position")).startswith(
        "all requests, position 3"
    )
    assert not any("4 accepted" in text for text in said)


def test_runs_stand_side_by_side() -> None:
    one, other = hostile_run(seed=1), hostile_run(seed=2)
    page = runs_page([page_run(one, "one"), page_run(other, HOSTILE)], matrix_of(one, other))
    check(page)
    assert headings(page) == [
        *("Runs side by side", "Acceptance by category", "Position acceptance", "Latency", "Each run"),
    ]
    said = titles(page)
    assert sum(text.startswith("one: ") and "tokens/s, acceptance length" in text for text in said) == 1
    assert sum(text.startswith("run-1, _coding: ") for text in said) == 1
    # Each run's own charts open on a click.
    assert page.decode().count('<details class="run">') == 2


def test_many_requests_are_summed_up() -> None:
    records = hostile_run(2000)
    page = runs_page([page_run(records)], matrix_of(records))
    check(page)
    text = page.decode()
    assert "2,001 requests in 40 parts: the line is the median, the band p10 to p90, the dashes p99." in text
    assert not any(said.startswith("request ") for said in titles(page))
    assert len(page) < 500_000


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
    page = runs_page([*runs, replace(runs[0], name="run-6")])
    check(page)
    assert "The first 6 have charts. The tables have all." in page.decode()


def test_a_run_without_acceptance_has_a_page_too() -> None:
    page = runs_page([page_run([record(0, start=0, contents=(5, 9), tokens=4, reason=DropReason.ABSENT)])])
    check(page)
    assert "0 reported acceptance" in page.decode()
    check(runs_page([page_run([failed(0, ErrorKind.CONNECT_ERROR, message="no")])]))


def test_a_page_has_the_servers_counters_where_no_request_reported() -> None:
    run = page_run([record(0, start=0, contents=(5, 9), tokens=4, reason=DropReason.ABSENT)])
    names = (CountName.VERIFY_STEPS, CountName.PROPOSED, CountName.ACCEPTED, CountName.at_position(1))
    counts = tuple(
        ReconciledCount(name, "counter", 0, server)
        for name, server in zip((*names, CountName.at_position(2)), (100, 200, 90, 60, 30), strict=True)
    )
    found = Reconciliation(Agreement.SERVER_MORE, 0, {}, None, settled=True, counts=counts)
    page = runs_page([replace(run, result=replace(run.result, reconciliation=found))])
    check(page)
    assert "<b>1.90</b><span>by the server&#x27;s counters, all traffic</span>" in page.decode()
    assert [text for text in titles(page) if text.startswith("all traffic")] == [
        *("all traffic, position 1: 60.0 %", "all traffic, position 2: 30.0 %"),
    ]


def test_the_page_of_a_comparison() -> None:
    before, after = hostile_run(seed=1), hostile_run(seed=2)
    runs = [Run(name, records, RunSettings(model=HOSTILE)) for name, records in ((HOSTILE, before), ("b", after))]
    compared = [ComparedRun(run, summarise(run.records), analyse(run.records)) for run in runs]
    gates = evaluate([parse_gate("acceptance_length >= 99")], Figures(after), Figures(before))
    page = comparison_page(compare(runs[0], runs[1:]), compared, gates=[gates])
    check(page)
    for text in ("Acceptance length shows no", "candidate less base", "not met", "Position acceptance", "Holm"):
        assert text in page.decode()
    assert Outline(page).folded.keys() == {"Runs side by side"}
    (found_out,) = compare(runs[0], runs[1:]).comparisons
    lengths = next(row for row in found_out.rows if row.tag == POOLED_LENGTH)
    found, relative = lengths.difference, lengths.relative
    assert relative is not None
    said = f"{lengths.label}: {number(found.base)} to {number(found.candidate)}, {signed(100 * relative, 1)} % ("
    assert sum(text.startswith(said) for text in titles(page)) == 1


@pytest.mark.parametrize("places", [("1000", "2000", "1500"), (HOSTILE, "$x$", "v1")])
def test_the_page_of_a_course(places: tuple[str, ...]) -> None:
    settings = RunSettings(model=HOSTILE, prompts=HOSTILE)
    runs = [Run(f"{HOSTILE} {i}", hostile_run(seed=1), settings) for i in range(4)]
    better = runs[3]
    for each, shifted in zip(better.records, simulated_run(1, 40, shift=0.1), strict=False):
        each.acceptance = shifted.acceptance
    candidates = [Candidate(run, place) for run, place in zip((*runs[1:3], better), places, strict=True)]
    silent = Candidate(Run(HOSTILE, [], settings), "0")
    found = course(runs[0], [*candidates, silent], "größe" if HOSTILE in places else "step")
    gates = {better.name: evaluate([parse_gate("acceptance_length >= 99")], Figures(better.records))}
    page = course_page(found, gates, strict=False)
    check(page)
    text = page.decode()
    for part in ("is the best", "Table: course", "Difference from the best", "not met", "reported acceptance", "Holm"):
        assert part in text
    assert found.best is not None
    best = found.checkpoints[found.best]
    assert (best.name, len(found.left_out)) == (better.name, 1)
    said = f"{middle(places[2], 30)}: {number(best.length.value)} ("
    assert any(said in each and "the best" in each for each in titles(page))


def luminance(colour: str) -> float:
    full = colour.lstrip("#")
    full = "".join(c * 2 for c in full) if len(full) == 3 else full
    parts = [int(full[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


LIGHT, DARK = re.findall(r":root{[^}]*--bg:[^}]*}", style())


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_colours_can_be_told_from_what_is_behind_them(theme: str) -> None:
    colours = dict(re.findall(r"--(\w+):(#\w+)", theme))
    for name in ("ink", "muted", "good", "bad", "warn", "c1"):
        assert contrast(colours[name], colours["bg"]) >= 4.5
        assert contrast(colours[name], colours["card"]) >= 4.5
    for i in range(1, 9):
        assert contrast(colours[f"c{i}"], colours["bg"]) >= 3
    assert contrast(colours["ink"], colours["notice"]) >= 4.5


def test_tables_become_tables() -> None:
    table = Table(title="T")
    table.add_column("Name\nof it")
    table.add_column("n", justify="right")
    table.add_row(Text("<b>"), "1", style="dim")
    table.add_section()
    table.add_row(Text.assemble(("bad ", "red"), "x"), "2")
    (block,) = blocks(table)
    assert [span.text for span in block.spans] == ["T"]
    assert [(cell.spans[0].text, cell.is_figure) for cell in block.head] == [("Name of it", False), ("n", True)]
    dim, last = block.rows
    assert (dim.classes, last.classes) == ("dim", "section")
    assert [cell.spans[0].text for cell in dim.cells] == ["<b>", "1"]
    assert [(span.text, span.classes) for span in last.cells[0].spans] == [("bad ", "bad"), ("x", "")]


def test_every_text_is_shown_as_it_is() -> None:
    assert shown("<b>\n&\x07") == "&lt;b&gt;<br>&amp;\\x07"
    assert shown(None) == ""
    assert shown(shown("<")) == "&lt;"


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
    assert "Acceptance length" in result.stdout
    check(file.read_bytes().replace(b"http://127.0.0.1", b"").replace(b"https://", b""))
    text = file.read_text()
    assert "sampling temperature is the server" in text
    assert "What the server counted" in text
    assert "Acceptance by category" in text
    assert "--request-count 12</span>" in text
    assert re.search(r'<p class="kicker">\d+ [A-Z][a-z]+ 20\d\d, \d\d:\d\d UTC · run</p>', text)
    file.unlink()
    result = invoke("compare", run_folder, run_folder, "--html", str(file))
    assert result.exit_code == 0
    assert b"Difference, candidate less base" in file.read_bytes()
    assert invoke("report", run_folder, "--html", str(tmp_path)).exit_code == 2
    assert invoke("report", run_folder, "--html", str(tmp_path / "no" / "p.html")).exit_code == 2


@pytest.mark.parametrize("library", ["matplotlib", "jinja2"])
@pytest.mark.parametrize("command", ["report", "compare"])
def test_a_missing_extra_is_named(
    command: str, library: str, run_folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    folders = [run_folder] * (1 if command == "report" else 2)
    result = invoke(command, *folders, "--html", str(tmp_path / "page.html"))
    assert result.exit_code == 2
    assert f"--html needs {library}, which is not installed" in result.stderr
    assert "pip install -e '.[plots]'" in result.stderr
    assert result.stdout == ""
