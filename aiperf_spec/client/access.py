"""How a server is reached: transport, certificates, headers."""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from aiperf_spec.client.transport.direct import DirectTransport
from aiperf_spec.client.transport.exchange import CONNECT_TIMEOUT_SECONDS, KEEP_ALIVE_SECONDS, Transport
from aiperf_spec.config.server_url import Server
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import ConfigError
from aiperf_spec.version import __version__

if TYPE_CHECKING:
    import httpx


def make_transport(
    config: ProfileConfig,
    server: Server,
    proxy: str | None,
    clock: Callable[[], int],
    given: httpx.AsyncBaseTransport | None,
) -> Transport:
    """Return a transport with as many connections as there are requests: the given one, a proxy's, or our own.

    Raises `ConfigError` for certificates or a proxy that cannot be used.
    """
    tls = tls_context(config)
    if given is None and (proxy is not None or server.root.startswith("https:")):
        # At once: reading certificates takes longer than many a response, and a file that is no good is to be known.
        try:
            tls()
        except OSError as error:
            raise ConfigError(str(error)) from None
    if given is None and proxy is None:
        return DirectTransport(tls, clock)
    # A tenth of what the program takes to start, which a run without a proxy need not wait for.
    import httpx

    from aiperf_spec.client.transport.through import HttpxTransport

    read, connect = config.request_timeout_seconds, CONNECT_TIMEOUT_SECONDS
    timeout = httpx.Timeout(connect=connect, read=read, write=read, pool=connect)
    keeps_alive = given is None
    if given is None:
        limits = httpx.Limits(keepalive_expiry=KEEP_ALIVE_SECONDS)
        try:
            given = httpx.AsyncHTTPTransport(verify=tls(), trust_env=False, limits=limits, proxy=proxy)
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            raise ConfigError(f"the proxy that the environment names cannot be used: {error}") from None
    return HttpxTransport(given, timeout, clock, keeps_alive=keeps_alive)


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


def tls_context(config: ProfileConfig) -> Callable[[], ssl.SSLContext]:
    """Return what gives the context by which certificates are checked; `ConfigError` for a file that holds none."""
    if config.insecure or config.ca_file is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if config.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            _load(context, config)
        return lambda: context
    # Reading the bundled certificates takes tens of milliseconds that plain HTTP need not pay.
    return cache(_bundled)


def _bundled() -> ssl.SSLContext:
    import httpx

    try:
        return httpx.create_ssl_context()
    except OSError as error:  # ssl.SSLError is one
        named = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR") or ""
        reason = error.strerror or error
        raise OSError(f"no certificates can be read from {named!r} (SSL_CERT_FILE, SSL_CERT_DIR): {reason}") from None


def _load(context: ssl.SSLContext, config: ProfileConfig) -> None:
    try:
        context.load_verify_locations(cafile=config.ca_file)
    except OSError as error:  # ssl.SSLError is one
        reason = "no PEM certificates in it" if isinstance(error, ssl.SSLError) else error.strerror or error
        raise ConfigError(f"--ca-file {str(config.ca_file)!r}: {reason}") from None
