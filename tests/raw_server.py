"""A server of bytes: it sends what a test tells it to, whether that is HTTP or not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from aiperf_spec.client.connection import Connection
from tests.waiting import happens


@dataclass(slots=True)
class Call:
    """One request as it came: its number over all connections and on its own connection, both from 0."""

    number: int
    on_connection: int
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class RawServer:
    """What a running server has seen."""

    port: int
    calls: list[Call] = field(default_factory=list)
    connections: int = 0
    open_connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def posts(self) -> list[Call]:
        return [call for call in self.calls if call.method == "POST"]


Respond = Callable[[Call, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(respond: Respond) -> AsyncIterator[RawServer]:
    """Serve on a free port of the loopback until the block ends; `respond` answers each POST, GETs get a 404."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        server.connections += 1
        server.open_connections += 1
        try:
            on_connection = 0
            while not writer.is_closing() and (call := await _read(reader, len(server.calls), on_connection)):
                on_connection += 1
                server.calls.append(call)
                if call.method == "GET":
                    await send(writer, head(404, "Not Found", {"content-length": "0"}))
                else:
                    await respond(call, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            server.open_connections -= 1
            writer.close()
            tasks.discard(task)

    listener = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=512)
    server = RawServer(listener.sockets[0].getsockname()[1])
    try:
        yield server
    finally:
        listener.close()
        for task in [*tasks]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await listener.wait_closed()


async def _read(reader: asyncio.StreamReader, number: int, on_connection: int) -> Call | None:
    try:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, path, _ = lines[0].split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Call(number, on_connection, method, path, headers, body)


def head(status: int, reason: str, headers: dict[str, str]) -> bytes:
    """Return a status line and headers."""
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1")


async def send(writer: asyncio.StreamWriter, *pieces: bytes, pause: float | None = None) -> None:
    """Write each piece by itself, so that the other side can read it before the next."""
    for index, piece in enumerate(pieces):
        if index and pause is not None:
            await asyncio.sleep(pause)
        writer.write(piece)
        await writer.drain()


async def send_until(writer: asyncio.StreamWriter, piece: bytes, count: Callable[[], int]) -> None:
    """Write a piece and wait until the count of what the other side has read has grown."""
    before = count()
    await send(writer, piece)
    await happens(lambda: count() > before, "the other side's next read")


class Reads:
    """Counts the reads of our connections, so that a server of a test can wait for each of its writes to be read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        real = Connection.data_received

        def data_received(connection: Connection, data: bytes) -> None:
            self.count += 1
            real(connection, data)

        monkeypatch.setattr(Connection, "data_received", data_received)

    async def send(self, writer: asyncio.StreamWriter, *pieces: bytes) -> None:
        """Write each piece once the one before was read."""
        for piece in pieces:
            await send_until(writer, piece, lambda: self.count)


async def forever() -> None:
    """Never answer."""
    await asyncio.get_running_loop().create_future()


def chunked(piece: bytes) -> bytes:
    """Return a piece in the framing of a chunked body; an empty one ends the body."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def reset(writer: asyncio.StreamWriter) -> None:
    """Break the connection as a crashed process does: with a reset instead of an end."""
    writer.transport.abort()


STREAM_HEAD = head(200, "OK", {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"})


def event(value: Any) -> bytes:
    """Return a server-sent event of a JSON value, or of text as it is."""
    text = value if isinstance(value, str) else json.dumps(value)
    return f"data: {text}\n\n".encode()


def token(text: str, finish: str | None = None) -> bytes:
    """Return a chunk of a chat stream that brings a token."""
    return event({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]})


USAGE = event({"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 3, "total_tokens": 7}})
DONE = event("[DONE]")


async def send_stream(writer: asyncio.StreamWriter, *pieces: bytes, pause: float | None = None) -> None:
    """Answer with a whole stream, one chunk a piece."""
    await send(writer, STREAM_HEAD, *map(chunked, pieces), chunked(b""), pause=pause)


async def send_json(
    writer: asyncio.StreamWriter, status: int, value: Any, headers: dict[str, str] | None = None, reason: str = "X"
) -> None:
    """Answer with a JSON body, or with bytes as they are."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    own = {"content-type": "application/json", "content-length": str(len(body))}
    await send(writer, head(status, reason, {**own, **(headers or {})}) + body)
