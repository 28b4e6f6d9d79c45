"""A server that sends scripted bytes, on a loop and a socket of its own."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.public_cases.virtual_time import VirtualTime
from tests.waiting import PATIENCE_SECONDS

_RESET = struct.pack("ii", 1, 0)
_MODELS = b'{"object":"list","data":[]}'
_NO_PATH = b'{"error":{"message":"no such path"}}'


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        """The body as an object; empty where there was none."""
        body: dict[str, Any] = json.loads(self.raw) if self.raw else {}
        return body


class Stub:
    """Answer the k-th matching POST with the script's k-th response, cycling; GET with an empty list of models.

    `gets` has answers to the GETs of a path in turn, the last one staying; by the number of POSTs answered by then
    where the first says `by_posts`, which `{POSTS}` in its text stands for.

    A response ends in one of these: "ok", "abort" (close), "reset", "hang", or "unanswered" (close before any byte).
    """

    def __init__(self, script: dict[str, Any], time: VirtualTime | None = None) -> None:
        self._script = script
        self._time = time
        self._served = self._done = 0
        self._gets: Counter[str] = Counter()
        self._live = 0
        self._connections: set[asyncio.Task[None]] = set()
        self._left = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.port = 0
        self.peak = 0
        """The most responses that were under way at once."""
        self.asked: list[Asked] = []

    @property
    def host(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The server's root."""
        return f"http://{self.host}"

    @property
    def posts(self) -> list[Asked]:
        """The POST requests so far."""
        return [asked for asked in self.asked if asked.method == "POST"]

    async def serve(self, started: threading.Event) -> None:
        """Serve until `leave`."""
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await self._left.wait()
        server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await server.wait_closed()

    def leave(self) -> None:
        """End `serve`, from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._left.set)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client went away, or the server leaves
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; say whether the connection stays open."""
        asked = await _read(reader)
        self.asked.append(asked)
        given = self._script.get("gets", {}).get(asked.path)
        if asked.method == "GET" and given is not None:
            await self._answer_get(writer, asked.path, given)
            return True
        if asked.method == "GET" or asked.path not in self._script.get("only_paths", [asked.path]):
            status, body = (200, _MODELS) if asked.path.endswith("/models") else (404, _NO_PATH)
            writer.write(_head(status, {"content-type": "application/json", "content-length": str(len(body))}) + body)
            await writer.drain()
            return True
        fitting = [response for response in self._script["responses"] if _fits(response.get("when", {}), asked.body)]
        response = fitting[self._served % len(fitting)]
        self._served += 1
        self._live += 1
        self.peak = max(self.peak, self._live)
        if self._time is not None:
            self._time.begin()
        try:
            keeps = await _answer(writer, response, self._time)
            self._done += 1
            return keeps
        finally:
            self._live -= 1
            if self._time is not None:
                self._time.end()

    async def _answer_get(self, writer: asyncio.StreamWriter, path: str, given: list[dict[str, Any]]) -> None:
        number = self._done if given[0].get("by_posts") else self._gets[path]
        self._gets[path] += 1
        answer = given[min(number, len(given) - 1)]
        if answer.get("hang"):
            await asyncio.sleep(3600)
        body = answer["s"].replace("{POSTS}", str(self._done)).encode()
        headers = answer.get("headers", {}) | {"content-length": str(len(body))}
        writer.write(_head(answer.get("status", 200), headers) + body)
        await writer.drain()


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    method, path, _ = first.split(" ")
    return Asked(method, path, headers, await reader.readexactly(int(headers.get("content-length", 0))))


def _fits(when: dict[str, str], body: dict[str, Any]) -> bool:
    return ("body_has" not in when or when["body_has"] in body) and (
        "body_lacks" not in when or when["body_lacks"] not in body
    )


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode()


def _bytes(chunk: dict[str, Any]) -> bytes:
    if "hex" in chunk:
        return bytes.fromhex(chunk["hex"])
    text: str = chunk["s"] * chunk.get("repeat", 1)
    return text.encode()


async def _answer(writer: asyncio.StreamWriter, response: dict[str, Any], time: VirtualTime | None) -> bool:
    framing, chunks, end = response["framing"], response["chunks"], response["end"]
    if end == "unanswered":
        return False
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    framed = {
        "chunked": ("transfer-encoding", "chunked"),
        "length": ("content-length", str(sum(len(_bytes(chunk)) for chunk in chunks))),
        "close": ("connection", "close"),
    }[framing]
    writer.write(_head(response["status"], response["headers"] | dict([framed])))
    await writer.drain()
    for chunk in chunks:
        delay_ms = chunk.get("delay_ms", 0)
        if time is not None and delay_ms:
            await time.wait(delay_ms)
        else:
            await asyncio.sleep(delay_ms / 1000)
        data = _bytes(chunk)
        for _ in range(chunk.get("times", 1)):
            writer.write(b"%x\r\n%b\r\n" % (len(data), data) if framing == "chunked" else data)
            await writer.drain()
    if end == "hang":
        await asyncio.sleep(3600)
    if end == "reset":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        writer.transport.abort()
    if end != "ok":
        return False
    if framing == "chunked":
        writer.write(b"0\r\n\r\n")
        await writer.drain()
    return bool(framing != "close")


@contextmanager
def serving(script: dict[str, Any], time: VirtualTime | None = None) -> Iterator[Stub]:
    """Serve a script in a thread, so that the client's own loop is the only thing that it measures with."""
    stub = Stub(script, time)
    started = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(stub.serve(started)), daemon=True)
    thread.start()
    try:
        assert started.wait(PATIENCE_SECONDS)
        yield stub
    finally:
        stub.leave()
        thread.join(PATIENCE_SECONDS)
