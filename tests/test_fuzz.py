"""Odd values at every place of a server's answers and of a run's files: no traceback, and no other figure lost."""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from aiperf_spec.artifacts import names
from aiperf_spec.artifacts.read.answers import load_answers
from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.artifacts.read.record_lines import NO_RECORD
from aiperf_spec.artifacts.read.records import load_records, read_record
from aiperf_spec.artifacts.read.run import load_run
from aiperf_spec.artifacts.read.summary_file import summary_of
from aiperf_spec.artifacts.write.server_metrics_files import server_metrics_csv, server_metrics_json
from aiperf_spec.cli.app import app
from aiperf_spec.models.server_metrics import MetricFigures, ServerMetrics
from aiperf_spec.server_metrics.deltas import metric_deltas
from aiperf_spec.server_metrics.reconciliation import reconcile
from aiperf_spec.server_metrics.snapshots import Snapshots
from tests.answering import Answer, answering
from tests.support import Simulate

Place = tuple[str | int, ...]
HERE = Path(__file__).parent
BODIES = {
    "vllm": HERE / "wire" / "vllm" / "chat-nonstream-timing.json",
    "sglang": HERE / "wire" / "sglang" / "chat-nonstream-n1.json",
    "tensorrt_llm": HERE / "wire" / "tensorrt_llm" / "chat-nonstream-n1.json",
}
ODD: list[Any] = [
    *(None, True, "", "x", "1e999", "NaN", "\ud800", [], {}, [1], {"a": 1}),
    *(-1, 0, 2**31, 2**53, 2**63, 2**70, 10**400, 1.5, 1e155, 1e308, -1e308, float("nan"), float("inf")),
]


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Yield every place within a JSON value; of a list, those of its first two entries."""
    if at:
        yield at
    entries = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from places(inner, (*at, key))


def mutated(value: Any, at: Place, odd: Any) -> Any:
    """Return a copy of the value with something odd at a place."""
    result = copy.deepcopy(value)
    node = result
    for key in at[:-1]:
        node = node[key]
    node[at[-1]] = odd
    return result


def invoke(*arguments: str) -> Result:
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})
    assert result.exception is None or isinstance(result.exception, SystemExit), arguments
    assert "could not be made" not in result.output
    return result


@pytest.mark.parametrize("engine", BODIES)
def test_odd_values_in_a_servers_answers_cost_their_own_request_alone(engine: str, tmp_path: Path) -> None:
    clean = json.loads(BODIES[engine].read_text())
    odd = [json.dumps(mutated(clean, at, odd)).encode() for at in places(clean) for odd in ODD]
    # Between each two of them stands one as it was.
    bodies = [each for body in odd for each in (body, json.dumps(clean).encode())]
    out = tmp_path / "run"
    load = ("--request-count", str(2 * len(odd)), "--no-streaming", "--no-server-metrics", "--ui", "none")
    # By the number at the end of its id, for a request may be sent anew on a fresh connection.
    with answering(lambda headers: Answer(bodies[int(headers["x-request-id"][-12:], 16)])) as server:
        result = invoke("--url", server.url, "--model", "m", *load, "--artifact-dir", str(out))
    assert result.exit_code == 0, result.output
    assert len(odd) > 500
    records = sorted(load_records(out).records, key=lambda record: record.index)
    assert len(records) == 2 * len(odd)
    told = {(r.acceptance is None, r.output_tokens, r.input_tokens, r.server_timing) for r in records[1::2]}
    assert len(told) == 1
    assert records[1].acceptance is not None
    assert {record.acceptance for record in records[1::2] if record.acceptance != records[1].acceptance} == set()
    for command in (("report", "--analysis", "--draft-cost", "0.05"), ("report", "--format", "json", "--intervals")):
        assert invoke(command[0], str(out), *command[1:]).exit_code == 0
    assert invoke("compare", str(out), str(out)).exit_code == 0


@pytest.fixture(scope="module")
def folder(simulate: Simulate, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run, with failed requests in it."""
    out = tmp_path_factory.mktemp("fuzz") / "run"
    url = simulate("vllm", faults=(("http_500_json", 0.2),)).url
    load = ("--request-count", "20", "--max-tokens", "30", "--export-level", "raw", "--ui", "none")
    assert invoke("--url", url, *load, "--artifact-dir", str(out)).exit_code == 0
    return out


def test_odd_values_in_a_line_cost_their_own_record_alone(folder: Path, tmp_path: Path) -> None:
    lines = (folder / names.RECORDS_JSONL).read_text().splitlines()
    tried = unreadable = 0
    odd: list[str] = []
    for line in (
        next(each for each in lines if '"error"' not in each),
        next(each for each in lines if '"error"' in each),
    ):
        clean, record = json.loads(line), read_record(line.encode())
        for at in places(clean):
            for value in ODD:
                tried += 1
                odd.append(json.dumps(mutated(clean, at, value)))
                try:
                    found = read_record(odd[-1].encode())
                except NO_RECORD:
                    unreadable += 1
                    continue
                if at[0] == "metrics":
                    kept = (found.acceptance, found.error, found.start_ns, found.end_ns, found.prompt_id)
                    assert kept == (record.acceptance, record.error, record.start_ns, record.end_ns, record.prompt_id)
    assert tried > 1500
    # All of them in one folder: the figures of the lines as they were are found among them, and no table is lost.
    out = tmp_path / "odd"
    out.mkdir()
    (out / names.RECORDS_JSONL).write_text("\n".join([*lines, *odd]) + "\n")
    assert len(load_records(out).unreadable) == unreadable
    assert invoke("report", str(out), "--analysis", "--by-category", "--draft-cost", "0.05").exit_code == 0
    assert invoke("report", str(out), "--metric", "throughput").exit_code in (0, 1)
    assert invoke("compare", str(folder), str(out), "--format", "json").exit_code == 0


def one_each(clean: Any, seed: int = 15) -> list[tuple[Place, Any]]:
    """Return every place of a file, each with something odd."""
    chosen = random.Random(seed)
    return [(at, chosen.choice(ODD)) for at in places(clean)]


@pytest.fixture
def copy_of(folder: Path, tmp_path: Path) -> Path:
    """Return a copy of the run's folder, for a test to spoil."""
    shutil.copytree(folder, tmp_path / "copy")
    return tmp_path / "copy"


def shown(folder: Path, *, page: bool = False) -> None:
    """Hold the commands that read a folder to what they promise: no traceback, the records' figures shown."""
    assert "Acceptance length" in invoke("report", str(folder), "--analysis").output
    assert invoke("report", str(folder), "--format", "json").exit_code == 0
    assert invoke("report", str(folder), "--source", "server-metrics").exit_code in (0, 2)
    assert invoke("compare", str(folder), str(folder), "--format", "json").exit_code == 0
    if page:
        html = folder.parent / "page.html"
        assert invoke("report", str(folder), "--html", str(html)).exit_code == 0
        assert html.read_text().count("<svg") > 2


def test_a_page_of_odd_lines(folder: Path, copy_of: Path) -> None:
    lines = (folder / names.RECORDS_JSONL).read_text().splitlines()
    clean = json.loads(next(each for each in lines if '"error"' not in each))
    odd = [json.dumps(mutated(clean, at, value)) for at in places(clean) for value in ODD]
    (copy_of / names.RECORDS_JSONL).write_text("\n".join([*lines, *odd]) + "\n")
    shown(copy_of, page=True)


def test_odd_values_in_a_summary_cost_themselves_alone(folder: Path, copy_of: Path) -> None:
    clean = json.loads((folder / names.SUMMARY_JSON).read_text())
    before = summary_of(RunFolder(folder).described).run_values
    cases = one_each(clean)
    for at, odd in cases:
        (copy_of / names.SUMMARY_JSON).write_text(json.dumps(mutated(clean, at, odd)))
        after = summary_of(RunFolder(copy_of).described).run_values
        assert {tag for tag in before if after.get(tag) != before[tag]} <= {at[0]}, (at, odd)
    assert len(cases) > 200
    for number, (at, odd) in enumerate(random.Random(15).sample(cases, 2)):
        (copy_of / names.SUMMARY_JSON).write_text(json.dumps(mutated(clean, at, odd)))
        shown(copy_of, page=number < 1)
        (copy_of / names.RECORDS_JSONL).unlink()
        assert invoke("report", str(copy_of)).exit_code in (0, 1), (at, odd)
        shutil.copy(folder / names.RECORDS_JSONL, copy_of)


def test_odd_values_in_the_servers_counters_cost_themselves_alone(folder: Path, copy_of: Path) -> None:
    clean = json.loads((folder / names.SERVER_METRICS_JSON).read_text())
    before = RunFolder(folder).server_metrics.metrics
    cases = one_each(clean)
    for at, odd in cases:
        (copy_of / names.SERVER_METRICS_JSON).write_text(json.dumps(mutated(clean, at, odd)))
        after = RunFolder(copy_of).server_metrics.metrics
        if at[0] != "metrics":
            assert after == before, (at, odd)
        elif len(at) > 1:
            assert {name for name in before if after.get(name) != before[name]} <= {at[1]}, (at, odd)
    assert len(cases) > 100
    for number, (at, odd) in enumerate(random.Random(15).sample(cases, 2)):
        (copy_of / names.SERVER_METRICS_JSON).write_text(json.dumps(mutated(clean, at, odd)))
        shown(copy_of, page=number < 1)


def test_odd_values_in_a_configuration_cost_no_figure(folder: Path, copy_of: Path) -> None:
    clean = yaml.safe_load((folder / names.CONFIG_YAML).read_text())
    before = load_run([RunFolder(folder)]).result
    cases = [case for seed in range(6) for case in one_each(clean, seed)]
    for at, odd in cases:
        (copy_of / names.CONFIG_YAML).write_text(yaml.safe_dump(mutated(clean, at, odd)))
        after = load_run([RunFolder(copy_of)]).result
        assert after.records == before.records, (at, odd)
        assert after.model, (at, odd)
    assert len(cases) > 100
    for text in ("", "\0", "[", "- 1", "a: &a [*a]", "1: 2", "url: [", "<<: 3", "!!python/name:os.system", "\xff" * 9):
        (copy_of / names.CONFIG_YAML).write_text(text, encoding="latin-1")
        assert load_run([RunFolder(copy_of)]).result.records == before.records, text
    for number, (at, odd) in enumerate(random.Random(15).sample(cases, 2)):
        (copy_of / names.CONFIG_YAML).write_text(yaml.safe_dump(mutated(clean, at, odd)))
        shown(copy_of, page=number < 1)


def test_odd_values_in_a_raw_file_cost_their_own_texts_alone(folder: Path, copy_of: Path) -> None:
    lines = (folder / names.RAW_JSONL).read_text().splitlines()
    clean = json.loads(next(line for line in lines if json.loads(line)["metadata"]["session_num"] == 0))
    before = load_answers(folder, range(20))
    tried = 0
    for at, odd in one_each(clean) + one_each(clean, seed=16):
        tried += 1
        if at != ("metadata", "session_num"):
            (copy_of / names.RAW_JSONL).write_text(json.dumps(mutated(clean, at, odd)) + "\n")
            assert load_answers(copy_of, [0]).keys() <= {0}, (at, odd)
    assert tried > 50
    odd_lines = [json.dumps(mutated(clean, at, odd)) for at in places(clean) for odd in ODD if at[-1] != "session_num"]
    (copy_of / names.RAW_JSONL).write_text("\n".join([*odd_lines, *lines]) + "\n")
    after = load_answers(copy_of, range(20))
    assert {index for index in before if index and after.get(index) != before[index]} == set()
    shown(copy_of, page=True)


PAGE = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{{engine="0",model_name="m"}} {0}.0
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{{engine="0",model_name="m"}} {0}5.0
# TYPE vllm:spec_decode_num_accepted_tokens_total counter
vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="m"}} {0}2.0
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="0"}} {0}1.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="1"}} {0}.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{engine="0",model_name="m"}} {0}9.0
# TYPE vllm:request_success_total counter
vllm:request_success_total{{engine="0",finished_reason="length",model_name="m"}} {0}.0
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="m"}} {0}.5
# TYPE sglang:spec_accept_length gauge
sglang:spec_accept_length{{model_name="m"}} 2.5
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{{engine="0",le="0.1",model_name="m"}} {0}.0
vllm:time_to_first_token_seconds_bucket{{engine="0",le="1.0",model_name="m"}} {0}1.0
vllm:time_to_first_token_seconds_bucket{{engine="0",le="+Inf",model_name="m"}} {0}2.0
vllm:time_to_first_token_seconds_count{{engine="0",model_name="m"}} {0}2.0
vllm:time_to_first_token_seconds_sum{{engine="0",model_name="m"}} {0}.25
"""
ODD_VALUES = (
    *("NaN", "+Inf", "-Inf", "1e200", "-1e200", "1e308", "1e999", "-1", "0", "", "x", "1,5", "0x10", "1 2 3", "1_0"),
    *("9007199254740993", "1" * 400, "\x00", "\ud7ff\u2028", "# {", '"', "{}", "1.0 # {a=" + '"b"} NaN'),
)


def odd_lines(line: str) -> Iterator[str]:
    """Yield what may stand in the place of a line of metrics: nothing, itself twice, odd values, labels and types."""
    yield from (
        "",
        f"{line}\n{line}",
        f"  {line}",
        line.replace(" ", "\t"),
        line[: len(line) // 2],
        line + " 1700000000",
    )
    start, _, end = line.rpartition(" ")
    yield from (f"{start} {value}" for value in ODD_VALUES)
    if line.startswith("#"):
        yield from (f"{start} {kind}" for kind in ("gauge", "counter", "histogram", "summary", "untyped", "odd"))
    else:
        for label in (
            'le="x"',
            'le=""',
            'le="NaN"',
            'le="1e400"',
            'le="-Inf"',
            "le=1",
            'a="',
            'a="\\',
            ",",
            'engine="9"',
        ):
            yield start.replace("{", "{" + label + ",") + f" {end}"
        name = start.partition("{")[0]
        yield from (f"{name} {end}", f"{name}{{}} {end}", start[len(name) :] + f" {end}", f"{name.upper()}é {end}")


def named(line: str) -> str:
    """Return the name of the metric that a line is of."""
    name = line.split(" ")[2] if line.startswith("#") else line.partition("{")[0]
    for end in ("_bucket", "_count", "_sum", "_total"):
        name = name.removesuffix(end)
    return name


def test_odd_lines_of_metrics_cost_themselves_alone(folder: Path) -> None:
    def figures(first: str, last: str) -> dict[str, MetricFigures]:
        snapshots = Snapshots()
        snapshots.begin(10**9, first)
        snapshots.add(2 * 10**9, last)
        snapshots.finish()
        return metric_deltas({"u": snapshots}, 10**9, 2 * 10**9)

    records = load_records(folder).records
    first, last = PAGE.format(1), PAGE.format(3)
    before = figures(first, last)
    tried = lost = 0
    for number, line in enumerate(last.splitlines()):
        for odd in odd_lines(line):
            where = ((first,), (last,), (first, last))[tried % 3]
            pages = [
                "\n".join([*lines[:number], odd, *lines[number + 1 :]]) if page in where else page
                for page in (first, last)
                for lines in [page.splitlines()]
            ]
            tried += 1
            after = figures(*pages)
            assert {name for name in before if after.get(name) != before[name]} <= {named(line)}, (odd, where)
            lost += after.get(named(line)) != before.get(named(line))
            metrics = ServerMetrics([], 10**9, 2 * 10**9, after)
            json.loads(server_metrics_json(metrics, "run", reconcile(records, metrics)))
            server_metrics_csv(metrics, "run")
    assert tried > 500
    assert lost > 100


def test_a_run_beside_odd_lines_of_metrics(tmp_path: Path) -> None:
    lines = PAGE.format(3).splitlines()
    cases = [(number, odd) for number, line in enumerate(lines) for odd in odd_lines(line)]
    load = ("--model", "m", "--request-count", "2", "--no-streaming", "--ui", "none")
    for number, odd in random.Random(15).sample(cases, 6):
        page = "\n".join([*lines[:number], odd, *lines[number + 1 :]]).encode("utf-8", "surrogatepass")
        with answering(Answer(), page) as server:
            result = invoke("--url", server.url, *load, "--artifact-dir", str(tmp_path / "run"), "--overwrite")
        assert result.exit_code == 0
        assert "2 of 2 " in result.output
        assert summary_of(RunFolder(tmp_path / "run").described).run_values["request_count"] == 2
        assert invoke("report", str(tmp_path / "run"), "--source", "server-metrics").exit_code in (0, 2)
