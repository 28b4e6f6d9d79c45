"""Install the example plug-in into an environment of its own and profile a server of its engine with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.answering import in_a_thread

EXAMPLE = Path(__file__).parent.parent / "examples" / "custom_adapter"
BODY = {
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 11, "total_tokens": 14},
    "acme": {"speculation": {"verify_steps": 4, "drafted": 12, "kept_per_step": [3, 0, 1, 2]}},
}


class AcmeServer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.answer({"object": "list", "data": [{"id": "acme-1", "owned_by": "acme"}]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.answer(BODY)

    def answer(self, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def acme_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), AcmeServer)
    with in_a_thread(server):
        yield f"http://127.0.0.1:{server.server_address[1]}"


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


def test_a_run_reads_its_engine(site: Path, acme_url: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = ("--url", acme_url, "--no-streaming", "--request-count", "2", "--artifact-dir", str(out))
    ran = spec_profile(site, *arguments)
    assert ran.returncode == 0, ran.stderr
    records = [json.loads(line) for line in (out / "profile_export.jsonl").read_text().splitlines()]
    assert len(records) == 2
    for record in records:
        assert record["spec_decode_acceptance"]["engine"] == "acme"
        assert record["spec_decode_acceptance"]["mean_acceptance_length"] == 2.5
        assert record["spec_decode_acceptance"]["acceptance_histogram"] == {"0": 1, "1": 1, "2": 1, "3": 1}
    without = spec_profile(site, *arguments, "--overwrite", SPEC_PROFILE_PLUGINS="0")
    assert without.returncode == 0, without.stderr
    assert "no response reported" in without.stderr
