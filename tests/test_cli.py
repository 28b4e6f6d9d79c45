"""The commands through typer's runner, against simulators."""

from __future__ import annotations

import csv
import json
import socket
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from aiperf_spec.adapters.registry import BUILT_IN
from aiperf_spec.cli.app import app
from tests.support import Simulate

ENGINES = {
    "vllm": {},
    "tensorrt_llm": {},
    "sglang": {"return_spec_tokens_details": True},
    "llama_cpp": {"timings_per_token": True},
}


def invoke(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "120", **(env or {})})


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "profile_export.jsonl").read_text().splitlines()]


def closed_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@pytest.mark.parametrize("streaming", ["--streaming", "--no-streaming"])
def test_drafts_without_steps_are_what_the_engine_counted(streaming: str, simulate: Simulate, tmp_path: Path) -> None:
    simulator = simulate("llama_cpp")
    simulator.reset_ledger()
    out = tmp_path / "run"
    more = ("--max-tokens", "40", "--temperature", "0", "--artifact-dir", str(out))
    result = invoke("--url", simulator.url, streaming, "--request-count", "6", *more)
    assert result.exit_code == 0, result.output
    ledger = simulator.ledger()
    steps, accepted, proposed = (sum(entry[name] for entry in ledger) for name in ("steps", "accepted", "proposed"))
    summary = json.loads((out / "profile_export_aiperf.json").read_text())
    assert summary["spec_profile"]["drop_reasons"] == {"totals_only": 6}
    assert summary["draft_totals_draft_acceptance_rate"]["avg"] == pytest.approx(100 * accepted / proposed)
    least, greatest = (summary[f"draft_totals_{end}_acceptance_length"]["avg"] for end in ("least", "greatest"))
    assert least <= 1 + accepted / steps <= greatest
    assert "spec_decode_acceptance_length" not in summary
    assert summary["spec_profile"]["reconciliation"]["agreement"] == "exact"
    assert f"{1 + accepted / steps:.2f}  (by the verify steps that the server counted" in result.stdout
    assert "--extra-inputs timings_per_token:true" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("engine", "streaming"),
    # llama.cpp has no steps in a whole body.
    [pair for pair in product(ENGINES, ("--streaming", "--no-streaming")) if pair != ("llama_cpp", "--no-streaming")],
)
@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_a_run_reports_what_the_engine_counted(
    engine: str, endpoint: str, streaming: str, simulate: Simulate, tmp_path: Path
) -> None:
    simulator = simulate(engine)
    simulator.reset_ledger()
    out = tmp_path / "run"
    result = invoke(
        *("--url", simulator.url, "--endpoint-type", endpoint, streaming, "--concurrency", "4"),
        *("--request-count", "12", "--warmup-request-count", "3", "--max-tokens", "40", "--temperature", "0"),
        *("--extra-inputs", json.dumps(ENGINES[engine]), "--artifact-dir", str(out), "--use-server-token-count"),
    )
    assert result.exit_code == 0, result.output
    entries = {entry["request_id"]: entry for entry in simulator.ledger()}
    profiled = [record for record in records(out) if record["metadata"]["benchmark_phase"] == "profiling"]
    assert len(records(out)) == len(entries) == 15
    assert len(profiled) == 12
    sums = dict.fromkeys(("steps", "accepted", "proposed"), 0)
    for record in profiled:
        entry = entries[record["metadata"]["x_request_id"]]
        acceptance = record["spec_decode_acceptance"]
        assert acceptance["engine"] == engine
        assert acceptance["num_spec_steps"] == entry["steps"]
        assert acceptance["num_accepted_draft_tokens"] == entry["accepted"]
        assert acceptance["num_draft_tokens"] == entry["proposed"]
        assert acceptance["acceptance_histogram"] == entry["histogram"]
        assert record["metrics"]["output_sequence_length"]["value"] == entry["completion_tokens"]
        assert ("time_to_first_token" in record["metrics"]) == (streaming == "--streaming")
        for name in sums:
            sums[name] += entry[name]
    summary = json.loads((out / "profile_export_aiperf.json").read_text())
    length = summary["spec_decode_token_weighted_acceptance_length"]["avg"]
    assert length == pytest.approx(1 + sums["accepted"] / sums["steps"])
    rate = summary["spec_decode_overall_draft_acceptance_rate"]["avg"]
    assert rate == pytest.approx(100 * sums["accepted"] / sums["proposed"])
    assert f"{length:.2f}" in result.stdout
    assert "12 of 12 succeeded" in result.stdout


def test_export_levels_write_their_files(simulate: Simulate, tmp_path: Path) -> None:
    written = {}
    for level in ("summary", "records", "raw"):
        out = tmp_path / level
        arguments = ("--url", simulate("vllm").url, "--request-count", "2", "--artifact-dir", str(out))
        assert invoke(*arguments, "--export-level", level).exit_code == 0
        written[level] = {path.name for path in out.iterdir()}
    summary = {"profile_export_aiperf.json", "profile_export_aiperf.csv", "config.yaml", "analysis.json"}
    summary |= {"server_metrics_export.json", "server_metrics_export.csv"}
    assert written["summary"] == summary
    assert written["records"] == summary | {"profile_export.jsonl"}
    assert written["raw"] == summary | {"profile_export.jsonl", "profile_export_raw.jsonl"}


def test_raw_holds_every_event_and_no_secret(simulate: Simulate, tmp_path: Path) -> None:
    out, key = tmp_path / "run", "sk-very-secret-key"
    result = invoke(
        *("--url", simulate("vllm").url, "--request-count", "1", "--max-tokens", "20", "--export-level", "raw"),
        *("--artifact-dir", str(out), "--api-key", key, "-H", "X-Session-Token: hush-hush", "-H", "X-Team: search"),
    )
    assert result.exit_code == 0
    raw = json.loads((out / "profile_export_raw.jsonl").read_text())
    values = [packet["value"] for response in raw["responses"] for packet in response["packets"]]
    assert values[-1] == "[DONE]"
    assert json.loads(values[0])["object"] == "chat.completion.chunk"
    assert [r["perf_ns"] for r in raw["responses"]] == sorted(r["perf_ns"] for r in raw["responses"])
    assert raw["payload"]["max_completion_tokens"] == 20
    assert raw["request_headers"]["authorization"] == "<redacted>"
    assert raw["request_headers"]["x-session-token"] == "<redacted>"
    assert raw["request_headers"]["x-team"] == "search"
    everything = result.output + "".join(path.read_text() for path in out.iterdir())
    assert key not in everything
    assert "hush-hush" not in everything


def test_the_csv_has_both_sections(simulate: Simulate, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert invoke("--url", simulate("vllm").url, "--request-count", "3", "--artifact-dir", str(out)).exit_code == 0
    rows = list(csv.reader((out / "profile_export_aiperf.csv").read_text().splitlines()))
    theirs_path = Path(__file__).parent / "aiperf" / "vllm-speedbench" / "profile_export_aiperf.csv"
    theirs = list(csv.reader(theirs_path.read_text().splitlines()))
    assert rows[0] == theirs[0]
    assert rows[rows.index([]) + 1] == ["Metric", "Value"]
    names, their_names = ({row[0] for row in table if row} for table in (rows, theirs))
    # AIPerf leaves the errors out where there are none; it has none of the others.
    assert names - their_names == {
        "Error Request Count",
        "Unsent Request Count",
        "Tokens Per Decode Step (ratio)",
        "Drafted Share (ratio)",
        "Output Token Throughput Per User at Mean ITL (tokens/sec/user)",
    }


def test_a_run_in_the_way_is_refused_before_the_first_request(simulate: Simulate, tmp_path: Path) -> None:
    simulator, out = simulate("vllm"), tmp_path / "run"
    arguments = ("--url", simulator.url, "--request-count", "1", "--artifact-dir", str(out))
    assert invoke(*arguments).exit_code == 0
    before = (out / "profile_export.jsonl").read_bytes()
    simulator.reset_ledger()
    refused = invoke(*arguments)
    assert refused.exit_code == 2
    assert "already holds a run" in refused.stderr
    assert "--overwrite" in refused.stderr
    assert simulator.ledger() == []
    assert (out / "profile_export.jsonl").read_bytes() == before
    assert invoke(*arguments, "--overwrite").exit_code == 0
    assert (out / "profile_export.jsonl").read_bytes() != before


def test_a_folder_that_is_a_file_is_refused(simulate: Simulate, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    result = invoke("--url", simulate("vllm").url, "--artifact-dir", str(tmp_path / "file"))
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


def test_the_default_folder_says_what_ran(simulate: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert invoke("--url", simulate("vllm").url, "--request-count", "1").exit_code == 0
    folders = list((tmp_path / "artifacts").iterdir())
    assert len(folders) == 2
    assert all("Z-simulated-model-chat-c1" in folder.name for folder in folders)


def test_the_model_is_found_or_asked_for(simulate: Simulate, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert invoke("--url", simulate("vllm").url, "--request-count", "1", "--artifact-dir", str(out)).exit_code == 0
    summary = json.loads((out / "profile_export_aiperf.json").read_text())
    assert summary["input_config"]["models"]["items"] == [{"name": "simulated-model"}]
    missing = invoke("--url", f"http://127.0.0.1:{closed_port()}")
    assert missing.exit_code == 1
    assert "Connection refused" in missing.stderr
    assert "--url names its port" in missing.stderr


def test_nothing_succeeded_is_exit_1_without_figures(tmp_path: Path) -> None:
    out = tmp_path / "run"
    url = f"http://127.0.0.1:{closed_port()}"
    asked = ("--url", url, "--model", "m", "--request-count", "4", "--artifact-dir", str(out))
    result = invoke(*asked, "--keep-going")
    assert result.exit_code == 1
    assert "0 of 4 succeeded" in result.stdout
    assert "connect" in result.stdout
    assert "Latency" not in result.stdout
    summary = json.loads((out / "profile_export_aiperf.json").read_text())
    assert summary["error_request_count"]["avg"] == 4
    assert summary["error_summary"][0]["count"] == 4
    assert "request_latency" not in summary


def test_no_acceptance_says_why_for_the_engine(simulate: Simulate, tmp_path: Path) -> None:
    vllm = invoke(
        "--url", simulate("vllm", level="none").url, "--request-count", "2", "--artifact-dir", str(tmp_path / "a")
    )
    assert "--per-request-spec-decode-metrics" in vllm.stderr
    assert "SGLang" not in vllm.stderr
    assert "0 of 2 successful requests reported acceptance" in vllm.stdout
    sglang = invoke("--url", simulate("sglang").url, "--request-count", "2", "--artifact-dir", str(tmp_path / "b"))
    assert "return_spec_tokens_details:true" in sglang.stderr
    off = invoke(
        *("--url", simulate("vllm").url, "--request-count", "2", "--artifact-dir", str(tmp_path / "c")),
        *("--extra-inputs", '{"stream_options": {"include_usage": false}}'),
    )
    assert "include_usage is off" in off.stderr
    assert "absent" in off.stdout


def test_several_sequences_have_no_record(simulate: Simulate, tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = invoke(
        *("--url", simulate("vllm").url, "--endpoint-type", "completions", "--batch-size-text", "5"),
        *("--artifact-dir", str(out), "--max-tokens", "10"),
    )
    assert result.exit_code == 0, result.output
    assert {record["spec_decode_drop_reason"] for record in records(out)} == {"multi_sequence"}
    # 35 built-in prompts, five a request.
    assert len(records(out)) == 7
    assert "multi_sequence" in result.stdout


def test_one_file_serves_both_endpoints(simulate: Simulate, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    rows: list[dict[str, Any]] = [
        {"text": "Count to ten.", "category": "math"},
        {"prompt": "Say hello."},
        {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]},
    ]
    prompts.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    sent = {}
    for endpoint in ("chat", "completions"):
        out = tmp_path / endpoint
        arguments = ("--url", simulate("vllm").url, "--endpoint-type", endpoint, "--input-file", str(prompts))
        assert invoke(*arguments, "--artifact-dir", str(out), "--export-level", "raw").exit_code == 0
        lines = (out / "profile_export_raw.jsonl").read_text().splitlines()
        sent[endpoint] = [json.loads(line)["payload"] for line in lines]
    assert [body["messages"][-1]["content"] for body in sent["chat"]] == ["Count to ten.", "Say hello.", "Why?"]
    assert [body["prompt"] for body in sent["completions"]] == ["Count to ten.", "Say hello.", "Be brief.\n\nWhy?"]


def test_a_dry_run_sends_nothing(simulate: Simulate) -> None:
    simulator = simulate("vllm")
    simulator.reset_ledger()
    result = invoke(
        *("--url", f"{simulator.url}/v1/", "--model", "m", "--dry-run", "--api-key", "sk-very-secret-key"),
        *("--extra-inputs", "ignore_eos:true,top_p:0.5", "--max-tokens", "7"),
    )
    assert result.exit_code == 0
    head, _, body = result.stdout.partition("\n\n")
    assert head.splitlines()[0] == f"POST {simulator.url}/v1/chat/completions"
    assert "authorization: <redacted>" in head
    parsed = json.loads(body)
    assert parsed["ignore_eos"] is True
    assert parsed["top_p"] == 0.5
    assert parsed["max_completion_tokens"] == 7
    assert parsed["stream_options"] == {"include_usage": True}
    assert "sk-very-secret-key" not in result.output
    assert simulator.ledger() == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--url is missing"),
        (("--url", "ftp://host"), "ftp"),
        (("--url", "http://host:99999"), "99999"),
        (("--url", "x", "--concurrency", "0"), "--concurrency 0"),
        (("--url", "x", "--request-count", "-1"), "--request-count -1"),
        (("--url", "x", "--temperature", "-1"), "--temperature -1"),
        (("--url", "x", "--batch-size-text", "2"), "--endpoint-type completions"),
        (("--url", "x", "--extra-inputs", "nonsense"), "nonsense"),
        (("--url", "x", "--extra-inputs", "stream:false"), "--no-streaming"),
        (("--url", "x", "--header", "nonsense"), "Name: value"),
        (("--url", "x/v1/completions", "--endpoint-type", "chat"), "completions"),
        (("--url", "x", "--model", "m", "--input-file", "/does/not/exist"), "/does/not/exist"),
    ],
)
def test_bad_options_are_named(arguments: tuple[str, ...], said: str) -> None:
    result = invoke("--rows", "1", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.output


def test_waiting_for_a_server_ends(tmp_path: Path) -> None:
    start = time.monotonic()
    url = f"http://127.0.0.1:{closed_port()}"
    result = invoke("--url", url, "--model", "m", "--ready-timeout", "0.8", "--artifact-dir", str(tmp_path / "run"))
    assert result.exit_code == 1
    assert "--ready-timeout" in result.stderr
    # It waited, and ended, though no server ever came.
    assert time.monotonic() - start > 0.4


def test_adapters_and_version() -> None:
    listed = invoke("adapters")
    names = [line.split()[0] for line in listed.stdout.splitlines()[3:] if line[:1].strip()]
    assert names == [adapter.name for adapter in BUILT_IN]
    assert {*ENGINES} < {*names}
    assert "built in, provisional: pull request 34814" in " ".join(listed.stdout.split())
    assert invoke("--version").stdout.startswith("spec-profile ")


def test_demo_compares_every_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke("demo", "--requests", "4", "--concurrency", "2")
    assert result.exit_code == 0, result.output
    tail = result.stdout[result.stdout.index("Runs side by side") :]
    rows = [line for line in tail.splitlines()[4:] if line[:1].strip()]
    assert [line.split()[0] for line in rows] == [*ENGINES]


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from aiperf_spec.cli.app import app; "
        "heavy = {'httpx', 'aiohttp', 'pydantic', 'orjson', 'uvloop', 'yaml'} & set(sys.modules); print(sorted(heavy))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
