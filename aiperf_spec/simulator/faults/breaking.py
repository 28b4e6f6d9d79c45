"""Answer with an error status, or break a response or its connection off."""

import asyncio
import socket
import struct
from collections.abc import Mapping

import orjson
from aiohttp import web

from ..call import Payload
from ..writer import DONE, HEADERS, BrokenOffError, ResponseWriter

REFUSING_S = 0.1
ENDLESS_BYTES = 80 * 1024 * 1024
# A stream breaks at its third event, or at the first with a finish reason if that comes sooner.
EVENTS_BEFORE_BREAK = 2
# What was written before a reset has to leave the kernel first, or the reset discards it.
SETTLE_S = 0.02

_NGINX_PAGE = (
    b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>"
    b"\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
)


def _nested(status: int, message: str, kind: str) -> tuple[int, str | None, bytes]:
    detail = {"message": message, "type": kind, "param": None, "code": status}
    return status, "application/json", orjson.dumps({"error": detail})


_QUEUE_FULL = b'{"object":"error","message":"Request queue is full.","type":"503","param":null,"code":503}'
ERROR_ANSWERS: Mapping[str, tuple[int, str | None, bytes]] = {
    "http_400_json": _nested(400, "Injected bad request.", "BadRequestError"),
    "http_500_json": _nested(500, "Injected engine failure.", "InternalServerError"),
    "http_503_flat_json": (503, "application/json", _QUEUE_FULL),
    "http_502_html": (502, "text/html", _NGINX_PAGE),
    "http_500_empty": (500, None, b""),
}
"""What stands in for a response, by the name of the fault: the status, the type of the body, the body."""


class HttpStatus(ResponseWriter):
    """Answer with an error status instead."""

    async def respond(self) -> web.StreamResponse:
        """Send the error."""
        self.entry.status, content_type, body = ERROR_ANSWERS[self.entry.fault or ""]
        self.entry.finished = True
        headers = HEADERS | ({"Content-Type": content_type} if content_type else {})
        return web.Response(status=self.entry.status, body=body, headers=headers)


class Breaking(ResponseWriter):
    """Write a few events, then break off; a body that is not streamed breaks at once."""

    sent = 0

    async def send_payload(self, payload: Payload) -> None:
        """Send a payload, or break off in its place."""
        finishing = any(choice.get("finish_reason") for choice in payload["choices"])
        if self.sent >= EVENTS_BEFORE_BREAK or finishing:
            await self.break_off(payload)
            raise BrokenOffError
        self.sent += 1
        await super().send_payload(payload)

    async def break_off(self, payload: Payload) -> None:
        """Do what stands in place of a payload."""
        raise NotImplementedError

    async def write_half(self, payload: Payload) -> None:
        """Write the first half of an event, or of a body whose full length was announced."""
        data = orjson.dumps(payload)
        if self.call.stream:
            data = self.frame(data)
        else:
            await self.open(self.body_type, len(data))
        await self.write(data[: len(data) // 2])


class ConnectionRefused(ResponseWriter):
    """Drop the connection before any byte and refuse new ones for a moment."""

    async def respond(self) -> web.StreamResponse:
        """Stop listening, then hang up."""
        if self.listener is not None:
            self.listener.refuse_for(REFUSING_S)
        hang_up(self.http, reset=False)
        return self.response


class ResetBeforeHeaders(ResponseWriter):
    """Reset the connection before any byte."""

    async def respond(self) -> web.StreamResponse:
        """Send a reset."""
        await self.pace(0)
        hang_up(self.http, reset=True)
        return self.response


class ResetMidEvent(Breaking):
    """Reset the connection halfway through an event."""

    async def break_off(self, payload: Payload) -> None:
        """Write half an event and reset."""
        await self.write_half(payload)
        await asyncio.sleep(SETTLE_S)
        hang_up(self.http, reset=True)


class Stall(Breaking):
    """Fall silent after a few events, with the connection left open."""

    async def break_off(self, payload: Payload) -> None:
        """Wait until the client has left."""
        if not self.call.stream:
            await self.write_half(payload)
        # The server cancels a handler whose client has left.
        await asyncio.Event().wait()


class TruncatedJson(Breaking):
    """End an event, or the body, in the middle of its JSON, and the response cleanly."""

    async def break_off(self, payload: Payload) -> None:
        """Write a whole event of half a JSON object and end."""
        data = orjson.dumps(payload)
        await self.send(data[: len(data) // 2])
        await self.end()


class OkWithErrorObject(Breaking):
    """Report an error in a response whose status was 200."""

    async def break_off(self, payload: Payload) -> None:
        """Write the error as SGLang's and vLLM's streams do, and what they send after it."""
        message, kind = "EngineCore encountered an issue.", "InternalServerError"
        detail = {"object": "error", "message": message, "type": kind, "param": None, "code": 500}
        await self.send(orjson.dumps({"error": detail} if self.call.stream else self.engine.error(message, kind, 500)))
        if self.call.stream:
            for event in self.engine.stream(self.call) if self.engine.trailer_after_error else ():
                if not event.payload["choices"]:
                    await ResponseWriter.send_payload(self, event.payload)
            await self.send(DONE)
        await self.end()


class EndlessLine(Breaking):
    """Write one line that does not end before a client has lost patience."""

    async def break_off(self, payload: Payload) -> None:
        """Write a string without an end, up to a bound that keeps a client without one alive."""
        if not self.call.stream:
            await self.open(self.body_type)
        await self.write((b"data: " if self.call.stream else b"") + b'{"id":"')
        block = b"x" * 262_144
        for _ in range(ENDLESS_BYTES // len(block)):
            await self.write(block)
        await self.end()


def hang_up(request: web.Request, *, reset: bool) -> None:
    """Drop the connection without a word, with RST if `reset`."""
    transport = request.transport
    if transport is None:
        return
    connection = transport.get_extra_info("socket")
    if reset and connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
