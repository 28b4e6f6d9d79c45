"""A real vLLM server in a process of its own, for the tests that only an engine can answer."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODEL = "tinycode"
_PORTS = range(8120, 8140)
_START_SECONDS = 240.0
_STOP_SECONDS = 20.0
_COUNTER = re.compile(r"^vllm:(spec_decode_num_\w+?|request_success)_total\{(.*)\} (\S+)$", re.M)


@dataclass(frozen=True)
class Setup:
    """How a server is started; tests with the same setup share one."""

    drafter: str = "ngram"
    k: int = 5
    level: str = "detailed"
    options: tuple[str, ...] = ()


class Engine:
    """Answer what a test asks of the running server, by means that are not the program's own."""

    def __init__(self, python: Path, models: Path, setup: Setup, log: Path) -> None:
        self.setup = setup
        self._port = free_port()
        self._command = [str(python), "-m", "vllm.entrypoints.openai.api_server", *_arguments(models, setup)]
        self._command += ["--port", str(self._port)]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
        environment |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=2):
                    return
            except OSError:
                time.sleep(0.5)
        tail = self._log.read_bytes()[-2000:].decode(errors="replace")
        self.stop()
        raise RuntimeError(f"vLLM did not start: {' '.join(self._command)}\n{tail}")

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Send a signal to the server and its engine core, and wait until both are gone."""
        process, self._process = self._process, None
        if process is None:
            return
        for each in (number, signal.SIGKILL):
            try:
                os.killpg(process.pid, each)
            except ProcessLookupError:
                break
            try:
                process.wait(timeout=_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                continue
        process.wait(timeout=_STOP_SECONDS)

    def ask(self, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        """Send a request and return the events of its stream, or its body as one; errors too."""
        data = json.dumps({"model": MODEL, **body}).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode()
        if not text.startswith("data:"):
            return [json.loads(text)]
        lines = (line[6:] for line in text.split("\n") if line.startswith("data: "))
        return [json.loads(line) for line in lines if line != "[DONE]"]

    def counters(self) -> Counter[str]:
        """Return the counters of speculation and of finished requests, once they stand still."""
        before: Counter[str] | None = None
        for _ in range(100):
            with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
                text = answer.read().decode()
            now: Counter[str] = Counter()
            for name, labels, value in _COUNTER.findall(text):
                position = re.search(r'position="(\d+)"', labels)
                now[name + (f"[{position[1]}]" if position else "")] += round(float(value))
            busy = re.search(r"^vllm:num_requests_running\{.*\} [^0\n].*$", text, re.M)
            if now == before and not busy:
                return now
            before = now
            time.sleep(0.2)
        raise RuntimeError("the server's counters do not come to rest")


def _arguments(models: Path, setup: Setup) -> Iterator[str]:
    yield from ("--model", str(models / MODEL), "--served-model-name", MODEL, "--host", "127.0.0.1")
    yield from ("--max-model-len", "2048", "--enforce-eager", "--dtype", "bfloat16", "--max-num-seqs", "64")
    drafter: dict[str, Any] = {"method": "ngram", "prompt_lookup_min": 1, "prompt_lookup_max": 4}
    if setup.drafter == "draft":
        drafter = {"method": "draft_model", "model": str(models / f"{MODEL}-draft")}
    yield from ("--speculative-config", json.dumps({**drafter, "num_speculative_tokens": setup.k}))
    yield from ("--per-request-spec-decode-metrics", setup.level)
    yield from setup.options


def free_port() -> int:
    for port in _PORTS:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no port of {_PORTS.start} to {_PORTS.stop - 1} is free")


@contextmanager
def counted(engine: Engine) -> Iterator[Counter[str]]:
    """Fill the counter that is yielded with how much the server's counters grew within the block."""
    before, grown = engine.counters(), Counter[str]()
    yield grown
    after = engine.counters()
    grown.update({name: after[name] - before[name] for name in after})
