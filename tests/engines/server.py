"""A real engine in a process of its own: its example's script starts it, and nothing of the program asks it."""

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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MODEL = "tiny"
"""What every example calls the model that it serves."""
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
_START_SECONDS = 240.0
_STOP_SECONDS = 20.0


@dataclass(frozen=True)
class Setup:
    """How a server is started; tests with the same setup share one."""

    drafter: str
    """"ngram", "draft" for the draft model beside the model, or where the engine takes one, the path of another."""
    k: int
    options: tuple[str, ...] = ()
    """More options of the engine's own."""


NO_DRAFTER = Setup("none", 0)
"""A server without speculation."""


@dataclass(frozen=True)
class Engine:
    """What tests have to know of an engine, to start it and to read what it says."""

    name: str
    """The adapter's name."""
    example: str
    """The folder of its `serve.sh`."""
    setup: Setup
    """How it is started where a test does not care."""
    other_drafter: Setup
    place: Callable[[], Mapping[str, str]]
    """Returns the environment for which its script installs nothing; skips the test where the engine is not there."""
    arguments: Callable[[Setup], list[str]]
    """Returns the engine's options for a setup."""
    counted: Callable[[str], Counter[str]]
    """Returns the speculation counters of a page, under vLLM's names without the prefix."""
    idle: Callable[[str], bool]
    """Says whether a page shows no request in flight."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """What a request asks for to have its acceptance reported."""
    bodies_report: bool = True
    """Whether a body that is no stream brings a record."""
    still_seconds: float = 0.2
    """How long its counters have to stay the same: where `idle` cannot tell, longer than its slowest step."""
    uncounted: tuple[str, ...] = ()
    """How the names of those counters begin that it does not have."""
    times_itself: bool = True
    """Whether its responses bring its own timing."""
    stopped_report: bool = True
    """Whether a request that a stop string ended brings a record."""
    too_long: str = ""
    """What it says of a prompt that does not fit."""
    what_if_error: Mapping[str, float] = field(default_factory=dict)
    """How far an estimate of shorter drafts may be off, by drafter."""
    shortest_draft: Mapping[str, int] = field(default_factory=dict)
    """Below which draft length a drafter drafts nothing, where that is not 1."""
    reasoning: Callable[[Path], Setup] | None = None
    """Returns how it is started for all its answers to be reasoning; may write a model into a folder."""
    tools: Callable[[Path], Setup] | None = None
    """Returns how it is started to be held to a call of a tool by a grammar; may write a file into a folder."""


class Server:
    """Start, ask and stop an engine's server."""

    def __init__(self, engine: Engine, setup: Setup, folder: Path) -> None:
        self.engine = engine
        self.setup = setup
        self.log = folder / "server.log"
        self._port = free_port()
        script = EXAMPLES / engine.example / "serve.sh"
        self._environment = {**os.environ, **engine.place()}
        home = self._environment.pop("FOLDER", str(folder))
        self._command = ["sh", str(script), home, str(self._port), *engine.arguments(setup)]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=self._environment, start_new_session=True
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
                time.sleep(0.2)
        tail = self.log.read_bytes()[-2000:].decode(errors="replace")
        self.stop()
        raise RuntimeError(f"{self.engine.name} did not start: {' '.join(self._command)}\n{tail}")

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Send a signal to the server and its children, and wait until all are gone."""
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

    def page(self) -> str:
        """Return the server's metrics."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    def counters(self) -> Counter[str]:
        """Return the counters of speculation, once they stand still."""
        before: Counter[str] | None = None
        for _ in range(100):
            page = self.page()
            now = self.engine.counted(page)
            if now == before and self.engine.idle(page):
                return now
            before = now
            time.sleep(self.engine.still_seconds)
        raise RuntimeError("the server's counters do not come to rest")


def counters_of(page: str, prefix: str) -> Counter[str]:
    """Return the counters `<prefix>spec_decode_num_..._total` of a page, summed over all labels but the position."""
    found: Counter[str] = Counter()
    for name, labels, value in re.findall(rf"^{prefix}(spec_decode_num_\w+?)_total(\{{.*\}})? (\S+)$", page, re.M):
        position = re.search(r'position="(\d+)"', labels)
        found[name + (f"[{position[1]}]" if position else "")] += round(float(value))
    return found


def place(variable: str, what: str, part: str = "") -> Path:
    """Return the path that a variable of the environment holds; skip the test where it is not there."""
    import pytest

    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} does not say where {what}")
    path = Path(value).expanduser().absolute()
    if not (path / part).exists():
        pytest.skip(f"{variable}={value}: {path / part} does not exist")
    return path


def free_port() -> int:
    """Return a port that nobody has: of those that the system gives out, so that no other tests choose it meanwhile."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def counted(server: Server) -> Iterator[Counter[str]]:
    """Fill the counter that is yielded with how much the server's counters grew within the block."""
    before, grown = server.counters(), Counter[str]()
    yield grown
    after = server.counters()
    grown.update({name: after[name] - before[name] for name in after if after[name] != before[name]})
