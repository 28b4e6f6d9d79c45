"""Name what went wrong on the way to a server and back."""

from __future__ import annotations

import aiohttp
import httpx
from aiohttp import http_exceptions

from aiperf_spec.models.run import ErrorKind, RequestError
from aiperf_spec.wire.sse import EventTooLargeError


class RequestFailedError(Exception):
    """Carry why a request failed."""

    def __init__(self, error: RequestError) -> None:
        super().__init__(error.message)
        self.error = error


_BY_CAUSE: tuple[tuple[type[BaseException], ErrorKind, str], ...] = (
    (EventTooLargeError, ErrorKind.PROTOCOL, "the server sent {text}"),
    (httpx.DecodingError, ErrorKind.PROTOCOL, "the response cannot be decoded: {text}"),
    (aiohttp.ClientConnectorDNSError, ErrorKind.CONNECT, "the host name cannot be resolved: {text}"),
    (aiohttp.ClientProxyConnectionError, ErrorKind.CONNECT, "no connection to the proxy: {text}"),
    (aiohttp.ClientHttpProxyError, ErrorKind.CONNECT, "the proxy refused: {text}"),
    (aiohttp.ClientSSLError, ErrorKind.CONNECT, "TLS failed: {text}"),
    (aiohttp.ServerFingerprintMismatch, ErrorKind.CONNECT, "TLS failed: {text}"),
    (aiohttp.ClientConnectorError, ErrorKind.CONNECT, "no connection: {text}"),
    (aiohttp.ConnectionTimeoutError, ErrorKind.CONNECT, "no connection within 10 s"),
    (aiohttp.SocketTimeoutError, ErrorKind.TIMEOUT, "the server fell silent: {text}"),
    (aiohttp.ServerTimeoutError, ErrorKind.TIMEOUT, "{text}"),
    (http_exceptions.HttpProcessingError, ErrorKind.PROTOCOL, "the response is not HTTP: {text}"),
    (aiohttp.ClientPayloadError, ErrorKind.DISCONNECTED, "the connection broke within the response: {text}"),
    (aiohttp.ServerDisconnectedError, ErrorKind.DISCONNECTED, "the server closed the connection"),
    (aiohttp.ClientConnectionError, ErrorKind.DISCONNECTED, "the connection broke: {text}"),
    (ConnectionError, ErrorKind.DISCONNECTED, "the connection broke: {text}"),
    (aiohttp.ClientResponseError, ErrorKind.PROTOCOL, "the response is not HTTP: {text}"),
    (aiohttp.InvalidURL, ErrorKind.CONNECT, "the URL cannot be reached: {text}"),
    (httpx.ConnectTimeout, ErrorKind.CONNECT, "no connection: {text}"),
    (httpx.ConnectError, ErrorKind.CONNECT, "no connection: {text}"),
    (httpx.TimeoutException, ErrorKind.TIMEOUT, "the server fell silent: {text}"),
)

_EXACT = (aiohttp.ClientError, http_exceptions.HttpProcessingError, httpx.DecodingError, EventTooLargeError)
"""Errors that say more than the httpx error above them and the socket error beneath."""


def name_failure(error: BaseException, status: int | None) -> RequestError:
    """Return what a transport's exception means, after its cause rather than its class.

    The transport maps a server that hangs up to a connect time-out, among others; what aiohttp raised beneath it is
    right. A failure not known by name is `disconnected`, with the exception's own name.
    """
    causes = _causes(error)
    chain = tuple(type(cause).__name__ for cause in causes)
    exact = [cause for cause in causes if isinstance(cause, _EXACT)]
    for cause in exact or causes:
        for kind_of_error, kind, wording in _BY_CAUSE:
            if isinstance(cause, kind_of_error):
                return RequestError(kind, wording.format(text=_text(cause)), status, chain)
    return RequestError(ErrorKind.DISCONNECTED, f"{chain[0]}: {_text(error)}", status, chain)


def _causes(error: BaseException) -> list[BaseException]:
    causes: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in causes:
        causes.append(current)
        current = current.__cause__
    return causes


def _text(error: BaseException) -> str:
    text = str(error).strip()
    return " ".join(text.split()) or type(error).__name__
