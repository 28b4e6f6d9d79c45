"""Answer with an error status instead of a response."""

from __future__ import annotations

from typing import ClassVar

import orjson
from aiohttp import web

from ..call import Payload
from ..writer import HEADERS, ResponseWriter


class HttpStatus(ResponseWriter):
    """Answer with an error status instead; what stands in the body, a subclass says."""

    status: ClassVar[int] = 500
    error_type: ClassVar[str] = "application/json"

    async def respond(self) -> web.StreamResponse:
        """Send the error."""
        self.exchange.entry.status = self.status
        self.exchange.entry.finished = True
        headers = HEADERS | ({"Content-Type": self.error_type} if self.error_body() else {})
        return web.Response(status=self.status, body=self.error_body(), headers=headers)

    def error_body(self) -> bytes:
        """Return the bytes of the body."""
        return b""

    def detail(self, message: str, kind: str) -> Payload:
        """Shape what an error says."""
        return {"message": message, "type": kind, "param": None, "code": self.status}


class Http400Json(HttpStatus):
    """Answer 400 with a nested error object."""

    status = 400

    def error_body(self) -> bytes:
        """Return a nested error object."""
        return orjson.dumps({"error": self.detail("Injected bad request.", "BadRequestError")})


class Http500Json(HttpStatus):
    """Answer 500 with a nested error object."""

    def error_body(self) -> bytes:
        """Return a nested error object."""
        return orjson.dumps({"error": self.detail("Injected engine failure.", "InternalServerError")})


class Http503FlatJson(HttpStatus):
    """Answer 503 with a flat error object."""

    status = 503

    def error_body(self) -> bytes:
        """Return a flat error object."""
        return orjson.dumps({"object": "error"} | self.detail("Request queue is full.", "503"))


class Http502Html(HttpStatus):
    """Answer 502 with a proxy's page."""

    status = 502
    error_type = "text/html"

    def error_body(self) -> bytes:
        """Return a page as nginx writes it."""
        title = b"<head><title>502 Bad Gateway</title></head>"
        text = b"<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx</center>"
        return b"<html>\r\n" + title + b"\r\n<body>\r\n" + text + b"\r\n</body>\r\n</html>\r\n"
