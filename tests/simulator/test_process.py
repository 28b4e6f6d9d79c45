from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from aiperf_spec.simulator import SimulatorConfig, SimulatorProcess, process, start
from aiperf_spec.simulator.faults import breaking
from tests.waiting import PATIENCE_SECONDS, happens, wait_until

ROOT = str(Path(__file__).parents[2])
ENVIRONMENT = os.environ | {"PYTHONPATH": ROOT}


def post(url: str, **body: Any) -> bytes:
    """Send one completion request."""
    data = json.dumps({"prompt": "x", "max_tokens": 4, "ignore_eos": True} | body).encode()
    request = urllib.request.Request(f"{url}/v1/completions", data=data)
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as response:
        return bytes(response.read())


def answers(url: str) -> bool:
    """Say whether something listens at a URL."""
    host, port = url.removeprefix("http://").rsplit(":", 1)
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


@pytest.fixture
def _force_is_far_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a child end by itself, however long that takes."""
    monkeypatch.setattr(process, "STOP_TIMEOUT_S", PATIENCE_SECONDS)


def ended_by_itself(server: SimulatorProcess) -> bool:
    """Stop a server; say whether its child ended without force."""
    child = server._process
    assert child is not None
    server.stop()
    return child.returncode == 0


@pytest.mark.usefixtures("_force_is_far_away")
def test_start_ask_stop() -> None:
    with SimulatorProcess(SimulatorConfig("tensorrt_llm", seed=2)) as server:
        assert json.loads(post(server.url))["usage"]["completion_tokens"] == 4
        assert [entry["completion_tokens"] for entry in server.ledger()] == [4]
        server.reset_ledger()
        assert server.ledger() == []
        assert ended_by_itself(server)
        assert not answers(server.url)


@pytest.mark.usefixtures("_force_is_far_away")
def test_stop_while_a_response_stalls() -> None:
    with SimulatorProcess(SimulatorConfig("vllm", faults=(("stall", 1.0),))) as server:
        host, port = server.url.removeprefix("http://").rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as client:
            data = b'{"prompt":"x","stream":true}'
            client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 28\r\n\r\n" + data)
            assert client.recv(100).startswith(b"HTTP/1.1 200 OK")
            assert ended_by_itself(server)


def test_a_child_that_lingers_is_ended_by_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "STOP_TIMEOUT_S", 0.0)
    with SimulatorProcess(SimulatorConfig("vllm")) as server:
        child = server._process
        assert child is not None
        os.kill(child.pid, signal.SIGSTOP)
    assert child.returncode == -signal.SIGKILL
    assert not answers(server.url)


def test_a_reset_is_one_under_uvloop_too() -> None:
    with SimulatorProcess(SimulatorConfig("vllm", faults=(("reset_before_headers", 1.0),))) as server:
        with pytest.raises(ConnectionResetError):
            post(server.url)
        assert [entry["fault"] for entry in server.ledger()] == ["reset_before_headers"]


def test_refusing_works_under_uvloop_too(monkeypatch: pytest.MonkeyPatch) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def ask_twice(seconds: float) -> None:
        monkeypatch.setattr(breaking, "REFUSING_S", seconds)
        async with await start(SimulatorConfig("vllm", faults=(("connection_refused", 1.0),))) as server:
            with pytest.raises(OSError, match=r".") as caught:
                await asyncio.to_thread(post, server.url)
            assert not isinstance(caught.value, ConnectionRefusedError)
            if seconds > PATIENCE_SECONDS:
                assert not answers(server.url)
            else:
                await happens(lambda: answers(server.url), "the listener's return")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(ask_twice(3600))
        runner.run(ask_twice(0.05))


def test_a_server_that_cannot_start_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = SimulatorProcess(SimulatorConfig("vllm", port=taken.getsockname()[1]))
        with pytest.raises(RuntimeError, match="did not come up"):
            server.start()
    assert "cannot start the simulator" in capfd.readouterr().err


def test_the_child_dies_with_its_parent() -> None:
    code = (
        "import os\n"
        "from aiperf_spec.simulator import SimulatorConfig, SimulatorProcess\n"
        "server = SimulatorProcess(SimulatorConfig('vllm'))\n"
        "server.start()\n"
        "print(server.url, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT)
    url = done.stdout.strip()
    assert url.startswith("http://")
    wait_until(lambda: not answers(url), "the child's end")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_ends_cleanly_on_a_signal(number: signal.Signals) -> None:
    code = (
        "from aiperf_spec.simulator import SimulatorConfig, run\n"
        "run(SimulatorConfig('sglang'), lambda url: print(url, flush=True))\n"
        "print('ended')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline().startswith(b"http://")
        child.send_signal(number)
        assert child.wait(PATIENCE_SECONDS) == 0
        assert child.stdout.read() == b"ended\n"
        assert child.stderr.read() == b""


@pytest.mark.parametrize("arguments", [[], ["{"], ['{"engine": "other"}']])
def test_bad_arguments_of_the_module(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "aiperf_spec.simulator", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
