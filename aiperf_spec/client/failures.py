"""Name what went wrong on the way to a server and back."""

from __future__ import annotations

import socket
import ssl

from aiperf_spec.client.transport.errors import (
    BrokenConnectionError,
    NotConnectedError,
    NotHTTPError,
    ProxyRefusedError,
    SilenceError,
    StaleConnectionError,
)
from aiperf_spec.models.run import ErrorKind, RequestError
from aiperf_spec.wire.encoding import UndecodableError
from aiperf_spec.wire.sse import EventTooLargeError


class RequestFailedError(Exception):
    """Carry why a request failed."""

    def __init__(self, error: RequestError) -> None:
        super().__init__(error.message)
        self.error = error


_WORDINGS: tuple[tuple[type[BaseException], ErrorKind, str], ...] = (
    (EventTooLargeError, ErrorKind.PROTOCOL, "the server sent {text}"),
    (UndecodableError, ErrorKind.PROTOCOL, "the response cannot be decoded: {text}"),
    (NotHTTPError, ErrorKind.PROTOCOL, "the response is not HTTP: {text}"),
    (ProxyRefusedError, ErrorKind.CONNECT, "no connection through the proxy: {text}"),
    (NotConnectedError, ErrorKind.CONNECT, "no connection: {text}"),
    (SilenceError, ErrorKind.TIMEOUT, "the server fell silent: {text}"),
    (StaleConnectionError, ErrorKind.DISCONNECTED, "the server closed the connection: {text}"),
    (BrokenConnectionError, ErrorKind.DISCONNECTED, "the connection broke within the response: {cause}: {text}"),
)
_NO_CONNECTION: tuple[tuple[type[BaseException], str], ...] = (
    (socket.gaierror, "the host name cannot be resolved: {text}"),
    (ssl.SSLError, "TLS failed: {text}"),
)
"""Causes that say more than that there is no connection."""


def name_failure(error: BaseException, status: int | None) -> RequestError:
    """Return what a transport's or a reader's exception means, and the classes of the exceptions behind it.

    A failure not known by name is `disconnected`, with the exception's own name.
    """
    causes = _causes(error)
    chain = tuple(type(cause).__name__ for cause in causes)
    text = _text(error)
    if isinstance(error, NotConnectedError):
        for kind_of_cause, wording in _NO_CONNECTION:
            if any(isinstance(cause, kind_of_cause) for cause in causes):
                return RequestError(ErrorKind.CONNECT, wording.format(text=text), status, chain)
    for kind_of_error, kind, wording in _WORDINGS:
        if isinstance(error, kind_of_error):
            return RequestError(kind, wording.format(text=text, cause=chain[-1]), status, chain)
    return RequestError(ErrorKind.DISCONNECTED, f"{chain[0]}: {text}", status, chain)


def _causes(error: BaseException) -> list[BaseException]:
    causes: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in causes:
        causes.append(current)
        current = current.__cause__ or current.__context__
    return causes


def _text(error: BaseException) -> str:
    text = str(error).strip()
    return " ".join(text.split()) or type(error).__name__
