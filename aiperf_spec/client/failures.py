"""Name what went wrong on the way to a server and back, after httpx's tree of exceptions."""

import socket
import ssl

import httpx
import orjson

from aiperf_spec.client.connection import CUT_OFF, NO_RESPONSE
from aiperf_spec.models.run import ErrorKind, RequestError
from aiperf_spec.wire.chunk import message_of
from aiperf_spec.wire.sse import EventTooLargeError

FAILURES = (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, TimeoutError, EventTooLargeError)
"""What ends a request, and not the run."""


class RequestFailedError(Exception):
    """Carry why a request failed."""

    def __init__(self, error: RequestError) -> None:
        super().__init__(error.message)
        self.error = error


_WORDINGS: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str], ...] = (
    (EventTooLargeError, "the server sent {text}"),
    (httpx.DecodingError, "the response cannot be decoded: {text}"),
    (httpx.ProxyError, "no connection through the proxy: {text}"),
    (
        (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol, httpx.InvalidURL),
        "no connection: {text}",
    ),
    (httpx.TimeoutException, "the server fell silent: {text}"),
    (httpx.RemoteProtocolError, "the response is not HTTP: {text}"),
)
_NO_CONNECTION: tuple[tuple[type[BaseException], str], ...] = (
    (socket.gaierror, "the host name cannot be resolved: {text}"),
    (ssl.SSLError, "TLS failed: {text}"),
)
"""Causes that say more than that there is no connection."""


def name_failure(error: BaseException, status: int | None) -> RequestError:
    """Return what a transport's or a reader's exception means, and the classes of the exceptions behind it."""
    causes = _causes(error)
    chain = tuple(type(cause).__name__ for cause in causes)
    return RequestError(_kind(error), _wording(error, causes, status), status, chain)


def status_failure(status: int | None, refusal: str, body: bytes | bytearray, lost: str = "") -> RequestError:
    """Return what a status other than 2xx means; `lost` is why its body did not come whole, if it did not."""
    try:
        said = message_of(orjson.loads(body))
    except orjson.JSONDecodeError:
        said = body.decode("utf-8", "replace").strip()
    said = said or (f"body lost ({lost})" if lost else "")
    return RequestError(ErrorKind.HTTP_STATUS, f"{refusal}: {said}" if said else refusal, status)


def _kind(error: BaseException) -> ErrorKind:
    if isinstance(error, EventTooLargeError):
        return ErrorKind.MALFORMED
    kinds = {kind.value: kind for kind in ErrorKind}
    return next((kinds[c.__name__] for c in type(error).__mro__ if c.__name__ in kinds), ErrorKind.TRANSPORT_ERROR)


def _wording(error: BaseException, causes: list[BaseException], status: int | None) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    if text == NO_RESPONSE:
        return "the server closed the connection without sending a response"
    if isinstance(error, httpx.ConnectError):
        for kind_of_cause, wording in _NO_CONNECTION:
            if any(isinstance(cause, kind_of_cause) for cause in causes):
                return wording.format(text=text)
    if not text.startswith(CUT_OFF):
        for kind_of_error, wording in _WORDINGS:
            if isinstance(error, kind_of_error):
                return wording.format(text=text)
    if not isinstance(error, httpx.TransportError):
        return f"{type(error).__name__}: {text}"
    where = "before" if status is None else "within"
    return f"the connection broke {where} the response: {type(causes[-1]).__name__}: {text}"


def _causes(error: BaseException) -> list[BaseException]:
    causes: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in causes:
        causes.append(current)
        current = current.__cause__ or current.__context__
    return causes
