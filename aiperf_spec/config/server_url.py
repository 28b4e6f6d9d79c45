"""Find the endpoint that a user means by `--url`."""

import re
from dataclasses import dataclass
from ipaddress import IPv6Address
from urllib.parse import SplitResult, unquote, urlsplit

from aiperf_spec.errors import ConfigError

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")
_VERSION = re.compile(r"v\d+\w*")
_ENDPOINT_PATHS = {"chat/completions": "chat", "completions": "completions"}
_PROBES = ("/models", "/health", "/metrics")


@dataclass(slots=True, frozen=True)
class Server:
    """Where a server's API is. `base` ends in its version, if it has one; `root` lies above it. No slash ends either.

    `implied_endpoint` is "chat" or "completions" where the URL named the whole path. `credentials` are the user name
    and password of the URL, kept apart so that nothing prints them. `query` is sent with every request to `base`.
    """

    root: str
    base: str
    host: str
    query: str = ""
    implied_endpoint: str | None = None
    credentials: tuple[str, str] | None = None

    @property
    def origin(self) -> tuple[str, str, int]:
        """Return scheme, host and port: what a key is given for."""
        return origin_of(self.root)

    def endpoint(self, endpoint_type: str) -> str:
        """Return the URL to which requests of this kind are posted."""
        path = next(path for path, kind in _ENDPOINT_PATHS.items() if kind == endpoint_type)
        return f"{self.base}/{path}{self.query}"

    def shown(self, endpoint_type: str) -> str:
        """Return the same without its query, which may hold a key."""
        return self.endpoint(endpoint_type).partition("?")[0]

    @property
    def models(self) -> str:
        """Return the URL that lists models."""
        return f"{self.base}/models{self.query}"


def split_endpoint(url: str) -> Server:
    """Return the server that a URL names, however much of the path it gives.

    `host`, `host:port`, `http://host`, `.../v1`, `.../v1/`, `.../v1/chat/completions` and a bare IPv6 address all
    reach the same place. Raises `ConfigError` naming the URL, without its credentials.
    """
    text = url.strip()
    split, port = _parsed(text if _SCHEME.match(text) else f"http://{_bracketed(text)}", text)
    host = split.hostname or ""
    segments = [segment for segment in split.path.split("/") if segment]
    implied = None
    for path, kind in _ENDPOINT_PATHS.items():
        parts = path.split("/")
        if segments[-len(parts) :] == parts:
            segments = segments[: -len(parts)]
            implied = kind
            break
    else:
        if segments and f"/{segments[-1]}" in _PROBES:
            segments.pop()
    netloc = f"[{host}]" if ":" in host else host
    if port is not None:
        netloc += f":{port}"
    # Whoever names the whole path means that one: some gateways have no version.
    version = "" if implied else "/v1"
    if segments and _VERSION.fullmatch(segments[-1]):
        version = f"/{segments.pop()}"
    root = f"{split.scheme.lower()}://{netloc}" + "".join(f"/{segment}" for segment in segments)
    credentials = None
    if split.username is not None:
        credentials = (unquote(split.username), unquote(split.password or ""))
    return Server(
        root=root,
        base=f"{root}{version}",
        host=host,
        query=f"?{split.query}" if split.query else "",
        implied_endpoint=implied,
        credentials=credentials,
    )


def _parsed(url: str, given: str) -> tuple[SplitResult, int | None]:
    shown = without_secrets(given)
    remedy = "give --url as http://HOST:PORT"
    if not given:
        raise ConfigError("--url is empty", remedy)
    if any(c.isspace() or not c.isprintable() for c in given):
        raise ConfigError(f"--url {shown!r}: a URL holds no spaces or control characters", remedy)
    # The parser's own messages quote what they cannot read, and that may be a password.
    try:
        split = urlsplit(url)
    except ValueError:
        raise ConfigError(f"--url {shown!r}: the host cannot be read", remedy) from None
    try:
        port = split.port
    except ValueError:
        raise ConfigError(f"--url {shown!r}: the port must be a number from 1 to 65535", remedy) from None
    if port == 0:
        raise ConfigError(f"--url {shown!r}: the port must be a number from 1 to 65535", remedy)
    if split.scheme.lower() not in ("http", "https"):
        raise ConfigError(f"--url {shown!r}: the scheme must be http or https, not {split.scheme!r}", remedy)
    if not split.hostname:
        raise ConfigError(f"--url {shown!r}: no host", remedy)
    return split, port


def _bracketed(text: str) -> str:
    # A bare IPv6 address needs brackets before a URL parser takes it.
    host, slash, path = text.partition("/")
    try:
        IPv6Address(host)
    except ValueError:
        return text
    return f"[{host}]{slash}{path}"


def origin_of(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of an http or https URL, the scheme's own port where it names none."""
    split = urlsplit(url)
    scheme = split.scheme.lower()
    return scheme, (split.hostname or "").lower(), split.port or (443 if scheme == "https" else 80)


def without_secrets(url: str) -> str:
    """Return the URL as given, less user name, password and query."""
    scheme = found.group() if (found := _SCHEME.match(url)) else ""
    # Up to the last @ of all: in a URL that is wrong, a password may hold an unescaped slash.
    shown, mark, query = url[len(scheme) :].partition("?")
    if "@" in query:
        return f"{scheme}..."  # the rest of a password as well as a part of the query
    return scheme + shown.rpartition("@")[2].partition("#")[0] + ("?..." if mark else "")
