"""Answer with an error status instead of a response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import orjson
from aiohttp import web

from ..writer import HEADERS, ResponseWriter, SimulatedRequest

_NGINX_PAGE = (
    b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>"
    b"\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
)


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """Hold a status and the body that comes with it."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"


def _nested(status: int, message: str, kind: str) -> ErrorAnswer:
    detail = {"message": message, "type": kind, "param": None, "code": status}
    return ErrorAnswer(status, orjson.dumps({"error": detail}))


ERROR_ANSWERS: Mapping[str, ErrorAnswer] = MappingProxyType(
    {
        "http_400_json": _nested(400, "Injected bad request.", "BadRequestError"),
        "http_500_json": _nested(500, "Injected engine failure.", "InternalServerError"),
        "http_503_flat_json": ErrorAnswer(
            503,
            b'{"object":"error","message":"Request queue is full.","type":"503","param":null,"code":503}',
        ),
        "http_502_html": ErrorAnswer(502, _NGINX_PAGE, "text/html"),
        "http_500_empty": ErrorAnswer(500),
    }
)
"""What stands in for a response, by the name of the fault."""


class HttpStatus(ResponseWriter):
    """Answer with an error status instead."""

    def __init__(self, simulated: SimulatedRequest, answer: ErrorAnswer) -> None:
        super().__init__(simulated)
        self.answer = answer

    async def respond(self) -> web.StreamResponse:
        """Send the error."""
        answer, entry = self.answer, self.simulated.entry
        entry.status, entry.finished = answer.status, True
        headers = HEADERS | ({"Content-Type": answer.content_type} if answer.body else {})
        return web.Response(status=answer.status, body=answer.body, headers=headers)
