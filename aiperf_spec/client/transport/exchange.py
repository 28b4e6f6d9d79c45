"""What a transport is given, and what it hands on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol
from urllib.parse import quote, urlsplit

from aiperf_spec.client.transport.errors import NotConnectedError

CONNECT_TIMEOUT_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 60.0


@dataclass(slots=True, frozen=True)
class Head:
    """Status line and headers of a response; names are lower case, of a repeated one the last value stands."""

    status: int
    reason: str
    headers: Mapping[str, str]

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


@dataclass(frozen=True)
class Target:
    """What many requests share: method, URL and headers, with lower-case names."""

    method: str
    url: str
    headers: Mapping[str, str]

    @cached_property
    def origin(self) -> Origin:
        """Whom to connect to."""
        split = urlsplit(self.url)
        default = 443 if split.scheme == "https" else 80
        port = default if split.port is None else split.port
        return Origin(split.scheme == "https", _ascii_host(split.hostname or ""), port)

    @cached_property
    def opening(self) -> bytes:
        """The request's bytes up to the headers of its own: request line, host and shared headers."""
        split, origin = urlsplit(self.url), self.origin
        path = quote(split.path or "/", safe=_SAFE) + (f"?{quote(split.query, safe=_SAFE)}" if split.query else "")
        headers = {"host": origin.authority, **self.headers}
        lines = [f"{self.method} {path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items() if name not in _FRAMING]
        return "".join(f"{line}\r\n" for line in lines).encode("latin-1")


@dataclass(frozen=True)
class Origin:
    """A server: connections to one serve no other."""

    is_secure: bool
    host: str
    port: int

    @property
    def authority(self) -> str:
        """Host and port as the host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_secure else 80) else f"{host}:{self.port}"


_SAFE = "/%:@!$&'()*+,;=~?"
"""What a path or a query holds as it stands; a percent sign is taken for an escape's."""
# These say where a body ends, which is the transport's to say, and which request it is, which is the client's.
_FRAMING = ("content-length", "transfer-encoding", "x-request-id")


def _ascii_host(host: str) -> str:
    if host.isascii():
        return host
    import idna

    try:
        # As httpx does: the standard library's codec is of 2003, and takes some names for others.
        return idna.encode(host.lower()).decode("ascii")
    except idna.IDNAError as error:
        raise NotConnectedError(f"{host}: no name that a host can have") from error


class Reader(Protocol):
    """Takes a response as it arrives. Times are of the transport's clock, in ns.

    What it raises ends the exchange, closes the connection and is raised to whoever asked for the exchange.
    """

    def restart(self, now_ns: int) -> None:
        """Begin anew: a kept-alive connection turned out to be dead, and the request is sent once more."""

    def head(self, head: Head, now_ns: int) -> None:
        """Take the final response's status and headers, which were whole at `now_ns`."""

    def data(self, data: bytes, now_ns: int, is_last: bool) -> bool:
        """Take what one read brought of the body; true means that no more is wanted.

        `is_last` says that the body is known to be whole with it.
        """

    def end(self, now_ns: int) -> None:
        """Take notice that the body is whole; not called where no more was wanted."""


class Transport(Protocol):
    """Sends requests. An exchange raises a `TransportError` for what goes wrong on the way."""

    async def exchange(self, target: Target, request_id: str, body: bytes, reader: Reader) -> None:
        """Send one request and hand its response to `reader`; returns once it is whole or no longer wanted.

        A GET has neither an id nor a body: both are empty.
        """

    async def aclose(self) -> None:
        """Close every connection."""
