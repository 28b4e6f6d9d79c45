"""Have a server empty its prefix cache."""

import asyncio

import orjson

from aiperf_spec.adapters.registry import known_engines
from aiperf_spec.client.client import Client
from aiperf_spec.client.failures import RequestFailedError
from aiperf_spec.config.server_url import split_endpoint
from aiperf_spec.config.settings import ProfileConfig

_TRIES = 5
_WAIT_SECONDS = 0.5
"""An engine refuses while requests hold blocks of the cache, and may do so for a moment after the last one."""


async def reset_cache(config: ProfileConfig) -> bool | None:
    """Ask every page that some engine has for it; say whether one of them did, None where no server answers."""
    server = split_endpoint(config.url)
    paths = dict.fromkeys(engine.reset_cache_path for engine in known_engines().values() if engine.reset_cache_path)
    async with Client(config, server) as client:
        for path in paths:
            for _ in range(_TRIES):
                try:
                    done = await _reset(client, f"{server.root}{path}{server.query}")
                except RequestFailedError:
                    return None
                if done is None:
                    break
                if done:
                    return True
                await asyncio.sleep(_WAIT_SECONDS)
    return False


async def _reset(client: Client, url: str) -> bool | None:
    """Return whether the page did it, None where there is none."""
    page = await client.ask(url, "POST")
    if page.status_code in (404, 405, 501):
        return None
    if not page.is_success:
        return False
    try:
        answer = orjson.loads(page.content)
    except orjson.JSONDecodeError:
        return True
    return not (isinstance(answer, dict) and answer.get("success") is False)
