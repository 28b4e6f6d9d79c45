"""Wait for a server that starts: until it lists the model and has answered one token."""

import asyncio
from contextlib import suppress
from typing import Any

import orjson

from aiperf_spec.client.client import Client
from aiperf_spec.client.failures import RequestFailedError
from aiperf_spec.client.sink import RequestTrace
from aiperf_spec.config.redaction import Redactor
from aiperf_spec.config.server_url import Server
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import ServerUnavailableError
from aiperf_spec.load.requester import new_id_starts
from aiperf_spec.models.run import Phase, request_id
from aiperf_spec.wire.outcome import request_failure
from aiperf_spec.wire.request_body import build_body
from aiperf_spec.wire.response_reader import ResponseReader
from aiperf_spec.workload.prompts import Prompt

_POLL_SECONDS = 0.5
_REFUSED = (400, 401, 403, 405, 413, 415, 422)
"""Statuses of a request that waiting does not mend; 404 is no such one: the model may be loading."""
_PROMPT = Prompt("ready", "Hello", output_length=1)


async def wait_until_ready(
    config: ProfileConfig, server: Server, client: Client, redactor: Redactor, *, option: str = "--ready-timeout"
) -> None:
    """Return once the server has listed the model and answered a request for one token; at once without a timeout.

    A server that lists no models is ready when it answers. A server that refuses the request is ready too: the run says
    what it refused. One that lists other models may still know this one, and is asked at the end. Raises
    `ServerUnavailableError` after `config.ready_timeout` seconds, which `option` gave.
    """
    if not config.ready_timeout:
        return
    loop = asyncio.get_running_loop()
    deadline = loop.time() + config.ready_timeout
    while True:
        left = deadline - loop.time()
        problem: str | None = "it has not answered in time"
        with suppress(TimeoutError):
            async with asyncio.timeout(max(left, _POLL_SECONDS)):
                problem = await _problem(config, server, client, is_last=left <= 0)
        if problem is None:
            return
        if left <= 0:
            raise ServerUnavailableError(
                f"{server.root} was not ready within {config.ready_timeout:g} s ({option}): "
                f"{redactor.cut_text(problem)}",
                "check that the server runs and that --url names it, or wait longer",
            )
        await asyncio.sleep(min(_POLL_SECONDS, max(0.0, deadline - loop.time())))


async def _problem(config: ProfileConfig, server: Server, client: Client, *, is_last: bool) -> str | None:
    """Say what the server still lacks; None where it is ready."""
    page = await client.get(server.models)
    if page is None:
        return "it does not answer"
    if page.is_server_error:
        return f"it answers HTTP {page.status_code} to a GET of its models"
    try:
        answer = orjson.loads(page.content) if page.is_success else None
    except orjson.JSONDecodeError:
        answer = None
    listed = listed_models(answer)
    if isinstance(answer, dict) and isinstance(answer.get("data"), list):
        if not listed and (config.model is None or not is_last):
            return "it lists no model"
        if config.model is not None and config.model not in listed and not is_last:
            return f"it does not list the model {config.model}"
    model = config.model or next(iter(listed), None)
    # Without a model the run says that it needs one.
    return None if model is None else await _unanswered(config, model, client)


async def _unanswered(config: ProfileConfig, model: str, client: Client) -> str | None:
    """Ask for one token and say what came in its place; None where it came, or the request was refused for good."""
    reader, trace, id_start = ResponseReader(()), RequestTrace(), new_id_starts()[Phase.WARMUP]
    body = orjson.dumps(build_body(config, model, (_PROMPT,)))
    try:
        await client.post(body, request_id(id_start, 0), trace, reader)
        error = request_failure(reader.responses, is_stream=reader.is_stream)
    except RequestFailedError as failure:
        error = failure.error
    return None if error is None or trace.status in _REFUSED else f"a request for one token failed: {error.message}"


def listed_models(answer: Any) -> dict[str, str | None]:
    """Return the models that an answer of /v1/models lists, each with its `owned_by`."""
    data = answer.get("data") if isinstance(answer, dict) else None
    return {
        entry["id"]: owner if isinstance(owner := entry.get("owned_by"), str) else None
        for entry in (data if isinstance(data, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("id"), str) and entry["id"]
    }
