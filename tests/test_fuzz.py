"""Odd values at every place of a server's answers and of a run's files: no traceback, and no other figure lost."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from aiperf_spec.artifacts import names
from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.artifacts.read.record_lines import NO_RECORD
from aiperf_spec.artifacts.read.records import load_records, read_record
from aiperf_spec.artifacts.read.summary_file import summary_of
from aiperf_spec.cli.app import app
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


@pytest.mark.parametrize("name", [names.SUMMARY_JSON, names.SERVER_METRICS_JSON])
def test_odd_values_in_a_file_cost_themselves_alone(name: str, folder: Path, tmp_path: Path) -> None:
    clean = json.loads((folder / name).read_text())
    before = summary_of(RunFolder(folder).described).run_values
    cases = [(at, odd) for at in places(clean) for odd in ODD]
    for at, odd in random.Random(15).sample(cases, 40):
        (tmp_path / name).write_text(json.dumps(mutated(clean, at, odd)))
        if name == names.SUMMARY_JSON:
            after = summary_of(RunFolder(tmp_path).described).run_values
            assert {tag for tag in before if after.get(tag) != before[tag]} <= {at[0]}, (at, odd)
            assert invoke("report", str(tmp_path)).exit_code in (0, 1), (at, odd)
        else:
            (tmp_path / names.RECORDS_JSONL).write_text((folder / names.RECORDS_JSONL).read_text())
            assert invoke("report", str(tmp_path)).exit_code == 0
            assert invoke("report", str(tmp_path), "--source", "server-metrics").exit_code in (0, 2)
