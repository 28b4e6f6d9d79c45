"""Keep secrets out of everything that is written or shown."""

import base64
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus

from aiperf_spec.config.secret_names import REDACTED, is_secret_input, is_secret_name
from aiperf_spec.config.server_url import Server, split_endpoint
from aiperf_spec.config.settings import ProfileConfig

_SCHEME = re.compile(r"(basic|bearer|digest|token)\s", re.I)
"""How the value of a header begins that holds a secret, whatever the header's name."""
_MIN_LENGTH = 4
"""A shorter secret would blank out harmless text wherever its letters stand."""
_HARMLESS = frozenset({"api-version", "true", "false", "null", "none", "latest"})
"""Parameters of a URL that hold no secret, by name or by value."""


class Redactor:
    """Know a run's secrets, and take them out of headers and of text that a server may echo.

    They are the key, user name and password, the queries of URLs, and the values of headers and of extra inputs whose
    names say that they hold one.
    """

    def __init__(self, config: ProfileConfig, server: Server) -> None:
        secrets = {config.api_key or ""}
        for name, value in config.headers:
            if is_secret_header(name, value):
                secrets |= _of_header(value)
        for each in (server, *(split_endpoint(url) for url in config.server_metrics_url)):
            # A gateway's query may name the model, which every table shows.
            secrets |= _of_url(each) - {config.model or ""}
        secrets.update(_of_inputs(config.extra_inputs, secret=False))
        spelled = {spelling for secret in secrets if secret for spelling in _spellings(secret)}
        usable = (spelling for spelling in spelled if len(spelling) >= _MIN_LENGTH)
        self._secrets = sorted(usable, key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return the text without any secret of the run."""
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        return text

    def cut_text(self, text: str) -> str:
        """Return the same of a text that may have been cut: the beginning of a secret at its end goes too."""
        clean = self.text(text)
        body = clean.removesuffix("...")
        for secret in self._secrets:
            for length in range(min(len(secret) - 1, len(body)), _MIN_LENGTH - 1, -1):
                if body.endswith(secret[:length]):
                    return body[:-length] + REDACTED + clean[len(body) :]
        return clean

    def split(self, pieces: Sequence[str]) -> set[str]:
        """Return those pieces of a text that make up a secret only together."""
        found: set[str] = set()
        ends = list(accumulate(map(len, pieces)))
        whole = "".join(pieces)
        for secret in self._secrets:
            for match in re.finditer(re.escape(secret), whole):
                first, last = bisect_right(ends, match.start()), bisect_left(ends, match.end())
                found |= set(pieces[first : last + 1]) if first < last else set()
        return found - {""}

    def value(self, value: Any) -> Any:
        """Return JSON with its strings cleaned, keys too; as text, a secret like `true` would tear it apart."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {
                self.text(key) if isinstance(key, str) else key: REDACTED
                if isinstance(item, str) and isinstance(key, str) and is_secret_input(key)
                else self.value(item)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return headers with the values of secret-bearing names replaced."""
        return {n: REDACTED if is_secret_header(n, value) else self.text(value) for n, value in headers.items()}


def without_texts(value: Any, texts: Collection[str]) -> Any:
    """Return JSON in which nothing but a mark stands for the strings that are one of the texts, or a part of one."""
    if isinstance(value, str):
        return REDACTED if value and any(value in text for text in texts) else value
    if isinstance(value, dict):
        return {key: without_texts(item, texts) for key, item in value.items()}
    return [without_texts(item, texts) for item in value] if isinstance(value, list) else value


def is_secret_header(name: str, value: str) -> bool:
    """Say whether a header holds a secret: its name tells, or the scheme with which its value begins."""
    return is_secret_name(name) or _SCHEME.match(value) is not None


def _of_header(value: str) -> set[str]:
    # "Authorization: Bearer KEY" may be echoed as KEY alone, and "Cookie: a=1; b=2" by its parts.
    words = re.split(r"[\s;,]+", value)
    parts = {part for word in words for part in (word, word.partition("=")[2].strip('"'))} if len(words) > 1 else set()
    parts.discard(words[0])
    if words[0].lower() == "basic":
        with suppress(ValueError):
            parts.add(base64.b64decode(words[-1]).decode().partition(":")[2])
    return {value, value.partition("=")[2], *parts}


def _of_url(server: Server) -> set[str]:
    query = server.query.removeprefix("?")
    secrets = {query}
    for part in query.split("&"):
        name, _, raw = part.partition("=")
        for value in (raw, *(value for _, value in parse_qsl(part))):
            if name.lower() not in _HARMLESS and value.lower() not in _HARMLESS:
                secrets.add(value)
    if server.credentials is not None:
        user, password = server.credentials
        secrets |= {password or user, base64.b64encode(f"{user}:{password}".encode()).decode()}
    return secrets


def _of_inputs(value: Any, *, secret: bool) -> Iterator[str]:
    if isinstance(value, str) and secret:
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _of_inputs(item, secret=secret or is_secret_input(str(name)))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _of_inputs(item, secret=secret)


def _spellings(secret: str) -> set[str]:
    """Return how a server may write a secret: within JSON, a URL or HTML, where some characters are escaped."""
    from html import escape  # half a megabyte of entities, which a run without secrets need not load

    in_url = quote(secret, safe="")
    spelled = {secret, quote(secret), in_url, quote_plus(secret), re.sub("%..", lambda m: m[0].lower(), in_url)}
    spelled |= {escape(secret), secret.replace("/", "\\/")}
    for each in (json.dumps(secret), json.dumps(secret, ensure_ascii=False)):
        spelled |= {each[1:-1], re.sub("[&<>='+]", lambda m: f"\\u{ord(m[0]):04x}", each[1:-1])}
    return spelled
