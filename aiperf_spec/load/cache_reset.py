"""Have a server empty its prefix cache."""

import asyncio

import orjson

from aiperf_spec.adapters.engines import known_engines
from aiperf_spec.client.client import Client
from aiperf_spec.client.failures import RequestFailedError
from aiperf_spec.config.server_url import split_endpoint
from aiperf_spec.config.settings import ProfileConfig

_TRIES = 5
_WAIT_SECONDS = 0.5
"""An engine refuses while requests hold blocks of the cache, and may do so for a moment after the last one."""
_PATIENCE_SECONDS = 60.0
"""An engine that is busy answers late: SGLang after 7 s on a machine that others used as well."""


async def reset_cache(config: ProfileConfig) -> str | None:
    """Ask every page that some engine has for it; return None where one did it, else why none did."""
    server = split_endpoint(config.url)
    paths = dict.fromkeys(engine.reset_cache_path for engine in known_engines().values() if engine.reset_cache_path)
    reason = "no page of the server empties its prefix cache (an engine may have one in its development mode only)"
    async with Client(config, server) as client:
        for path in paths:
            for _ in range(_TRIES):
                try:
                    page = await client.ask(f"{server.root}{path}{server.query}", "POST", _PATIENCE_SECONDS)
                except RequestFailedError as failure:
                    return f"POST {path}: {failure}"
                if page.status_code in (404, 405, 501):
                    break
                if page.is_success and not _says_failure(page.content):
                    return None
                reason = f"POST {path}: the server answered HTTP {page.status_code} and did not empty its prefix cache"
                await asyncio.sleep(_WAIT_SECONDS)
    return reason


def _says_failure(content: bytes) -> bool:
    try:
        answer = orjson.loads(content)
    except orjson.JSONDecodeError:
        return False
    return isinstance(answer, dict) and answer.get("success") is False
