"""What a run prints, at two widths."""

from __future__ import annotations

import io
import os
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType
from rich.text import Text

from aiperf_spec.analysis.answer import Setup
from aiperf_spec.analysis.comparison.compare import compare as compare_runs
from aiperf_spec.analysis.comparison.course import Candidate, LeftOut, Obstacle, course
from aiperf_spec.analysis.comparison.mismatches import MismatchKind, Run
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.report import analyse
from aiperf_spec.config.settings import ProfileConfig, ReportSettings
from aiperf_spec.metrics.summary import Summary, summarise
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.run import DatasetInfo, ErrorKind, Notice, NoticeKind, RequestRecord, RunResult
from aiperf_spec.render.analysis import analysis_report
from aiperf_spec.render.comparison_tables import compare_report
from aiperf_spec.render.course import course_report
from aiperf_spec.render.histogram import folded, sparkline
from aiperf_spec.render.notices import notice_text
from aiperf_spec.render.run_report import run_report
from aiperf_spec.render.side_by_side import RunRow, runs_table
from aiperf_spec.render.text import middle, narrow, number, printable
from aiperf_spec.render.words import WORDS
from tests.records import failed, record
from tests.simulated_runs import simulated_run

SNAPSHOTS = Path(__file__).parent / "snapshots"


def shown(renderable: object, width: int) -> str:
    buffer = io.StringIO()
    console = Console(file=buffer, width=width, color_system=None, force_terminal=False, legacy_windows=False)
    console.print(renderable)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def compare(name: str, text: str) -> None:
    """Hold text against its snapshot; UPDATE_SNAPSHOTS=1 writes it instead, to be looked at with git diff."""
    if os.environ.get("UPDATE_SNAPSHOTS"):
        (SNAPSHOTS / name).write_text(text)
    assert text == (SNAPSHOTS / name).read_text()


def report(result: RunResult, summary: Summary, *, rows: int, full: bool = True) -> RenderableType:
    """Return what a run prints, with its analysis."""
    return run_report(result, summary, analyse(result.records), settings=ReportSettings(rows=rows, full=full))


def a_run(records: list[RequestRecord], **settings: object) -> RunResult:
    return RunResult(
        config=ProfileConfig(url="http://127.0.0.1:8000", concurrency=4, **settings),  # type: ignore[arg-type]
        url="http://127.0.0.1:8000/v1",
        model="meta-llama/Llama-3.1-8B-Instruct",
        owned_by="vllm",
        dataset=DatasetInfo("prompts.jsonl", "prompts.jsonl", 8, has_categories=True),
        wall_offset_ns=0,
        records=records,
        artifact_dir=Path("artifacts/run"),
    )


def mixed() -> list[RequestRecord]:
    return [
        record(0, start=0, contents=(80, 150, 9300), tokens=1500, histogram={0: 400, 3: 100, 5: 9}, category="coding"),
        record(1, start=40, contents=(90, 99), tokens=96, histogram={0: 2, 9: 1, 12: 4}, proposed=100, category="math"),
        record(2, start=5, contents=(7, 8), tokens=None, reason=DropReason.ABSENT, category="summarization"),
        record(3, start=5, contents=(7, 8), tokens=4, reason=DropReason.MULTI_SEQUENCE),
        failed(4, ErrorKind.HTTP_STATUS, status=503, message="[bold]overloaded[/bold] \x1b[31mretry later"),
        failed(5, ErrorKind.READ_ERROR, message="the server closed the connection"),
    ]


@pytest.mark.parametrize("width", [80, 140])
def test_the_report_of_a_mixed_run(width: int) -> None:
    result = a_run(mixed(), warmup_request_count=2)
    text = shown(report(result, summarise(result.records), rows=20), width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text.replace("sum…tion", "")
    compare(f"mixed-{width}.txt", text)


def test_a_run_without_success_has_no_figures() -> None:
    result = a_run([failed(0, ErrorKind.CONNECT_ERROR, message="no connection")])
    text = shown(report(result, summarise(result.records), rows=20), 80)
    assert "0 of 1 succeeded, 1 failed" in text
    assert "no connection" in text
    assert "Latency" not in text
    assert "0.00" not in text


def test_rows_limit_the_last_table() -> None:
    records = [record(i, start=0, contents=(5, 6), tokens=2, histogram={1: 1}) for i in range(30)]
    result = a_run(records)
    text = shown(report(result, summarise(records), rows=20), 100)
    assert "20 of 30 shown (--rows); all are in artifacts/run/profile_export.jsonl" in text
    assert "shown (--rows)" not in shown(report(result, summarise(records), rows=0), 100)
    level = a_run(records, export_level="summary")
    assert "--export-level records" in shown(report(level, summarise(records), rows=20), 100)


def test_histograms_fold_from_eight_on() -> None:
    assert folded({0: 3, 2: 1, 8: 5, 11: 7}) == [
        *(("0", 3), ("1", 0), ("2", 1)),
        *((str(bucket), 0) for bucket in range(3, 8)),
        (">=8", 12),
    ]
    assert folded({7: 1})[-1] == ("7", 1)
    assert sparkline({0: 10, 2: 1}) == "█·▂"
    assert sparkline({}) == ""


@pytest.mark.parametrize("width", [80, 140])
def test_a_course(width: int) -> None:
    shifts = {"0": 0.0, "0.5": 0.05, "1": 0.15}
    runs = [
        Candidate(Run(f"artifacts/trained-{part}", simulated_run(1, 24, shift=shift)), part)
        for part, shift in shifts.items()
    ]
    gone = LeftOut("artifacts/gone", Obstacle.UNREADABLE, {"message": "[red]no run[/red]\x1b"})
    found = course(Run("artifacts/BASE", simulated_run(1, 24)), runs, "trained", [gone])
    compare(f"course-{width}.txt", shown(course_report(found), width))


def test_runs_side_by_side_fit() -> None:
    setup = Setup(("vllm",), "0.32.0", "ngram", (3, 5))
    runs = [RunRow(f"a-very-long-name-of-an-engine-{i}", setup, summarise(mixed())) for i in range(3)]
    text = shown(runs_table(runs), 80)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert text.count("2/4") == 3


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("[red]x[/red]", "[red]x[/red]"),
        ("a\x1b[31mb\x07", "a\\x1b[31mb\\x07"),
        ("right\u202eleft", "right\\u202eleft"),
        ("line\u2028break\nagain", "line break again"),
        ("\U000e0041tag", "\\U000e0041tag"),
        ("\ud800", "\\ud800"),
    ],
)
def test_text_of_others_is_spelled_out(text: str, safe: str) -> None:
    assert printable(text) == safe
    line = shown(Text(printable(text)), 80).removesuffix("\n")
    assert line == safe
    assert line.isprintable()


def test_long_text_is_cut() -> None:
    assert len(printable("x" * 10_000_000)) == 200
    assert middle("meta-llama/Llama-3.1-8B-Instruct", 13) == "meta-l…struct"
    assert middle("short", 13) == "short"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0.00"),
        (1.005, "1.00"),
        (99.99, "99.99"),
        (99.996, "100.0"),
        (999.96, "1,000"),
        (12345.6, "12,346"),
    ],
)
def test_numbers_keep_columns_narrow(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("owner", "said", "unsaid"),
    [
        ("vllm", "--per-request-spec-decode-metrics", "SGLang"),
        ("sglang", "return_spec_tokens_details:true", "vLLM"),
        ("tensorrt_llm", "per_request_spec_decode_stats: true", "vLLM"),
        (None, "--per-request-spec-decode-metrics", "no such text"),
        ("acme", "return_spec_tokens_details:true", "no such text"),
    ],
)
def test_missing_acceptance_is_explained_for_the_engine(owner: str | None, said: str, unsaid: str) -> None:
    values = {"owned_by": owner, "usage_off": False, "asked_sglang": False}
    text = notice_text(Notice(NoticeKind.NO_ACCEPTANCE, values))
    assert said in text
    assert unsaid not in text
    assert "proxy" in text
    assert "include_usage" not in text
    assert "include_usage is off" in notice_text(Notice(NoticeKind.NO_ACCEPTANCE, {**values, "usage_off": True}))


def test_every_notice_has_words() -> None:
    values: dict[str, Any] = {
        "owned_by": None,
        "usage_off": False,
        "asked_sglang": True,
        "count": 1,
        "of": 2,
        "text": "t",
        "sent": "max_tokens",
        "proxy": "http://p",
        "url": "http://u",
        "reason": "r",
        "failed": 1,
        "turns": 2,
        "conversations": 1,
        "name": "p.jsonl",
        "side": "output",
        "counted": 1,
        "usage": 2,
        "requests": 3,
        "workers": 2,
        "p50": 1.0,
        "p99": 2.0,
        "max": 3.0,
        "moved": {"p99": (30.0, 20.0)},
        "adaptive": False,
        "by_usage": True,
        "mismatch": "model",
        "base": "a",
        "figure": "TTFT",
        "candidate": "b",
        "names": "a, b",
        "prompt": "q1",
        "share": 0.3,
        "correlation": 0.7,
        "tokens": 4,
        "happened": "accepted",
        "fields": "delay",
        "engine": "llama_cpp",
        "asked": False,
        "shares": "2/4",
        "streaming": True,
    }
    for kind in NoticeKind:
        own = {"sent": 2.0, "counted": 2.5} if kind is NoticeKind.OTHER_LENGTH else {}
        assert notice_text(Notice(kind, {**values, **own}))


def test_every_reason_has_words_and_no_word_is_for_nothing() -> None:
    kinds: tuple[tuple[str, type[StrEnum]], ...] = (
        ("notice", NoticeKind),
        ("missing", Missing),
        ("mismatch", MismatchKind),
        ("left out", Obstacle),
        ("no record", DropReason),
    )
    for about, kind in kinds:
        assert WORDS[about].keys() == {str(each) for each in kind}
    assert WORDS["missing, short"].keys() <= WORDS["missing"].keys()
    assert WORDS["no record, of ours"].keys() <= WORDS["no record"].keys()
    assert WORDS["outcome"].keys() <= {str(each) for each in (*DropReason, *ErrorKind)}


@pytest.mark.parametrize("width", [80, 140])
def test_large_numbers_are_never_cut(width: int) -> None:
    records = [
        record(i, start=0, contents=(1_000_000 * (i + 1), 9_000_000 * (i + 1)), tokens=10 ** (i + 2), histogram={1: 1})
        for i in range(6)
    ]
    result = a_run(records)
    text = shown(report(result, summarise(result.records), rows=20), width)
    assert max(len(line) for line in text.splitlines()) <= width
    latency = text[text.index("Latency") : text.index("Acceptance ")]
    assert "…" not in latency
    assert "54.0M" in latency


@pytest.mark.parametrize("width", [80, 140])
def test_the_analysis_and_the_comparison_of_runs(width: int) -> None:
    records = simulated_run(3, 40)
    for each in records:
        each.category = ("a-category-with-a-rather-long-name", "coding", "[red]math")[each.index % 3]
    other = [*simulated_run(3, 40, shift=-0.2, noise=1)]
    for each in other:
        each.category = "coding"
    found = analyse(records, ReportSettings(draft_cost=0.1))
    compared = compare_runs(Run("before", records), [Run("after", other)])
    for name, renderable in (("analysis", analysis_report(found)), ("compare", compare_report(compared))):
        text = shown(renderable, width)
        assert max(len(line) for line in text.splitlines()) <= width
        compare(f"{name}-{width}.txt", text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (99_999.0, "99,999"),
        (100_000.0, "100k"),
        (-410_912.0, "-411k"),
        (999_600.0, "1.0M"),
        (54e6, "54.0M"),
    ],
)
def test_numbers_of_statistics_take_six_characters(value: float | None, text: str) -> None:
    assert narrow(value) == text
