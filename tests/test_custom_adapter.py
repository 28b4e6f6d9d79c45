"""Install the example plug-in into an environment of its own and use the program with it on a server of its engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.answering import in_a_thread

EXAMPLE = Path(__file__).parent.parent / "examples" / "custom_adapter"
BODY = {
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 11, "total_tokens": 14},
}
KEPT = [3, 0, 1, 2]
REPORT = {
    "speculation": {"verify_steps": len(KEPT), "draft_length": 3, "kept_per_step": KEPT},
    "timing": {"queued_ms": 2.5},
}


class AcmeServer(ThreadingHTTPServer):
    """Serve Acme's API, version and counters; without `reports`, as it does when it is not told to report."""

    def __init__(self, reports: bool, owner: str) -> None:
        super().__init__(("127.0.0.1", 0), AcmeHandler)
        self.models = {"object": "list", "data": [{"id": "acme-1", "owned_by": owner}]}
        self.body = {**BODY, "acme": REPORT} if reports else BODY
        self.answered = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def counters(self) -> str:
        each = {"verify_steps": len(KEPT), "drafted_tokens": 3 * len(KEPT), "kept_tokens": sum(KEPT), "requests": 1}
        lines = []
        for name, value in each.items():
            # Other clients' traffic before ours is no growth.
            lines += [f"# TYPE acme_{name}_total counter", f"acme_{name}_total {(100 + self.answered) * value}"]
        return "\n".join(lines) + "\n"


class AcmeHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: AcmeServer

    def do_GET(self) -> None:
        answers = {"/v1/models": self.server.models, "/about": {"version": "2.1.7"}}
        if self.path == "/acme/metrics":
            self.answer(200, "text/plain; version=0.0.4", self.server.counters())
        else:
            found = answers.get(self.path)
            self.answer(404 if found is None else 200, "application/json", json.dumps(found))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.answered += 1
        self.answer(200, "application/json", json.dumps(self.server.body))

    def answer(self, status: int, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def acme() -> Iterator[Callable[..., AcmeServer]]:
    with ExitStack() as stack:

        def serve(*, reports: bool = True, owner: str = "acme-inc") -> AcmeServer:
            server = AcmeServer(reports, owner)
            stack.enter_context(in_a_thread(server))
            return server

        yield serve


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the example, and nothing else, into a folder for PYTHONPATH: our own environment stays as it is."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--no-build-isolation", "--target", str(folder), str(EXAMPLE)], check=True)
    return folder


def spec_profile(site: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    script = Path(sysconfig.get_path("scripts")) / "spec-profile"
    env = {**os.environ, "PYTHONPATH": str(site), "COLUMNS": "140", **environment}
    return subprocess.run([str(script), *arguments], env=env, capture_output=True, text=True, timeout=60, check=False)


def test_the_plug_in_is_listed_with_its_distribution(site: Path) -> None:
    listed = spec_profile(site, "adapters")
    assert listed.returncode == 0, listed.stderr
    row = next(line for line in listed.stdout.splitlines() if line.startswith("acme"))
    assert row.split() == ["acme", "acme.speculation", "acme-engine-adapter"]
    without = spec_profile(site, "adapters", SPEC_PROFILE_PLUGINS="0")
    assert "acme" not in without.stdout


def test_a_run_reads_its_engine(site: Path, acme: Callable[..., AcmeServer], tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = ("--url", acme().url, "--no-streaming", "--request-count", "6", "--artifact-dir", str(out))
    ran = spec_profile(site, *arguments)
    assert ran.returncode == 0, ran.stderr
    records = [json.loads(line) for line in (out / "profile_export.jsonl").read_text().splitlines()]
    assert len(records) == 6
    for record in records:
        assert record["spec_decode_acceptance"]["engine"] == "acme"
        assert record["spec_decode_acceptance"]["mean_acceptance_length"] == 2.5
        assert record["spec_decode_acceptance"]["acceptance_histogram"] == {"0": 1, "1": 1, "2": 1, "3": 1}
        assert record["metrics"]["server_queue_time"] == {"value": 2.5, "unit": "ms"}
    assert "6 of 6 succeeded and reported; the server's counters agree" in ran.stdout
    counted = json.loads((out / "server_metrics_export.json").read_text())["spec_profile"]["reconciliation"]
    assert [(count["metric"], count["server"]) for count in counted["counts"]] == [
        ("acme_verify_steps", 24),
        ("acme_drafted_tokens", 72),
        ("acme_kept_tokens", 36),
    ]
    assert counted["server_requests"] == 6
    modelled = json.loads((out / "analysis.json").read_text())["run"]["what_if"]
    assert [each["k"] for each in modelled["lengths"]] == [1, 2, 3]

    matrix = spec_profile(site, "report", str(out), "--source", "server-metrics", "--format", "json")
    assert matrix.returncode == 0, matrix.stderr
    assert "2.5" in matrix.stdout

    without = spec_profile(site, *arguments, "--overwrite", SPEC_PROFILE_PLUGINS="0")
    assert without.returncode == 0, without.stderr
    assert "no response reported" in without.stderr
    assert "Acme" not in without.stderr


def test_a_run_and_doctor_say_how_its_reporting_is_switched_on(
    site: Path, acme: Callable[..., AcmeServer], tmp_path: Path
) -> None:
    server = acme(reports=False)
    arguments = ("--no-streaming", "--request-count", "2", "--artifact-dir", str(tmp_path / "run"))
    ran = spec_profile(site, "--url", server.url, *arguments)
    assert "- start Acme with --report-speculation\n" in ran.stderr
    assert "vLLM" not in ran.stderr
    said = spec_profile(site, "doctor", "--url", server.url)
    assert said.returncode == 1
    assert f"Acme 2.1.7 at {server.url}/v1" in said.stdout
    assert "on, by the server's own counters" in said.stdout
    assert "- start Acme with --report-speculation" in said.stdout
    assert "--drafter" not in said.stdout
    reporting = spec_profile(site, "doctor", "--url", acme().url)
    assert reporting.returncode == 0, reporting.stdout
    assert "on: 4 verify steps, 6 of 12 drafts accepted, k 3" in reporting.stdout
    assert "Nothing to change" in reporting.stdout


def test_a_server_that_does_not_say_what_it_is_may_be_acme(site: Path, acme: Callable[..., AcmeServer]) -> None:
    said = spec_profile(site, "doctor", "--url", acme(reports=False, owner="someone").url)
    assert "an unknown engine (owned_by someone)" in said.stdout
    assert "where it is vLLM: start vLLM with" in said.stdout
    assert "where it is Acme: start Acme with --report-speculation" in said.stdout
