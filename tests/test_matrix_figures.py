"""`report --metric` with any figure: the matrix of what is not made of sums."""

from __future__ import annotations

import csv
import io
import json
import shutil
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from aiperf_spec.analysis.figure_names import FigureName, parse_metric
from aiperf_spec.analysis.gate_figures import Figures
from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.artifacts.read.matrix_figures import run_figures
from aiperf_spec.artifacts.read.records import load_records
from aiperf_spec.artifacts.write.record_lines import record_line
from aiperf_spec.cli.app import app
from aiperf_spec.config.choices import ReportMetric, ReportSource
from aiperf_spec.errors import ConfigError
from aiperf_spec.models.run import ErrorKind, Phase, RequestRecord
from tests.records import failed, record

PEER = Path(__file__).parent / "aiperf" / "vllm-speedbench"
RECORDS, SUMMARY = "profile_export.jsonl", "profile_export_aiperf.json"
TTFT_P42 = FigureName("time_to_first_token", "p42", None)


def report(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def rows(*arguments: object) -> list[dict[str, str]]:
    result = report(*arguments, "--format", "csv")
    assert result.exit_code == 0, result.output
    return list(csv.DictReader(io.StringIO(result.stdout)))


def document(*arguments: object) -> Any:
    result = report(*arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def written(folder: Path, records: list[RequestRecord], summary: dict[str, Any] | None = None) -> Path:
    folder.mkdir(parents=True)
    (folder / RECORDS).write_bytes(b"".join(record_line(each, 0) for each in records))
    if summary is not None:
        (folder / SUMMARY).write_text(json.dumps(summary))
    return folder


def some(count: int, *, first: int, category: str | None = None, start: int = 0) -> list[RequestRecord]:
    """Return records whose times to the first token are `first`, `first` + 1, ... ms."""
    return [
        record(i, start=start, contents=(first + i, first + i + 90), tokens=10, category=category) for i in range(count)
    ]


# Names.


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        ("accept_length", ReportMetric.ACCEPT_LENGTH),
        ("acceptance_length", ReportMetric.ACCEPT_LENGTH),
        ("spec_decode_token_weighted_acceptance_length", ReportMetric.ACCEPT_LENGTH),
        ("draft_acceptance_rate", ReportMetric.ACCEPT_RATE),
        ("output_token_throughput", ReportMetric.THROUGHPUT),
        ("accept_length.avg", FigureName("spec_decode_acceptance_length", "avg", None)),
        ("TTFT (ms)", FigureName("time_to_first_token", "avg", None)),
        ("ttft.p42", TTFT_P42),
        ("Rate per request", FigureName("spec_decode_draft_acceptance_rate", "avg", None)),
        ("Rate per request.p9", FigureName("spec_decode_draft_acceptance_rate", "p9", None)),
        ("error_rate", FigureName("error_rate", None, None)),
    ],
)
def test_a_metric_has_all_the_names_that_gates_take(text: str, metric: ReportMetric | FigureName) -> None:
    assert parse_metric(text) == metric


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("ttfft", "no metric is named 'ttfft'", "the nearest name is ttft"),
        ("ttft.p100", "ttft has no statistic 'p100'", "the nearest is ttft.p10"),
        ("ttft[coding]", "names a category", "every category has a column"),
        ("reconciled", "is true or false", "--require 'reconciled == true'"),
        ("request_count.p9", "is one number", "write request_count alone"),
        ("", "no metric is named ''", "the nearest name"),
    ],
)
def test_a_wrong_name_is_refused_with_a_remedy(text: str, message: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_metric(text)
    assert f"--metric {text!r}" in caught.value.message
    assert message in caught.value.message
    assert remedy in (caught.value.remedy or "")
    result = report(PEER, "--metric", text)
    assert result.exit_code == 2
    assert remedy in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("text", "title", "unit"),
    [
        ("ttft.p99", "TTFT, p99 (ms)", "ms"),
        ("server_time_to_first_token", "Server Time to First Token, avg (ms)", "ms"),
        ("accept_rate.p9", "Draft Acceptance Rate, p9 (%)", "%"),
        ("output_sequence_length.sum", "Output Sequence Length, sum (tokens)", "tokens"),
        ("drafted_share", "Drafted Share", "ratio"),
        ("client_lag.p42", "Client event loop lag, p42 (ms)", "ms"),
        ("step_time", "Step time (ms)", "ms"),
    ],
)
def test_titles_hold_statistic_and_unit(text: str, title: str, unit: str) -> None:
    name = parse_metric(text)
    assert isinstance(name, FigureName)
    assert (name.title, name.unit) == (title, unit)


# Figures.


@pytest.mark.parametrize("text", ["ttft.p42", "itl", "accept_length.avg", "drafted_share", "error_rate", "step_time"])
def test_cells_are_what_gates_judge(text: str) -> None:
    name = parse_metric(text)
    assert isinstance(name, FigureName)
    figures = Figures(load_records(PEER).records)
    (row,) = document(PEER, "--metric", text, "--intervals")["rows"]
    assert list(row["cells"]) == ["coding", "math", "qa", "writing"]
    for category, cell in row["cells"].items():
        expected = figures.find(FigureName(name.tag, name.statistic, category))
        assert cell["value"] == pytest.approx(expected.value)
        assert (cell["low"], cell["high"]) == (pytest.approx(expected.low), pytest.approx(expected.high))
    whole = figures.find(name)
    assert row["overall_pooled"]["value"] == pytest.approx(whole.value)
    assert row["overall_pooled"]["low"] == pytest.approx(whole.low)
    assert row["overall_pooled"]["prompts"] == whole.n


def test_every_format_has_the_unit() -> None:
    found = document(PEER, "--metric", "ttft.p42")
    assert (found["metric"], found["unit"]) == ("time_to_first_token.p42", "ms")
    assert found["rows"][0]["cells"]["coding"]["requests"] == 6
    (row,) = rows(PEER, "--metric", "ttft.p42")
    assert (row["Metric"], row["Unit"], row["coding n"]) == ("time_to_first_token.p42", "ms", "6")
    assert float(row["coding"]) == pytest.approx(found["rows"][0]["cells"]["coding"]["value"], rel=1e-5)
    (row,) = rows(PEER, "--metric", "accept_rate")
    assert (row["Metric"], row["Unit"]) == ("accept_rate", "%")
    markdown = report(PEER, "--metric", "ttft.p42", "--format", "markdown").stdout
    assert markdown.startswith("**TTFT, p42 (ms)**\n\n| Model | coding |")
    table = report(PEER, "--metric", "ttft.p42").stdout
    assert table.startswith("TTFT, p42 (ms)")
    assert "records: vllm-speedbench: from the requests' records." in table
    assert "every verify step" not in table


def test_requests_are_those_that_have_the_metric(tmp_path: Path) -> None:
    records = [*some(3, first=10, category="qa"), replace(failed(3, ErrorKind.SERVER_ERROR), category="qa")]
    single = record(4, start=0, contents=(5, 6), tokens=1, category="qa")  # one token has no time between tokens
    warm = record(5, start=0, contents=(5, 6), tokens=9, category="math", phase=Phase.WARMUP)
    folder = written(tmp_path / "run", [*records, single, warm])
    (row,) = document(folder, "--metric", "itl")["rows"]
    assert row["cells"] == {"qa": {"value": pytest.approx(10), "requests": 3}}
    (row,) = document(folder, "--metric", "error_rate")["rows"]
    assert row["cells"]["qa"]["value"] == pytest.approx(0.2)


def test_a_run_without_categories_has_one_column(tmp_path: Path) -> None:
    folder = written(tmp_path / "run", some(11, first=10))
    (row,) = document(folder, "--metric", "ttft.p90")["rows"]
    assert row["cells"] == {"all": {"value": pytest.approx(19), "requests": 11}}
    assert row["overall_pooled"]["value"] == pytest.approx(19)


def test_durations_and_throughputs_are_of_whole_runs() -> None:
    (row,) = document(PEER, "--metric", "benchmark_duration")["rows"]
    assert list(row["cells"]) == ["qualitative"]
    whole = Figures(load_records(PEER).records).find(FigureName("benchmark_duration", None, None))
    assert row["cells"]["qualitative"]["value"] == pytest.approx(whole.value)


# Sources.


def test_a_summary_serves_where_there_are_no_records(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    shutil.copy(PEER / SUMMARY, tmp_path / "run" / SUMMARY)
    kept = json.loads((PEER / SUMMARY).read_text())["time_to_first_token"]["p99"]
    for arguments in ((tmp_path / "run",), (PEER, "--source", "summary")):
        (row,) = document(*arguments, "--metric", "ttft.p99")["rows"]
        assert row["cells"] == {"qualitative": {"value": kept, "requests": None}}
        assert row["source"] == "summary"
    assert "the run's own figure" in report(tmp_path / "run", "--metric", "ttft.p99").stdout
    none = report(tmp_path / "run", "--metric", "ttft.p42")
    assert none.exit_code == 1
    assert "no time_to_first_token.p42 in 1 run" in none.stderr
    assert "--full" in none.stderr


def test_what_records_do_not_tell_comes_from_the_summary(tmp_path: Path) -> None:
    summary = {"client_event_loop_lag": {"p99": 3.5}, "unsent_request_count": {"avg": 2}}
    folder = written(tmp_path / "run", some(3, first=10), summary)
    for metric, value in (("client_lag.p99", 3.5), ("unsent_request_count", 2)):
        (row,) = document(folder, "--metric", metric)["rows"]
        assert (row["source"], row["cells"]["all"]["value"]) == ("summary", value)


def test_large_records_are_read_only_for_what_the_summary_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(tmp_path / "run", some(3, first=10), {"time_to_first_token": {"avg": 7.0}})
    monkeypatch.setattr("aiperf_spec.artifacts.read.folders.READABLE_BYTES", 0)
    found = run_figures(RunFolder(folder), FigureName("time_to_first_token", "avg", None), ReportSource.AUTO)
    assert (found.source, found.values) == (ReportSource.SUMMARY, {"all": 7.0})
    found = run_figures(RunFolder(folder), TTFT_P42, ReportSource.AUTO)
    assert found.source is ReportSource.RECORDS


def test_the_servers_counters_have_no_other_figure() -> None:
    result = report(PEER, "--metric", "ttft", "--source", "server-metrics")
    assert result.exit_code == 2
    assert "no time_to_first_token.avg in its server-metrics" in " ".join(result.stderr.split())


# Several runs.


def test_runs_of_one_category_each_share_a_row_and_are_pooled_from_their_records(tmp_path: Path) -> None:
    parts = {"math": some(4, first=10, category="math"), "coding": some(7, first=50, category="coding")}
    for name, records in parts.items():
        written(tmp_path / name, records)
    (row,) = document(tmp_path, "--metric", "ttft.p42")["rows"]
    whole = Figures([*chain(*parts.values())]).find(TTFT_P42)
    assert row["overall_pooled"]["value"] == pytest.approx(whole.value)
    assert {name: cell["requests"] for name, cell in row["cells"].items()} == {"coding": 7, "math": 4}
    assert row["overall_unweighted"] == pytest.approx((10 + 0.42 * 3 + 50 + 0.42 * 6) / 2)


def test_pooled_runs_are_computed_from_all_their_records(tmp_path: Path) -> None:
    parts = [some(5, first=10, category="qa"), some(6, first=80, category="qa")]
    for i, records in enumerate(parts):
        written(tmp_path / f"{i}", records, {"time_to_first_token": {"avg": 1.0}})
    assert len(document(tmp_path, "--metric", "ttft.p42")["rows"]) == 2
    (row,) = document(tmp_path, "--metric", "ttft.p42", "--pool")["rows"]
    whole = Figures([*chain(*parts)]).find(TTFT_P42)
    assert row["cells"] == {"qa": {"value": pytest.approx(whole.value), "requests": 11}}
    refused = report(tmp_path, "--metric", "ttft", "--pool", "--source", "summary")
    assert refused.exit_code == 2
    assert "from records, not from summaries" in " ".join(refused.stderr.split())


def test_pooled_runs_that_did_not_overlap_have_no_common_duration(tmp_path: Path) -> None:
    for i in range(2):
        written(tmp_path / f"{i}", some(5, first=10, start=i * 10_000))
    result = report(tmp_path, "--metric", "request_throughput", "--pool")
    assert result.exit_code == 1
    assert "leave out --pool" in result.stderr
    assert len(document(tmp_path, "--metric", "request_throughput")["rows"]) == 2
    (row,) = document(tmp_path, "--metric", "ttft", "--pool")["rows"]
    assert row["cells"]["all"]["value"] == pytest.approx(12)


def test_lines_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    folder = written(tmp_path / "run", some(5, first=10))
    with (folder / RECORDS).open("ab") as file:
        file.write(b'{"cut')
    assert "run: 1 line of its records could not be read." in report(folder, "--metric", "ttft").stdout
