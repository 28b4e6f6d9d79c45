"""Answer chat requests with a flood of chunks, to measure what a client itself costs and how late it stamps.

With `--itl-ms 0` a stream's whole body is written at once. Otherwise each content chunk is written on a timer and holds
the CLOCK_MONOTONIC time, in ns, at which it was handed to the socket: "t=<ns> ". The last content chunk is followed by
vLLM's usage chunk. GET /peak answers the largest number of requests that were in flight at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from typing import Any, cast

import uvloop

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def event(obj: dict[str, Any]) -> bytes:
    data = b"data: " + json.dumps(obj, separators=(",", ":")).encode() + b"\n\n"
    return framed(data)


def framed(data: bytes) -> bytes:
    return b"%x\r\n" % len(data) + data + b"\r\n"


def content(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": finish}
    return event({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})


def ending(chunks: int) -> bytes:
    stats = {
        "mean_acceptance_length": 2.0,
        "draft_acceptance_rate": 1 / 3,
        "acceptance_histogram": [0, chunks, 0, 0],
        "num_spec_steps": chunks,
        "num_accepted_draft_tokens": chunks,
        "num_draft_tokens": 3 * chunks,
        "num_spec_tokens": 3,
    }
    usage = {"prompt_tokens": 7, "completion_tokens": 2 * chunks, "total_tokens": 7 + 2 * chunks}
    last = {
        "id": "c",
        "object": "chat.completion.chunk",
        "model": "m",
        "choices": [],
        "usage": usage,
        "metrics": {"speculative_decoding": stats},
    }
    return event(last) + framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"


class Flood(asyncio.Protocol):
    chunks = 100
    itl_s = 0.0
    blob = b""
    in_flight = 0
    peak = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        self.buffer = b""
        self.streams: set[asyncio.Task[None]] = set()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            length = 0
            for line in head.split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    length = int(line[15:])
            if len(self.buffer) < end + 4 + length:
                return
            self.buffer = self.buffer[end + 4 + length :]
            self.answer(head)

    def answer(self, head: bytes) -> None:
        if head.startswith(b"get"):
            body = b"%d" % Flood.peak if head.startswith(b"get /peak") else b"{}"
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        elif self.itl_s == 0:
            self.transport.write(HEAD + self.blob)
        else:
            task = asyncio.ensure_future(self.stream())
            self.streams.add(task)
            task.add_done_callback(self.streams.discard)

    async def stream(self) -> None:
        Flood.in_flight += 1
        Flood.peak = max(Flood.peak, Flood.in_flight)
        write = self.transport.write
        write(HEAD)
        loop = asyncio.get_running_loop()
        due = loop.time()
        for number in range(self.chunks):
            due += self.itl_s
            await asyncio.sleep(max(0.0, due - loop.time()))
            if self.transport.is_closing():
                break
            write(content(f"t={time.monotonic_ns()} ", "stop" if number == self.chunks - 1 else None))
        Flood.in_flight -= 1
        write(ending(self.chunks))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=100)
    parser.add_argument("--itl-ms", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=600, help="ends by itself after these")
    options = parser.parse_args()
    Flood.chunks, Flood.itl_s = options.chunks, options.itl_ms / 1e3
    contents = (content(f"tok{i} ", "stop" if i == options.chunks - 1 else None) for i in range(options.chunks))
    Flood.blob = b"".join(contents) + ending(options.chunks)
    server = await asyncio.get_running_loop().create_server(Flood, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.sleep(options.seconds)


if __name__ == "__main__":
    uvloop.run(main())
