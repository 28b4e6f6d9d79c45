"""Send a right response in an unusual way, which a client has to read all the same."""

import asyncio
import zlib

from aiohttp import web

from ..call import Event, Payload
from ..writer import DONE, ResponseWriter, bears_stats

SLOW_FIRST_BYTE_S = 1.0


class SlowFirstByte(ResponseWriter):
    """Keep the client waiting for the status line, then answer as usual."""

    async def respond(self) -> web.StreamResponse:
        """Wait, then respond."""
        await asyncio.sleep(SLOW_FIRST_BYTE_S)
        return await super().respond()


class WrongContentType(ResponseWriter):
    """Serve a right response as plain text."""

    stream_type = "text/plain; charset=utf-8"
    body_type = "text/plain; charset=utf-8"


class DuplicateStats(ResponseWriter):
    """Send the statistics of a stream twice, the same."""

    def transform(self, event: Event) -> list[Payload]:
        """Repeat an event that carries statistics, without its content."""
        payload = event.payload
        if not self.call.stream or not bears_stats(payload):
            return [payload]
        return [payload, payload | {"choices": [_emptied(choice) for choice in payload["choices"]]}]


class StatsOnEveryChunk(ResponseWriter):
    """Send running statistics with every chunk of content."""

    def transform(self, event: Event) -> list[Payload]:
        """Add the statistics as they stood at an event."""
        if event.choice is None or not self.engine.sends_stats(self.call):
            return [event.payload]
        draw = self.call.generations[event.choice].draw.head(event.step)
        return [self.engine.with_running_stats(event.payload, draw)]


class MissingUsage(ResponseWriter):
    """Leave the usage out, wherever it stands."""

    def transform(self, event: Event) -> list[Payload]:
        """Drop the usage of an event, and the event if nothing else is in it."""
        payload = {key: value for key, value in event.payload.items() if key != "usage"}
        return [payload] if payload["choices"] or bears_stats(payload) else []


class Gzip(ResponseWriter):
    """Compress although nobody asked, flushing after every event."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.compressor = zlib.compressobj(wbits=31)
        self.response.headers["Content-Encoding"] = "gzip"

    async def open(self, content_type: str, length: int | None = None) -> None:
        """Send the headers without a length, which is unknown before compression."""
        await super().open(content_type)

    async def write(self, data: bytes) -> None:
        """Compress and flush."""
        await super().write(self.compressor.compress(data) + self.compressor.flush(zlib.Z_SYNC_FLUSH))

    async def end(self) -> None:
        """Write the trailer of the compressed stream and end."""
        await super().write(self.compressor.flush())
        await super().end()


class KeepaliveComments(ResponseWriter):
    """Put comment lines between the events of a stream."""

    async def send(self, data: bytes) -> None:
        """Send a comment before an event, but not before the end mark."""
        if self.call.stream and data != DONE:
            await self.write(b": keep-alive" + self.newline * 2)
        await super().send(data)


class Crlf(ResponseWriter):
    """End the lines of a stream with CR LF."""

    newline = b"\r\n"


class SplitUtf8(ResponseWriter):
    """Cut writes inside characters of several bytes."""

    async def write(self, data: bytes) -> None:
        """Write in pieces that each begin with a continuation byte."""
        start = 0
        for cut in range(1, len(data)):
            if data[cut] & 0xC0 == 0x80 and data[cut - 1] & 0xC0 == 0xC0:
                await super().write(data[start:cut])
                # Without a pause the pieces would arrive as one.
                await asyncio.sleep(0.0005 if self.call.stream else 0)
                start = cut
        await super().write(data[start:])


def _emptied(choice: Payload) -> Payload:
    if "text" in choice:
        return choice | {"text": ""}
    return choice | {"delta": choice["delta"] | {"content": ""}}
