"""How connections to a server are made: transport, certificates, headers.

httpx runs over aiohttp's transport, because httpx's own parses every chunk in Python. One corner of that transport
(httpx-aiohttp 0.2.0) shapes this module: aiohttp keeps a limit of 100 connections unless it is given a session whose
connector has none.
"""

from __future__ import annotations

import base64
import contextvars
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from aiperf_spec.config import ProfileConfig
from aiperf_spec.errors import ConfigError
from aiperf_spec.urls import Server
from aiperf_spec.version import __version__

CONNECT_TIMEOUT_SECONDS = 10.0
_KEEP_ALIVE_SECONDS = 60

_reused: contextvars.ContextVar[list[bool] | None] = contextvars.ContextVar("reused", default=None)


@contextmanager
def connection_reuse() -> Iterator[list[bool]]:
    """Give a list that is no longer empty once a request of this block was put on a kept-alive connection."""
    marks: list[bool] = []
    token = _reused.set(marks)
    try:
        yield marks
    finally:
        _reused.reset(token)


async def _note_reuse(_session: aiohttp.ClientSession, _context: SimpleNamespace, _params: object) -> None:
    marks = _reused.get()
    if marks is not None:
        marks.append(True)


def make_transport(tls: ssl.SSLContext, proxy: str | None, *, force_close: bool) -> AiohttpTransport:
    """Return a transport with as many connections as there are requests; `force_close` keeps none alive."""

    def session() -> aiohttp.ClientSession:
        trace = aiohttp.TraceConfig()
        trace.on_connection_reuseconn.append(_note_reuse)
        connector = aiohttp.TCPConnector(
            limit=0,
            ssl=tls,
            force_close=force_close,
            keepalive_timeout=None if force_close else _KEEP_ALIVE_SECONDS,
        )
        # A cookie would tie later requests to what an earlier one got.
        jar = aiohttp.DummyCookieJar()
        return aiohttp.ClientSession(connector=connector, cookie_jar=jar, trace_configs=[trace])

    through = httpx.Proxy(proxy) if proxy else None
    return AiohttpTransport(verify=tls, trust_env=False, client=session, proxy=through)


def request_headers(config: ProfileConfig, server: Server) -> dict[str, str]:
    """Return the headers of every request; the user's own win, whatever their case."""
    headers = {
        "user-agent": f"spec-profile/{__version__}",
        "accept": "text/event-stream" if config.streaming else "application/json",
        # Compression would make chunks arrive when the compressor flushes, not when tokens are made.
        "accept-encoding": "identity",
        "content-type": "application/json",
    }
    if config.api_key:
        headers["authorization"] = f"Bearer {config.api_key}"
    elif server.credentials:
        pair = ":".join(server.credentials).encode()
        headers["authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    for name, value in config.headers:
        headers[name.lower()] = value
    return headers


def tls_context(config: ProfileConfig, server: Server) -> ssl.SSLContext:
    """Return how certificates are checked; raise `ConfigError` for a file that holds none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if config.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    if config.ca_file is not None:
        try:
            context.load_verify_locations(cafile=config.ca_file)
        except OSError as error:  # ssl.SSLError is one
            reason = "no PEM certificates in it" if isinstance(error, ssl.SSLError) else error.strerror or error
            raise ConfigError(f"--ca-file {str(config.ca_file)!r}: {reason}") from None
        return context
    # Reading the bundled certificates takes tens of milliseconds that plain HTTP need not pay.
    return httpx.create_ssl_context() if server.root.startswith("https:") else context
