"""Read what a server's own pages say of it: the engine's version, and how it drafts."""

from dataclasses import dataclass, replace
from typing import Any

from aiperf_spec.adapters.description import EngineDescription, recognised
from aiperf_spec.adapters.engines import known_engines
from aiperf_spec.client.client import Client
from aiperf_spec.config.redaction import Redactor
from aiperf_spec.config.server_url import Server
from aiperf_spec.models.drafter import ServerDrafter


@dataclass(slots=True, frozen=True)
class ServerPages:
    """What the pages say, None where they do not; nothing in it is secret."""

    version: str | None = None
    drafter: ServerDrafter | None = None


async def read_pages(server: Server, client: Client, redactor: Redactor, owned_by: str | None) -> ServerPages:
    """Ask the pages of the engine that `owned_by` of the list of models names; an unknown engine is asked nothing."""
    engines = known_engines()
    if (name := recognised(owned_by, engines)) is None:
        return ServerPages()
    engine, settings = engines[name], None
    if engine.settings_path is not None:
        # It holds more than is for us, keys among it.
        settings = await client.get_json(f"{server.root}{engine.settings_path}")
    found = engine.drafter.read(name, settings)
    if found is not None and found.method is not None:
        found = replace(found, method=redactor.text(found.method))
    version = _text(settings, "version") or await read_version(server, client, engine)
    return ServerPages(None if version is None else redactor.text(version), found)


async def read_version(server: Server, client: Client, engine: EngineDescription) -> str | None:
    """Return the version that the engine's page for it gives."""
    return _text(await client.get_json(f"{server.root}{engine.version_path}"), engine.version_key)


def _text(answer: Any, key: str) -> str | None:
    value = answer.get(key) if isinstance(answer, dict) else None
    return value if isinstance(value, str) and value else None
