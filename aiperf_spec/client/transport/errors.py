"""What can go wrong between a request and its response. The cause, where there is one, is the exception's own."""

from __future__ import annotations


class TransportError(Exception):
    """Say what went wrong on the way; the classes below say where."""


class NotConnectedError(TransportError):
    """There is no connection: refused, unreachable, unresolved, too slow, or its TLS failed."""


class ProxyRefusedError(NotConnectedError):
    """The proxy made no connection to the server."""


class SilenceError(TransportError):
    """Nothing came, or nothing could be sent, for too long."""


class NotHTTPError(TransportError):
    """What came is not HTTP, or breaks its rules."""


class BrokenConnectionError(TransportError):
    """The connection broke before the response was whole."""


class IncompleteResponseError(BrokenConnectionError):
    """The connection ended, without an error, within the response."""


class StaleConnectionError(BrokenConnectionError):
    """The connection ended before a single byte of the response."""
