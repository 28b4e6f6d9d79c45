"""Where metrics are to be asked for."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from aiperf_spec.adapters.engines import known_engines
from aiperf_spec.config.server_url import Server, split_endpoint, without_secrets
from aiperf_spec.config.settings import ProfileConfig


@dataclass(slots=True, frozen=True)
class MetricsEndpoint:
    """An endpoint and the paths under which it may be, most likely first.

    `server` says how to reach it, credentials included; `shown` is what may be printed and written.
    """

    server: Server
    urls: tuple[str, ...]

    @property
    def shown(self) -> str:
        """Return the first URL without its query, which may hold a key."""
        return self.urls[0].partition("?")[0]


def metrics_endpoints(config: ProfileConfig, server: Server) -> list[MetricsEndpoint]:
    """Return the endpoints to read: those that the user names, else the one beside the server's API."""
    if not config.server_metrics_url:
        paths = dict.fromkeys(("/metrics", *(engine.metrics_path for engine in known_engines().values())))
        return [MetricsEndpoint(server, tuple(f"{server.root}{path}{server.query}" for path in paths))]
    named = [_named(url) for url in config.server_metrics_url]
    return list({target.urls: target for target in named}.values())


def _named(url: str) -> MetricsEndpoint:
    full = url if "://" in url else f"http://{url}"
    server = split_endpoint(full)
    split = urlsplit(full)
    path = split.path if split.path.strip("/") else "/metrics"
    origin = f"{split.scheme.lower()}://{without_secrets(f'//{split.netloc}').removeprefix('//')}"
    return MetricsEndpoint(server, (f"{origin}{path}{server.query}",))
