"""Read the flood with bare sockets, as the least that any client can cost: raw_client.py PORT REQUESTS CONCURRENCY."""

from __future__ import annotations

import asyncio
import sys

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
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while left > 0:
            left -= 1
            writer.write(REQUEST)
            tail = b""
            while not tail.endswith(b"\r\n0\r\n\r\n"):
                data = await reader.read(65536)
                tail = (tail + data)[-8:]
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(worker() for _ in range(concurrency)))


if __name__ == "__main__":
    uvloop.run(main(*(int(argument) for argument in sys.argv[1:4])))
