"""Say what a server is, whether it reports acceptance, and what to change if not: one request of 16 tokens."""

from __future__ import annotations

from typing import Any

import typer

from aiperf_spec.cli.terminal import note, stdout, translated_errors
from aiperf_spec.client.client import Client
from aiperf_spec.config.server_url import split_endpoint
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import ExitCode
from aiperf_spec.load.event_loop import run_in_loop
from aiperf_spec.models.run import NoticeKind
from aiperf_spec.profiling import profile
from aiperf_spec.render.diagnosis import ServerInfo, diagnose, diagnosis_report
from aiperf_spec.render.notices import engine_of, notice_text

MAX_TOKENS = 16
_ASK = "return_spec_tokens_details"
"""The field of a request by which SGLang is asked."""
_TOLD = frozenset({NoticeKind.MAX_TOKENS_REFUSED, NoticeKind.PROXY, NoticeKind.INSECURE, NoticeKind.ADAPTER})


def doctor(values: dict[str, Any]) -> None:
    """Send one request, print what came of it and what to change; leaves with 0 where acceptance is reported, else 1.

    `values` are of `ProfileConfig`.
    """
    with translated_errors():
        config = ProfileConfig.create(**{"temperature": 0, **values}, request_count=1, max_tokens=MAX_TOKENS)
        server = run_in_loop(_look(config))
        asked = server.engine == "sglang" and _ASK not in config.extra_inputs
        if asked:
            config = config.model_copy(update={"extra_inputs": {**config.extra_inputs, _ASK: True}})
        result = profile(config)
        diagnosis = diagnose(result, server, asked_for_user=asked)
    stdout().print(diagnosis_report(diagnosis))
    for notice in result.notices:
        if notice.kind in _TOLD:
            note(notice_text(notice))
    raise typer.Exit(ExitCode.OK if diagnosis.reported else ExitCode.NO_SUCCESS)


async def _look(config: ProfileConfig) -> ServerInfo:
    server = split_endpoint(config.url)
    async with Client(config, server) as client:
        models = await client.get_json(server.models)
        owner = _owner(models, config.model)
        engine = engine_of(owner)
        version = _text(await client.get_json(f"{server.root}/version"), "version")
        algorithm = None
        if engine == "sglang":
            # SGLang's own page of settings; it holds more than is for us, keys among it.
            info = await client.get_json(f"{server.root}/get_server_info")
            version = version or _text(info, "version")
            algorithm = _text(info, "speculative_algorithm")
    return ServerInfo(owner, engine, version, algorithm)


def _owner(answer: Any, model: str | None) -> str | None:
    listed = answer.get("data") if isinstance(answer, dict) else None
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    chosen = next((entry for entry in entries if entry.get("id") == model), entries[0] if entries else None)
    return _text(chosen, "owned_by")


def _text(answer: Any, key: str) -> str | None:
    value = answer.get(key) if isinstance(answer, dict) else None
    return value if isinstance(value, str) and value else None
