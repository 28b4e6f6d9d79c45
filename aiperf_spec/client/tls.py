"""Choose the certificates by which servers are checked."""

from __future__ import annotations

import os
import ssl

import httpx

from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import ConfigError


def tls_context(config: ProfileConfig) -> ssl.SSLContext:
    """Return the context by which certificates are checked; `ConfigError` for a file that holds none.

    Without `--ca-file` or `--insecure` they are those that httpx takes: of `SSL_CERT_FILE` or `SSL_CERT_DIR` where set,
    else certifi's.
    """
    if config.insecure or config.ca_file is None:
        try:
            return httpx.create_ssl_context(verify=not config.insecure)
        except OSError as error:  # ssl.SSLError is one
            named = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR") or ""
            text = f"no certificates can be read from {named!r} (SSL_CERT_FILE, SSL_CERT_DIR)"
            raise ConfigError(f"{text}: {error.strerror or error}") from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cafile=config.ca_file)
    except OSError as error:
        reason = "no PEM certificates in it" if isinstance(error, ssl.SSLError) else error.strerror or error
        raise ConfigError(f"--ca-file {str(config.ca_file)!r}: {reason}") from None
    return context
