"""Write one response to the client: paced, one flushed write for every event."""

import asyncio
from dataclasses import dataclass
from typing import ClassVar

import orjson
from aiohttp import web

from .call import Call, Event, Payload
from .engines import Engine
from .ledger import Ledger, LedgerEntry
from .listener import Listener

HEADERS = {"Server": "uvicorn", "Vary": "Origin"}
DONE = b"[DONE]"


class BrokenOffError(Exception):
    """Say that a response ended before its end, on purpose."""


@dataclass(eq=False)
class ResponseWriter:
    """Write a response as the engine would; each fault overrides the one hook it spoils.

    `started` is the event loop's time at arrival, from which every step is due. How long a step takes depends on the
    requests that run beside this one when it begins, by the `ledger`.
    """

    http: web.Request
    engine: Engine
    call: Call
    entry: LedgerEntry
    started: float
    listener: Listener | None
    ledger: Ledger

    stream_type: ClassVar[str] = "text/event-stream; charset=utf-8"
    body_type: ClassVar[str] = "application/json"
    newline: ClassVar[bytes] = b"\n"

    def __post_init__(self) -> None:
        self.response = web.StreamResponse(headers=HEADERS)
        self._due = self.started + self.engine.config.prefill_time_ms / 1000
        self._step = 0

    async def respond(self) -> web.StreamResponse:
        """Send the whole response; a body is a stream of one event."""
        engine, call = self.engine, self.call
        try:
            if call.stream:
                await self.open(self.stream_type)
            for event in engine.stream(call) if call.stream else (Event(engine.body(call), call.last_step),):
                await self.pace(event.step)
                for payload in self.transform(event):
                    await self.send_payload(payload)
            if call.stream:
                await self.send(DONE)
        except BrokenOffError:
            return self.response
        self.entry.finished = True
        await self.end()
        return self.response

    async def send_payload(self, payload: Payload) -> None:
        """Send one payload, and record whether statistics leave with it."""
        if bears_stats(payload):
            self.entry.stats_sent = True
        await self.send(orjson.dumps(payload))

    async def send(self, data: bytes) -> None:
        """Send the data of one event, or the whole body."""
        if self.call.stream:
            await self.write(self.frame(data))
        else:
            await self.open(self.body_type, len(data))
            await self.write(data)

    async def open(self, content_type: str, length: int | None = None) -> None:
        """Send the status line and headers at once, as uvicorn does; no length means chunks."""
        self.response.headers["Content-Type"] = content_type
        if length is None:
            self.response.enable_chunked_encoding()
        else:
            self.response.content_length = length
        writer = await self.response.prepare(self.http)
        if writer is not None:
            writer.send_headers()

    async def pace(self, step: int) -> None:
        """Wait until an engine step, 0 being prefill, is over."""
        config = self.engine.config
        while self._step < step:
            if config.batch_time_ms:
                # What this step costs is known when it begins, by who runs then.
                await self._until_due()
            self._step += 1
            self._due += config.step_ms(self.ledger.in_flight) / 1000
        await self._until_due()

    async def _until_due(self) -> None:
        # A late stream still yields, so that hundreds of them share one loop fairly.
        await asyncio.sleep(max(0.0, self._due - asyncio.get_running_loop().time()))

    def transform(self, event: Event) -> list[Payload]:
        """Return what to send for an event, or for the body."""
        return [event.payload]

    def frame(self, data: bytes) -> bytes:
        """Put the data of one event into the bytes of the event stream."""
        return b"".join((b"data: ", data, self.newline, self.newline))

    async def write(self, data: bytes) -> None:
        """Write bytes of the content; one call, one packet where the network allows."""
        await self.response.write(data)

    async def end(self) -> None:
        """End the response cleanly."""
        await self.response.write_eof()


def bears_stats(payload: Payload) -> bool:
    """Say whether a payload carries a statistics object of any engine."""
    if payload.get("metrics") or payload.get("sglext") or "draft_n" in payload.get("timings", ()):
        return True
    return any("speculative_decoding" in choice for choice in payload.get("choices", ()))
