"""`spec-profile report`: the matrix from each source, merging, and a run's own tables again."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from aiperf_spec.analysis.category_totals import CategoryTotals
from aiperf_spec.analysis.clusters import clustered, measured, prompt_of
from aiperf_spec.analysis.intervals import ratio
from aiperf_spec.analysis.matrix import RunFigures, Span, build_matrix, order_columns
from aiperf_spec.artifacts.read import totals as totals_module
from aiperf_spec.artifacts.read.record_lines import RecordTotals, read_part
from aiperf_spec.artifacts.read.records import load_records
from aiperf_spec.artifacts.read.totals import read_totals
from aiperf_spec.artifacts.write.record_lines import record_line
from aiperf_spec.cli.app import app
from aiperf_spec.config.choices import ReportMetric, ReportSource
from aiperf_spec.metrics.pooled import pool
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.prompt_sums import PromptSums
from aiperf_spec.models.run import ErrorKind, Phase, RequestRecord
from tests.records import failed, record
from tests.support import Simulate

PEER = Path(__file__).parent / "aiperf" / "vllm-speedbench"
RECORDS, SUMMARY, SERVER = "profile_export.jsonl", "profile_export_aiperf.json", "server_metrics_export.json"


def report(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def accepted_and_steps(one: RequestRecord) -> tuple[int, int] | None:
    acceptance = one.acceptance
    return None if acceptance is None else (acceptance.num_accepted_draft_tokens, acceptance.num_spec_steps)


def requests(totals: RecordTotals) -> int:
    return sum(category.requests for category in totals.categories.values())


def rows(result: Result) -> list[dict[str, str]]:
    assert result.exit_code == 0, result.output
    return list(csv.DictReader(io.StringIO(result.stdout)))


def copied(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        shutil.copy(PEER / name, folder / name)
    return folder


def renamed(folder: Path, model: str) -> Path:
    path = folder / SUMMARY
    document = json.loads(path.read_text())
    document["input_config"]["models"]["items"][0]["name"] = model
    path.write_text(json.dumps(document))
    return folder


def uncategorised(folder: Path) -> Path:
    path = folder / SUMMARY
    if path.exists():
        path.write_text(path.read_text().replace("speed_bench_qualitative", "single_turn"))
    path = folder / RECORDS
    if path.exists():
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            line["metadata"]["source_kind"] = None
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_the_paper_matrix_of_aiperfs_run() -> None:
    result = report(PEER, "--source", "records")
    lines = result.stdout.splitlines()
    assert lines[1].split() == ["Model", "coding", "math", "qa", "writing", "Overall", "Pooled"]
    assert lines[3].split() == ["tinycode", "1.98", "1.77", "4.24", "1.62", "2.40", "2.01"]
    assert lines[4].split() == ["n=6", "n=4", "n=2", "n=4", "n=16"]
    assert "records: vllm-speedbench" in result.stdout
    assert "vllm-speedbench: 46 % of its decode steps had a draft" in result.stdout
    assert "of its decode steps" not in report(PEER, "--metric", "throughput").stdout


@pytest.mark.parametrize("source", ["summary", "server-metrics", "server"])
def test_one_column_from_the_other_sources(source: str) -> None:
    (row,) = rows(report(PEER, "--source", source, "--format", "csv"))
    assert (row["qualitative"], row["Overall"], row["Pooled"]) == ("2.01255",) * 3
    (rate,) = rows(report(PEER, "--source", source, "--format", "csv", "--metric", "accept_rate"))
    assert float(rate["qualitative"]) == pytest.approx(100 * 484 / 2254, abs=1e-4)


def test_auto_takes_the_best_that_each_run_has_and_says_which(tmp_path: Path) -> None:
    renamed(copied(tmp_path / "a", SUMMARY, RECORDS, SERVER), "m1")
    renamed(copied(tmp_path / "b", SUMMARY), "m2")
    server = renamed(copied(tmp_path / "c", SUMMARY, SERVER), "m3")
    document = json.loads((server / SUMMARY).read_text())
    kept = {key: value for key, value in document.items() if key == "input_config"}
    (server / SUMMARY).write_text(json.dumps(kept))
    found = rows(report(tmp_path, "--format", "csv"))
    assert [(row["Model"], row["Source"]) for row in found] == [
        ("m1", "records"),
        ("m2", "summary"),
        ("m3", "server-metrics"),
    ]
    assert found[0]["coding"] == "1.97647"
    assert found[0]["qualitative"] == ""
    table = report(tmp_path)
    for said in ("records: a:", "summary: b:", "server-metrics: c:"):
        assert said in table.stdout


def test_a_pinned_source_that_a_run_lacks_names_it(tmp_path: Path) -> None:
    copied(tmp_path / "whole", SUMMARY, RECORDS)
    copied(tmp_path / "bare", SUMMARY)
    for source, run in (("records", "bare"), ("server-metrics", "bare")):
        result = report(tmp_path, "--source", source)
        assert result.exit_code == 2
        assert run in result.stderr
        assert source in result.stderr


def test_paths_that_hold_no_run_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    for path, said in (("empty", "no run in it"), ("file", "is a file"), ("nowhere", "no such folder")):
        result = report(tmp_path / path)
        assert result.exit_code == 2
        assert said in result.stderr
        assert "Traceback" not in result.output


def test_several_runs_stand_side_by_side_and_are_told_apart(tmp_path: Path) -> None:
    for above in ("a", "b"):
        copied(tmp_path / above / "run", SUMMARY, RECORDS)
    result = report(tmp_path)
    assert result.exit_code == 0, result.output
    table = result.stdout[result.stdout.index("Runs side by side") :].splitlines()
    assert [line.split()[:4] for line in table[4:6]] == [[f"{above}/run", "vLLM", "5", "16/16"] for above in "ab"]
    assert "Latency" not in result.stdout
    assert report(tmp_path, "--full").stdout.count("TTFT (ms)") == 2
    assert result.stderr.splitlines()[-1].startswith("next: spec-profile compare ")


def test_a_folder_given_twice_counts_once() -> None:
    (row,) = rows(report(PEER, PEER.parent, "--pool", "--format", "csv"))
    assert row["Pooled n"] == "16"


def test_same_model_and_category_are_two_rows_or_one_pooled(tmp_path: Path) -> None:
    for name in ("one", "two"):
        copied(tmp_path / name, SUMMARY, RECORDS)
    apart = rows(report(tmp_path, "--format", "csv"))
    assert [row["Run"] for row in apart] == ["one", "two"]
    (row,) = rows(report(tmp_path, "--format", "csv", "--pool"))
    assert (row["Run"], row["coding n"], row["Pooled"], row["Pooled n"]) == ("one two", "12", "2.01255", "32")
    assert "two" in report(tmp_path).stdout


def test_runs_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    for name in ("a/base/aiperf", "b/base/aiperf", "spec/aiperf", "other"):
        copied(tmp_path / name, RECORDS, SUMMARY)
    found = rows(report(tmp_path, "--format", "csv"))
    assert [row["Run"] for row in found] == ["a/base/aiperf", "b/base/aiperf", "other", "spec/aiperf"]


def test_runs_of_one_category_each_share_a_row(tmp_path: Path) -> None:
    for category in ("math", "coding"):
        folder = copied(tmp_path / category, SUMMARY)
        text = (folder / SUMMARY).read_text().replace("speed_bench_qualitative", f"speed_bench_{category}")
        (folder / SUMMARY).write_text(text)
    (row,) = rows(report(tmp_path, "--format", "csv"))
    assert (row["coding"], row["math"], row["Pooled n"]) == ("2.01255", "2.01255", "32")


def test_columns_stand_in_the_conventional_order() -> None:
    given_columns = {"zebra", "mbpp", "gsm8k", "mixed", "low_entropy", "writing", "coding", "apple"}
    assert order_columns(given_columns) == [
        *("coding", "writing", "low_entropy", "mixed", "gsm8k", "mbpp", "apple", "zebra"),
    ]


def test_gauges_are_marked_and_averaged_where_pooled(tmp_path: Path) -> None:
    for name, value in (("a", 2.0), ("b", 3.0)):
        folder = copied(tmp_path / name, SUMMARY)
        metrics = {"sglang:spec_accept_length": {"type": "gauge", "series": [{"stats": {"avg": value}}]}}
        (folder / SERVER).write_text(json.dumps({"metrics": metrics}))
    marked = report(tmp_path, "--source", "server-metrics")
    assert "~2.00" in marked.stdout
    assert "not weighted by tokens" in marked.stdout
    (row,) = rows(report(tmp_path, "--source", "server-metrics", "--pool", "--format", "csv"))
    assert row["qualitative"] == "2.5"
    assert "gauge" in row["Source"]
    document = json.loads(report(tmp_path, "--source", "server", "--format", "json").stdout)
    assert document["rows"][0]["cells"]["qualitative"]["token_weighted"] is False


def test_counters_win_over_gauges_and_all_engines_count(tmp_path: Path) -> None:
    folder = copied(tmp_path / "run", SUMMARY, SERVER)
    document = json.loads((folder / SERVER).read_text())
    for name in ("num_drafts", "num_draft_tokens", "num_accepted_tokens"):
        series = document["metrics"][f"vllm:spec_decode_{name}"]["series"]
        series.append({**series[0], "stats": {"total": 100.0 if name == "num_drafts" else 0.0}})
    document["metrics"]["vllm:spec_accept_length"] = {"type": "gauge", "series": [{"stats": {"avg": 9.0}}]}
    (folder / SERVER).write_text(json.dumps(document))
    (row,) = rows(report(folder, "--source", "server-metrics", "--format", "csv"))
    assert float(row["qualitative"]) == pytest.approx(1 + 484 / 578, abs=1e-5)


def test_intervals_are_those_of_the_records() -> None:
    records = [r for r in load_records(PEER).records if r.phase is Phase.PROFILING]
    terms = list(clustered(records, accepted_and_steps))
    expected = ratio(terms).scaled(1, 1)
    (row,) = rows(report(PEER, "--intervals", "--format", "csv"))
    assert float(row["Pooled low"]) == pytest.approx(expected.low or 0, rel=1e-5)
    assert float(row["Pooled high"]) == pytest.approx(expected.high or 0, rel=1e-5)
    assert row["qa low"] == ""  # two requests are too few for one
    # 16 requests, but 8 prompts.
    assert "[1.39, 2.63] (8)" in report(PEER, "--intervals", "--format", "markdown").stdout


def test_conversations_are_the_clusters_of_intervals(tmp_path: Path) -> None:
    records = []
    for conversation in range(6):
        for turn in range(3):
            histogram = {conversation % 3: 4, 5: turn + 1}
            one = record(
                conversation * 3 + turn, start=0, contents=(1, 2), tokens=9, histogram=histogram, category="qa"
            )
            one.prompt_id, one.turn_index = f"c{conversation}", turn
            records.append(one)
    folder = written(tmp_path / "run", records)
    terms = list(clustered(records, accepted_and_steps))
    expected = ratio(terms).scaled(1, 1)
    totals = CategoryTotals()
    totals.merge(read_totals(folder).categories["qa"])
    found = totals.length()
    assert found.low == pytest.approx(expected.low)
    assert found.high == pytest.approx(expected.high)
    assert found.n == 6
    assert read_totals(folder).categories["qa"].requests == 18


# Reading.


def written(folder: Path, records: list[RequestRecord]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RECORDS).write_bytes(b"".join(record_line(r, 0) for r in records))
    return folder


def test_a_killed_run_and_compressed_files_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    data = (PEER / RECORDS).read_bytes()
    with gzip.open(folder / f"{RECORDS}.gz", "wb") as file:
        file.write(data[:-200])
    result = report(folder)
    assert result.exit_code == 0
    assert "run: 1 unreadable line left out" in result.stderr
    assert " k 5  unknown  chat, " in result.stdout
    assert "run: 1 line of its records could not be read" in report(folder, "--source", "records").stdout
    assert len(load_records(folder).records) == 17


def test_a_killed_run_is_named_after_its_configuration(tmp_path: Path) -> None:
    folder = copied(tmp_path / "run", RECORDS)
    (folder / "config.yaml").write_text("benchmark:\n  models: [the-model]\n")
    assert rows(report(folder, "--format", "csv"))[0]["Model"] == "the-model"


def test_aiperfs_older_summaries_are_read(tmp_path: Path) -> None:
    folder = copied(tmp_path / "run", SUMMARY, RECORDS)
    document = json.loads((folder / SUMMARY).read_text())
    document["input_config"] = {
        "endpoint": {"model_names": ["old-model"], "type": "chat", "streaming": True},
        "input": {"custom_dataset_type": "speed_bench_coding"},
    }
    (folder / SUMMARY).write_text(json.dumps(document))
    (row,) = rows(report(folder, "--source", "summary", "--format", "csv"))
    assert (row["Model"], row["coding"]) == ("old-model", "2.01255")


def test_a_cut_archive_is_an_error_that_names_it(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / f"{RECORDS}.gz").write_bytes(gzip.compress((PEER / RECORDS).read_bytes())[:-100])
    result = report(folder)
    assert result.exit_code == 2
    assert "profile_export.jsonl.gz" in result.stderr


NAMES = st.sampled_from(["qa", "coding", "a,b", 'quo"te', "back\\slash", "日本", '"source_kind":"x"', ""])


@st.composite
def some_records(draw: st.DrawFn) -> list[RequestRecord]:
    records, counted = [], draw(st.booleans())
    for index in range(draw(st.integers(0, 25))):
        kind = draw(st.sampled_from(["ok", "ok", "ok", "failed", "warmup", "silent"]))
        category = draw(st.none() | NAMES) or None
        if kind == "failed":
            message = '{"error":{"spec_decode_acceptance":{"num_spec_steps":3}}}'
            records.append(failed(index, ErrorKind.SERVER_ERROR, message=message))
            continue
        histogram = draw(st.dictionaries(st.integers(0, 5), st.integers(1, 9), min_size=1))
        phase = Phase.WARMUP if kind == "warmup" else Phase.PROFILING
        silent = kind == "silent"
        one = record(
            index,
            start=0,
            contents=tuple(range(1, draw(st.integers(2, 9)))),
            tokens=5,
            histogram=None if silent else histogram,
            reason=draw(st.sampled_from([DropReason.ABSENT, DropReason.ZERO_STEP])) if silent else None,
            category=category,
            phase=phase,
        )
        if one.acceptance is not None and (counted or draw(st.booleans())):
            one.acceptance = replace(one.acceptance, completion_tokens=draw(st.integers(1, 200)))
        one.prompt_id = '"benchmark_phase":"warmup","error":{'
        records.append(one)
    return records


@settings(max_examples=60)
@given(
    records=some_records(),
    parts=st.integers(1, 4),
    spaced=st.booleans(),
    cut=st.booleans(),
)
def test_parts_add_up_to_what_the_whole_file_holds(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[RequestRecord],
    parts: int,
    spaced: bool,
    cut: bool,
) -> None:
    folder = tmp_path_factory.mktemp("scan")
    data = b"".join(record_line(r, 0) for r in records)
    if spaced:  # as another writer would put it
        data = b"".join(json.dumps(json.loads(line)).encode() + b"\n" for line in data.splitlines())
    if cut:
        data = data[:-1]
    path = folder / RECORDS
    path.write_bytes(data)
    expected: dict[str | None, PromptSums] = {}
    succeeded = 0
    for one in load_records(folder).records:
        if one.phase is Phase.PROFILING and one.succeeded:
            succeeded += 1
            if (a := one.acceptance) is not None:
                totals = expected.setdefault(one.category, PromptSums())
                totals.add(prompt_of(one), 1, a.num_accepted_draft_tokens, a.num_spec_steps, a.num_draft_tokens)
    found = RecordTotals()
    edges = [len(data) * i // parts for i in range(parts + 1)]
    for start, end in pairwise(edges):
        found.take(read_part(path, start, end))
    assert found.categories == expected
    assert (found.succeeded, found.unreadable) == (succeeded, 0)
    assert found.undrafted == pool(measured(load_records(folder).records)).undrafted


def test_large_files_are_read_by_several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copied(tmp_path / "run", SUMMARY)
    (folder / RECORDS).write_bytes((PEER / RECORDS).read_bytes() * 20)
    alone = read_totals(folder)
    monkeypatch.setattr(totals_module, "_SHARE", 1 << 19)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert read_totals(folder) == alone
    assert requests(alone) == 320


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"num_spec_steps":28', '"num_spec_steps":-28'),
        ('"num_spec_steps":28', '"num_spec_steps":"28"'),
        ('"num_spec_steps":28', '"num_spec_steps":0'),
        ('"num_accepted_draft_tokens":39', '"num_accepted_draft_tokens":9999'),
    ],
)
def test_counts_that_contradict_each_other_are_left_out_and_counted(tmp_path: Path, old: str, new: str) -> None:
    folder = copied(tmp_path / "run", SUMMARY)
    text = (PEER / RECORDS).read_text()
    hit = text.count(old)
    (folder / RECORDS).write_text(text.replace(old, new))
    pools = read_totals(folder)
    assert 0 < pools.unreadable <= hit
    assert requests(pools) == 16 - pools.unreadable


# Merging.


def split(folder: Path, parts: int) -> list[Path]:
    lines = (PEER / RECORDS).read_bytes().splitlines(keepends=True)
    folders = []
    for part in range(parts):
        mine = copied(folder / f"client-{part}", SUMMARY)
        (mine / RECORDS).write_bytes(b"".join(lines[part::parts]))
        folders.append(mine)
    return folders


def test_clients_pooled_equal_one_client_exactly(tmp_path: Path) -> None:
    whole = copied(tmp_path / "whole" / "one", SUMMARY, RECORDS)
    split(tmp_path / "split", 3)
    one, many = (
        json.loads(report(path, "--pool", "--intervals", "--format", "json").stdout)
        for path in (whole, tmp_path / "split")
    )
    for document in (one, many):
        for row in document["rows"] + document["pooled_runs"]:
            del row["runs"]
        del document["runs"]
    added = many["pooled_runs"][0].pop("clients")
    assert [(client["name"], client["requests"]) for client in added["each"]] == [
        ("client-0", 5),
        ("client-1", 5),
        ("client-2", 6),
    ]
    assert many == one
    figures = one["pooled_runs"][0]
    assert figures["request_count"]["avg"] == 16
    assert figures["pooled_spec_decode_acceptance_histogram"]["0"] == 306
    assert {"time_to_first_token", "inter_chunk_latency"} <= figures.keys()


def test_pooling_throughput_takes_the_time_of_all(tmp_path: Path) -> None:
    whole = copied(tmp_path / "whole" / "one", SUMMARY, RECORDS)
    split(tmp_path / "split", 2)
    found = [
        rows(report(path, "--pool", "--metric", "throughput", "--format", "csv"))[0]["Overall"]
        for path in (whole, tmp_path / "split")
    ]
    assert found[0] == found[1]
    (row,) = rows(report(PEER, "--metric", "throughput", "--format", "csv"))
    assert float(row["qualitative"]) == pytest.approx(
        json.loads((PEER / SUMMARY).read_text())["output_token_throughput"]["avg"], rel=1e-5
    )


def later(folder: Path, seconds: int) -> None:
    def shifted(found: re.Match[bytes]) -> bytes:
        return found[1] + str(int(found[2]) + seconds * 1_000_000_000).encode()

    lines = (folder / RECORDS).read_bytes()
    (folder / RECORDS).write_bytes(re.sub(rb'("request_(?:start|end|ack)_ns":\s*)(\d+)', shifted, lines))


def test_clients_that_did_not_overlap_have_no_common_throughput(tmp_path: Path) -> None:
    folders = split(tmp_path / "split", 2)
    together = json.loads(report(tmp_path / "split", "--pool", "--format", "json").stdout)["pooled_runs"][0]
    later(folders[1], 3600)
    apart = json.loads(report(tmp_path / "split", "--pool", "--format", "json").stdout)["pooled_runs"][0]
    assert together.keys() - apart.keys() == {"benchmark_duration", "request_throughput", "output_token_throughput"}
    added = [found.pop("clients") for found in (together, apart)]
    assert added[0]["common_seconds"] > 0
    assert (added[1]["common_seconds"], round(added[1]["start_spread_seconds"])) == (0, 3600)
    assert {tag: together[tag] for tag in apart if tag != "runs"} == {tag: apart[tag] for tag in apart if tag != "runs"}
    shown = report(tmp_path / "split", "--pool")
    assert "Throughput" not in shown.stdout
    assert "the 2 pooled runs were not all running at the same time" in " ".join(shown.stderr.split())
    none = report(tmp_path / "split", "--pool", "--metric", "throughput")
    assert none.exit_code == 1
    assert "leave out --pool" in none.stderr
    assert report(tmp_path / "split", "--metric", "throughput").exit_code == 0


def test_a_span_of_several_runs_needs_a_time_that_all_share() -> None:
    assert Span(10, [(0, 10_000_000_000)]).rate() == 1
    assert Span(10, [(0, 6_000_000_000), (5_000_000_000, 10_000_000_000)]).rate() == 1
    assert Span(10, [(0, 6), (5, 10), (8, 12)]).rate() is None
    assert Span(10, [(5, 5)]).rate() is None


# A run's own tables.


def profile(simulate: Simulate, out: Path, *arguments: str) -> Result:
    prompts = out.with_suffix(".jsonl")
    prompts.write_text("".join(json.dumps({"text": f"Count to {i}."}) + "\n" for i in range(9)))
    return CliRunner().invoke(
        app,
        [
            *("--url", simulate("vllm").url, "--input-file", str(prompts), "--artifact-dir", str(out)),
            *("--temperature", "0", "--concurrency", "3", "--use-server-token-count", *arguments),
        ],
    )


def test_without_categories_the_run_prints_its_tables_again(simulate: Simulate, tmp_path: Path) -> None:
    live = profile(simulate, tmp_path / "run", "--warmup-request-count", "2", "--full")
    assert live.exit_code == 0, live.output
    again = report(tmp_path / "run", "--full")
    assert again.exit_code == 0, again.output
    for name in ("Latency", "Acceptance", "Accepted drafts per verify step", "What the server counted"):
        assert block(again.stdout, name) == block(live.stdout, name), name
    assert [line for line in again.stdout.splitlines() if line.startswith(("Outcome", "Load", "Prompts"))] == [
        line for line in live.stdout.splitlines() if line.startswith(("Outcome", "Load", "Prompts"))
    ]


def with_notices(folder: Path, *notices: dict[str, object]) -> None:
    path = folder / "profile_export_aiperf.json"
    summary = json.loads(path.read_text())
    summary["spec_profile"]["notices"] = list(notices)
    path.write_text(json.dumps(summary))


def test_what_spoils_a_runs_times_is_said_again(simulate: Simulate, tmp_path: Path) -> None:
    profile(simulate, tmp_path / "run")
    saturated = {
        "kind": "saturated",
        "p50": 1.0,
        "p99": 25.0,
        "max": 30.0,
        "workers": 1,
        "share": 0.5,
        "figure": "TTFT p99",
    }
    with_notices(tmp_path / "run", saturated, {"kind": "unpinned_sampling"}, {"kind": "unknown"}, {"kind": "retried"})
    own = " ".join(report(tmp_path / "run").stderr.split())
    assert "the client itself was slow" in own
    assert "sampling temperature is the server's default" in own
    times = " ".join(report(tmp_path / "run", "--metric", "throughput").stderr.split())
    assert "the client itself was slow" in times
    assert "sampling temperature is the server's default" not in times
    assert "client itself was slow" not in report(tmp_path / "run", "--metric", "accept_rate").stderr
    pooled = report(tmp_path / "run", tmp_path / "run", "--metric", "accept_rate", "--pool")
    assert "the client itself was slow" in " ".join(pooled.stderr.split())


def block(text: str, title: str) -> list[str]:
    # The rule above the answer ends a table too.
    lines = [line.rstrip().replace("─" * 80, "") for line in text.splitlines()]
    start = next(i for i, line in enumerate(lines) if line.startswith(title) and not line.startswith("Acceptance per"))
    return lines[start : lines.index("", start)]


def test_a_summary_alone_prints_its_tables_too(simulate: Simulate, tmp_path: Path) -> None:
    live = profile(simulate, tmp_path / "run", "--export-level", "summary", "--full")
    again = report(tmp_path / "run", "--full")
    assert again.exit_code == 0, again.output
    for name in ("Acceptance", "Accepted drafts per verify step"):
        assert block(again.stdout, name) == block(live.stdout, name), name
    # Whether streams arrived in clumps, as on a busy machine, only records tell.
    times = [[line.replace(" *", "").split() for line in block(each.stdout, "Latency")] for each in (again, live)]
    assert [line for line in times[0] if "TTFT" in line] == [line for line in times[1] if "TTFT" in line] != []


def test_aiperfs_run_without_categories_prints_tables(tmp_path: Path) -> None:
    folder = uncategorised(copied(tmp_path / "run", SUMMARY, RECORDS))
    result = report(folder)
    assert result.exit_code == 0, result.output
    assert "16 of 16 succeeded and reported" in result.stdout
    assert "concurrency 2, 2 warm-up requests apart" in result.stdout
    (row,) = rows(report(folder, "--format", "csv"))
    assert row["all"] == "2.01255"


def test_nothing_to_report_is_said(tmp_path: Path) -> None:
    folder = copied(tmp_path / "run", SUMMARY)
    document = json.loads((folder / SUMMARY).read_text())
    (folder / SUMMARY).write_text(json.dumps({"input_config": document["input_config"]}))
    result = report(folder)
    assert result.exit_code == 1
    assert "no accept length" in result.stderr
    assert report(folder, "--format", "csv").exit_code == 1


# Formats.


def test_output_goes_to_a_file(tmp_path: Path) -> None:
    for form in ("table", "csv", "json", "markdown"):
        path = tmp_path / f"out.{form}"
        result = report(PEER, "--format", form, "--output", path)
        assert result.exit_code == 0
        assert result.stdout == ""
        assert "1.98" in path.read_text() or "1.976" in path.read_text()
    missing = report(PEER, "--output", tmp_path / "no" / "where")
    assert missing.exit_code == 1
    assert "--output" in missing.stderr


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    folder = renamed(copied(tmp_path / "run", SUMMARY, RECORDS), "a|b\n<script>\x1b[31m[red]")
    markdown = report(folder, "--format", "markdown").stdout
    assert "a\\|b &lt;script>" in markdown
    table = report(folder).stdout
    assert "\x1b" not in table
    assert "[red]" in table
    assert rows(report(folder, "--format", "csv"))[0]["coding"] == "1.97647"


def test_a_narrow_terminal_gets_the_columns_in_blocks() -> None:
    from aiperf_spec.render.matrix import matrix_report
    from tests.test_tables import shown

    pools = {
        name: CategoryTotals.unnamed(3, 30, 20, 100) for name in (*order_columns({"coding", "summarization"}), "x" * 20)
    }
    run = RunFigures("m" * 60, ["run"], ReportSource.RECORDS, pools=pools)
    matrix = build_matrix(ReportMetric.ACCEPT_LENGTH, [run])
    text = shown(matrix_report(matrix, intervals=True, width=60), 60)
    assert text.count("Acceptance length") == 3  # the third name is as wide as the first two
    assert all(len(line) <= 60 for line in text.splitlines())


@pytest.mark.parametrize("argument", [("--metric", "speed"), ("--source", "guess"), ("--format", "xml")])
def test_bad_options_are_refused(argument: tuple[str, str]) -> None:
    result = report(PEER, *argument)
    assert result.exit_code == 2


def test_json_is_strict() -> None:
    def refuse(name: str) -> Any:
        raise AssertionError(name)

    document = json.loads(report(PEER, "--format", "json").stdout, parse_constant=refuse)
    assert document["rows"][0]["cells"]["qa"] == {"value": pytest.approx(4.2380952), "requests": 2}
    assert document["rows"][0]["overall_unweighted"] == pytest.approx(2.3994, abs=1e-4)
