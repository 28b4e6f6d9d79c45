"""Keep secrets out of everything that is written or shown."""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from aiperf_spec.config.server_url import Server, split_endpoint
from aiperf_spec.config.settings import ProfileConfig

REDACTED = "<redacted>"
_SECRET_NAME = re.compile(r"auth|cookie|key|token|secret|password|passwd|credential|session|signature", re.I)
_MIN_LENGTH = 4
"""A shorter secret would blank out harmless text wherever its letters stand."""


class Redactor:
    """Know a run's secrets, and take them out of headers and of text that a server may echo."""

    def __init__(self, config: ProfileConfig, server: Server) -> None:
        secrets = {value for name, value in config.headers if _SECRET_NAME.search(name)}
        # "Authorization: Bearer KEY" may be echoed as KEY alone.
        secrets |= {part for value in secrets for part in value.split()[1:]}
        if config.api_key:
            secrets.add(config.api_key)
        for pair in (server.credentials, *(split_endpoint(url).credentials for url in config.server_metrics_url)):
            if pair is not None:
                secrets |= {pair[1], base64.b64encode(":".join(pair).encode()).decode()}
        # A server may echo a secret within JSON or a URL, where some characters are written otherwise.
        secrets |= {json.dumps(secret)[1:-1] for secret in secrets} | {quote(secret, safe="") for secret in secrets}
        usable = (secret for secret in secrets if len(secret) >= _MIN_LENGTH)
        self._secrets = sorted(usable, key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return the text without any secret of the run."""
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        return text

    def value(self, value: Any) -> Any:
        """Return JSON with its strings cleaned, keys too; as text, a secret like `true` would tear it apart."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.value(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return headers with the values of secret-bearing names replaced."""
        return {name: REDACTED if _SECRET_NAME.search(name) else self.text(value) for name, value in headers.items()}
