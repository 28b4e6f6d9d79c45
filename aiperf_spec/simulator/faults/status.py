"""Answer with an error status instead of a response."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from aiohttp import web

from ..writer import HEADERS, ResponseWriter

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
        entry = self.simulated.entry
        entry.status, content_type, body = ERROR_ANSWERS[entry.fault or ""]
        entry.finished = True
        headers = HEADERS | ({"Content-Type": content_type} if content_type else {})
        return web.Response(status=entry.status, body=body, headers=headers)
