"""Cases of the command itself, in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from aiperf_spec.client.proxies import proxy_for
from aiperf_spec.config.server_url import split_endpoint
from aiperf_spec.metrics.table import RECORD_METRICS
from tests.public_cases.cases import CASES, Case
from tests.public_cases.running import json_lines, strict_json
from tests.public_cases.stub import serving
from tests.waiting import PATIENCE_SECONDS, lines_of, wait_until

_PROXY_NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def _command(url: str, folder: Path, *options: str) -> list[str]:
    command = [sys.executable, "-X", "dev", "-m", "aiperf_spec", "--url", url, "--model", "m"]
    return [*command, "--artifact-dir", str(folder), "--export-level", "raw", *options]


def _environment(**more: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name.lower() not in _PROXY_NAMES}
    return own | {"COLUMNS": "160", "PYTHONPATH": str(Path(__file__).parents[2])} | more


def _run(url: str, folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        _command(url, folder, *options),
        env=_environment(**environment),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    _check_clean(done.stdout, done.stderr)
    return done


def _check_clean(stdout: str, stderr: str) -> None:
    for text in (stdout, stderr):
        assert "Traceback" not in text, text
        assert "Warning:" not in text, text
    assert not re.search(r"\b(nan|inf|infinity)\b", stdout, re.IGNORECASE), stdout


def _check_success(case: Case, done: subprocess.CompletedProcess[str], folder: Path) -> None:
    assert done.returncode == 0, done.stderr
    assert "1 of 1 succeeded" in done.stdout
    (line,) = json_lines(folder / "profile_export.jsonl")
    metrics: dict[str, Any] = line["metrics"]
    assert "error" not in line
    assert metrics["output_sequence_length"]["value"] == case.expect["output_tokens"]
    assert len(metrics["inter_chunk_latency"]["value"]) + 1 == case.expect["content_chunks"]
    (raw,) = json_lines(folder / "profile_export_raw.jsonl")
    data = [packet["value"] for response in raw["responses"] for packet in response["packets"]]
    deltas = [choice["delta"] for text in data if text != "[DONE]" for choice in strict_json(text)["choices"]]
    assert "".join(delta.get("content", "") for delta in deltas) == case.expect["text"]
    assert strict_json((folder / "profile_export_aiperf.json").read_text())["request_count"]["avg"] == 1


def proxy_variables(case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(case.script) as stub:
        _check_success(case, _run(stub.url, folder / "a", "--request-count", "1", **case.script["env"]), folder / "a")
        # Nothing listens there: a run that took the proxy would fail. Loopback never goes through one.
        proxy = "http://127.0.0.1:9"
        for name, environment in (("b", {}), ("c", case.script["env"])):
            environment = environment | {"HTTP_PROXY": proxy, "http_proxy": proxy}
            done = _run(stub.url, folder / name, "--request-count", "1", **environment)
            _check_success(case, done, folder / name)
            assert "went through the proxy" not in done.stderr
    # An entry that cannot be read matches nothing, and one that can does what it says.
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("no_proxy", "fe11::/16,::1/129,10.0.0.0/99,not a host,10.1.0.0/16")
    assert proxy_for(split_endpoint("http://10.0.0.1:8000")) == proxy
    assert proxy_for(split_endpoint("http://[fe11::1]:8000")) is None
    assert proxy_for(split_endpoint("http://10.1.2.3:8000")) is None


def base_urls(case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reach(number: int) -> None:
        with serving(case.script) as stub:
            url = ("http://{}", "http://{}/", "http://{}/v1", "http://{}/v1/", "{}", "{}/v1")[number]
            done = _run(url.format(stub.host), folder / str(number), "--request-count", "1")
            _check_success(case, done, folder / str(number))
            assert [asked.path for asked in stub.posts] == ["/v1/chat/completions"]
            gets = {asked.path for asked in stub.asked if asked.method == "GET"}
            assert gets == {"/v1/models", "/metrics", "/prometheus/metrics"}

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(reach, range(6)))


def all_failed(case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    done = _run(f"http://127.0.0.1:{port}", folder / "a", "--request-count", "4", "--keep-going")
    assert done.returncode == 1
    assert "0 of 4 succeeded, 4 failed" in done.stdout
    assert re.search(r"^ConnectError +4 +no connection: .*127\.0\.0\.1", done.stdout, re.MULTILINE)
    # How late the client was itself is said even then.
    shown = re.sub(r"^Client lag .*$", "", done.stdout, flags=re.MULTILINE)
    for text in ("0.00", "TTFT", "ITL", "Request latency", "Acceptance length", "Duration", "Throughput"):
        assert text not in shown
    document = strict_json((folder / "a" / "profile_export_aiperf.json").read_text())
    assert document["request_count"]["avg"] == 0
    assert document["error_request_count"]["avg"] == 4
    assert [metric.tag for metric in RECORD_METRICS if document.get(metric.tag) is not None] == []
    assert document.get("request_throughput") is None
    assert document.get("benchmark_duration") is None
    lines = json_lines(folder / "a" / "profile_export.jsonl")
    assert [(line["metrics"], line["error"]["type"]) for line in lines] == [({}, "ConnectError")] * 4


def interrupted(case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = case.request
    options = ("--request-count", str(asked["requests"]), "--concurrency", str(asked["concurrency"]))
    records = folder / "a" / "profile_export.jsonl"
    with serving(case.script) as stub:
        process = subprocess.Popen(
            _command(stub.url, folder / "a", *options),
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        with process:
            # The other two are never answered: a client that waited for them would not end.
            wait_until(lambda: len(stub.posts) == 6 and lines_of(records) == 4, "four records", process)
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    _check_clean(stdout, stderr)
    assert "4 of 6 succeeded, 2 cancelled (stopped early by SIGINT)" in stdout
    assert re.search(r"^TTFT \(ms\) +4 ", stdout, re.MULTILINE)
    lines = json_lines(records)
    assert [line["metadata"]["was_cancelled"] for line in lines] == [False] * 4 + [True] * 2
    assert [line["metrics"] == {} for line in lines] == [False] * 4 + [True] * 2
    document = strict_json((folder / "a" / "profile_export_aiperf.json").read_text())
    assert document["was_cancelled"] is True
    assert document["request_count"]["avg"] == document["time_to_first_token"]["count"] == 4
    assert document["spec_profile"]["requests"]["cancelled"] == 2


CHECKS: dict[str, Callable[[Case, Path, pytest.MonkeyPatch], None]] = {
    "encode/httpx#3221": proxy_variables,
    "ai-dynamo/aiperf#349": base_urls,
    "pytorch/pytorch#172616": all_failed,
    "vllm-project/guidellm#227": interrupted,
}


@pytest.mark.parametrize("case_id", CHECKS)
def test_case(case_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    CHECKS[case_id](CASES[case_id], tmp_path, monkeypatch)
