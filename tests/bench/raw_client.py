"""Find and stamp every event with bare sockets, as the least that a client can cost: raw_client.py PORT REQUESTS N."""

from __future__ import annotations

import asyncio
import sys
import time

import uvloop

BODY = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}'
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    % len(BODY)
) + BODY


async def main(port: int, requests: int, concurrency: int) -> None:
    left = requests

    async def worker() -> None:
        nonlocal left
        stamps: list[tuple[int, int]] = []
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while left > 0:
            left -= 1
            writer.write(REQUEST)
            rest = b""
            while not rest.endswith(b"\r\n0\r\n\r\n"):
                *events, rest = (rest + await reader.read(65536)).split(b"\n\n")
                for event in events:
                    stamps.append((time.perf_counter_ns(), event.find(b"data: ")))
            stamps.clear()
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(worker() for _ in range(concurrency)))


if __name__ == "__main__":
    uvloop.run(main(*(int(argument) for argument in sys.argv[1:4])))
