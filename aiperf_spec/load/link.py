"""Pass Python objects between the process of a run and those that send for it."""

import asyncio
import pickle
import socket
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Self

_LIMIT = 1 << 20
"""Bytes that a side reads ahead; what is larger comes in several reads."""
_SIZE_BYTES = 8


class Link:
    """One end of a pair of connected sockets, as asyncio's streams carry it.

    Sending never waits and never blocks: what the socket does not take at once is kept until it does. Only processes of
    one program may be linked, because unpickling runs what it is told to.
    """

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> Self:
        """Return the link over one end of the pair."""
        return cls(*await asyncio.open_connection(sock=end, limit=_LIMIT))

    def send(self, *message: Any) -> None:
        """Send a message; one to an end that is gone is dropped."""
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        if not self._writer.is_closing():
            self._writer.writelines((len(data).to_bytes(_SIZE_BYTES), data))

    async def messages(self) -> AsyncIterator[tuple[Any, ...]]:
        """Yield the other end's messages until it sends no more or is gone; one that was cut off is left out."""
        held = bytearray()
        with suppress(ConnectionError):
            while data := await self._reader.read(_LIMIT):
                held += data
                start = 0
                while (size := _size(held, start)) is not None:
                    yield pickle.loads(held[start + _SIZE_BYTES : start + size])
                    start += size
                del held[:start]

    def end(self) -> None:
        """Say that nothing more will be sent; the other end still may."""
        if not self._writer.is_closing():
            self._writer.write_eof()

    async def close(self) -> None:
        """Close the link once everything was written, or the other end is gone."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


def _size(held: bytearray, start: int) -> int | None:
    """Return how many bytes the message at `start` takes, or None where it has not come whole."""
    end = start + _SIZE_BYTES
    if end > len(held):
        return None
    size = _SIZE_BYTES + int.from_bytes(held[start:end])
    return size if start + size <= len(held) else None
