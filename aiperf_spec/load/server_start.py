"""Start a server by its command, wait until it is ready, and say why where it does not get so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from aiperf_spec.client.client import Client
from aiperf_spec.config.redaction import Redactor
from aiperf_spec.config.server_url import origin_of, split_endpoint
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import ServerUnavailableError
from aiperf_spec.load.process_group import ProcessGroup
from aiperf_spec.load.readiness import wait_until_ready

_LOOK_SECONDS = 0.25
_FREE_SECONDS = 10.0
"""How long the port may still be taken: a server that was ended may take a while to let go of it."""
_LAST_LINES, _LAST_BYTES = 5, 4096


async def expect_free_port(config: ProfileConfig) -> None:
    """Return once nothing listens where the server is to; raise `ServerUnavailableError` where something goes on to."""
    server = split_endpoint(config.url)
    _, host, port = origin_of(server.root)
    deadline = asyncio.get_running_loop().time() + _FREE_SECONDS
    while await _is_taken(host, port):
        if asyncio.get_running_loop().time() > deadline:
            raise ServerUnavailableError(
                f"{host}:{port} is taken: something listens there before the server was started",
                "end it, or start the server on another port and name that with --url",
            )
        await asyncio.sleep(_LOOK_SECONDS)


async def _is_taken(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(1):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def expect_ready(config: ProfileConfig, group: ProcessGroup, log: Path) -> None:
    """Return once the server lists the model and has answered one token, within `config.ready_timeout` seconds.

    Raises `ServerUnavailableError` where it is not ready by then, or has ended, with the last lines of its log.
    """
    server = split_endpoint(config.url)
    redactor = Redactor(config, server)
    async with Client(config, server) as client:
        waiting = wait_until_ready(config, server, client, redactor, option="--serve-timeout")
        ready = asyncio.ensure_future(waiting)
        ended = asyncio.ensure_future(_when(lambda: group.has_ended))
        try:
            await asyncio.wait({ready, ended}, return_when=asyncio.FIRST_COMPLETED)
            problem = ready.exception() if ready.done() else None
            if not ready.done():
                problem = ServerUnavailableError(f"{ended_text(group)} before it was ready")
            if isinstance(problem, ServerUnavailableError):
                raise ServerUnavailableError(problem.message + redactor.text(last_lines(log)), problem.remedy)
            if problem is not None:
                raise problem
        finally:
            for task in (ready, ended):
                task.cancel()
            await asyncio.gather(ready, ended, return_exceptions=True)


async def _when(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110  a process group has no event to wait for
        await asyncio.sleep(_LOOK_SECONDS)


def ended_text(group: ProcessGroup) -> str:
    """Say how a server ended, as the beginning of a sentence."""
    status = group.status
    how = "" if status is None else f" by signal {-status}" if status < 0 else f" with exit code {status}"
    return f"the server ended{how}"


def last_lines(log: Path) -> str:
    """Return the end of a log as a clause that follows what happened."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _LAST_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    said = [" ".join(line.split()) for line in lines if line.strip()][-_LAST_LINES:]
    return f"; {log} ends: {' | '.join(said)}" if said else f"; {log} is empty"
