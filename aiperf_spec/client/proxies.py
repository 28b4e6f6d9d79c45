"""Honour the proxy variables of the environment, which httpx leaves alone once it is given a transport."""

import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from operator import attrgetter
from urllib.request import getproxies, proxy_bypass

import httpx

from aiperf_spec.client.connection import NO_RESPONSE
from aiperf_spec.client.stamping_transport import KEEP_ALIVE_SECONDS
from aiperf_spec.config.server_url import Server
from aiperf_spec.errors import ConfigError

# To connect to the unspecified address is to connect to this machine.
_LOOPBACK = "localhost,*.localhost,localhost.localdomain,ip6-localhost,ip6-loopback,127.0.0.0/8,::1,0.0.0.0,::"


def proxy_for(server: Server) -> str | None:
    """Return the proxy that the environment names for this server, or None.

    The standard library reads `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy` (lower case before upper, as curl
    does), and a system's own settings. Entries of `no_proxy` may also be networks such as `fe80::/10`, and names that
    begin with `*.`; one that cannot be read matches nothing. Loopback addresses, however they are spelled, are never
    sent through a proxy: it would measure another machine's.
    """
    proxies = getproxies()
    scheme, _, rest = server.root.partition("://")
    proxy = proxies.get(scheme) or proxies.get("all")
    exempt = f"{_LOOPBACK},{proxies.get('no', '')}"
    if not proxy or proxy_bypass(rest.partition("/")[0]) or _is_exempt(server.host.lower().rstrip("."), exempt):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_exempt(host: str, entries: str) -> bool:
    address = _address(host)
    for entry in (part.strip().lower() for part in entries.split(",")):
        if host == entry or (entry.startswith("*.") and host.endswith(entry[1:])):
            return True
        with suppress(ValueError):
            if address is not None and address in ip_network(entry.strip("[]"), strict=False):
                return True
    return False


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address that a host is, as a system's resolver reads it: 127.1 and ::ffff:127.0.0.1 are 127.0.0.1."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        try:
            return IPv4Address(socket.inet_aton(host))
        except (OSError, ValueError):
            return None
    return getattr(address, "ipv4_mapped", None) or address


class ProxyTransport(httpx.AsyncHTTPTransport):
    """Reach servers through a proxy, and replace a dead kept-alive connection once, as `StampingTransport` does.

    Raises `ConfigError` for a proxy that cannot be used.
    """

    def __init__(self, proxy: str, tls: ssl.SSLContext, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock = clock
        limits = httpx.Limits(keepalive_expiry=KEEP_ALIVE_SECONDS)
        try:
            super().__init__(verify=tls, trust_env=False, limits=limits, proxy=proxy)
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            raise ConfigError(f"the proxy that the environment names cannot be used: {error}") from None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; its sink is told when it starts."""
        connected = False

        async def trace(name: str, info: object) -> None:
            nonlocal connected
            connected = connected or name.startswith("connection.")

        request.extensions["trace"] = trace
        sink = request.extensions.get("sink")
        if sink is not None:
            sink.started(self._clock())
        try:
            return _guarded(await super().handle_async_request(request))
        except httpx.RemoteProtocolError as error:
            # Known to be kept alive where no new connection was reported.
            if connected or str(error) != NO_RESPONSE:
                raise
        if sink is not None:
            sink.started(self._clock())
        return _guarded(await super().handle_async_request(request))


_BEHIND_RESPONSE = attrgetter("_httpcore_stream._stream._connection._h11_state.trailing_data")
"""What httpcore 1.0 read behind a response: it would take it for the answer to the next request."""


def _guarded(response: httpx.Response) -> httpx.Response:
    assert isinstance(response.stream, httpx.AsyncByteStream)
    response.stream = _Guarded(response.stream, response.extensions["network_stream"].aclose)
    return response


class _Guarded(httpx.AsyncByteStream):
    """A body whose connection is closed where more came than the response."""

    def __init__(self, stream: httpx.AsyncByteStream, close: Callable[[], Awaitable[None]]) -> None:
        self._stream = stream
        self._close = close

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            yield piece

    async def aclose(self) -> None:
        if _BEHIND_RESPONSE(self._stream)[0]:
            await self._close()
        await self._stream.aclose()
