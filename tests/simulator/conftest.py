from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import orjson
import pytest

from aiperf_spec.simulator import RunningSimulator, SimulatorConfig, start

Serve = Callable[..., Awaitable[RunningSimulator]]
Ask = Callable[..., Awaitable[tuple[int, bytes]]]

# Steps without a wait keep the tests quick; what depends on time says so itself.
QUICK: dict[str, Any] = {"step_time_ms": 0.0, "prefill_time_ms": 0.0, "model": "m"}


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start servers that end with the test."""
    running: list[RunningSimulator] = []

    async def begin(engine: str, **settings: Any) -> RunningSimulator:
        values: dict[str, Any] = QUICK | settings | {"engine": engine}
        running.append(await start(SimulatorConfig(**values)))
        return running[-1]

    yield begin
    for server in running:
        await server.stop()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """Give a client without a limit on its connections."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        yield client


@pytest.fixture
def ask(session: aiohttp.ClientSession) -> Ask:
    """Send a request and return the status and the bytes of the answer."""

    async def send(server: RunningSimulator, endpoint: str = "chat", **body: Any) -> tuple[int, bytes]:
        path = "/v1/chat/completions" if endpoint == "chat" else "/v1/completions"
        prompt = body.pop("text", "Write a poem about rivers.")
        if endpoint == "chat" and "messages" not in body:
            body["messages"] = [{"role": "user", "content": prompt}]
        elif endpoint == "completions" and "prompt" not in body:
            body["prompt"] = prompt
        async with session.post(server.url + path, data=orjson.dumps({"model": "m"} | body)) as response:
            return response.status, await response.read()

    return send


@pytest.fixture
def events() -> Callable[[bytes], list[dict[str, Any]]]:
    """Read the objects of an event stream, which has to end with its end mark."""

    def read(stream: bytes) -> list[dict[str, Any]]:
        lines = [line for line in stream.replace(b"\r\n", b"\n").split(b"\n") if line.startswith(b"data: ")]
        assert lines[-1] == b"data: [DONE]"
        return [orjson.loads(line[6:]) for line in lines[:-1]]

    return read
