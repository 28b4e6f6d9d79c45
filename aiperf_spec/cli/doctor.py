"""Say what a server is, whether it reports acceptance, and what to change if not: one request of 16 tokens."""

from typing import Any

import typer

from aiperf_spec.adapters.description import EngineDescription, recognised
from aiperf_spec.adapters.engines import known_engines
from aiperf_spec.cli.terminal import note, stdout, translated_errors
from aiperf_spec.client.client import Client
from aiperf_spec.config.redaction import Redactor
from aiperf_spec.config.server_url import split_endpoint
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import ExitCode
from aiperf_spec.load.event_loop import run_in_loop
from aiperf_spec.load.readiness import listed_models
from aiperf_spec.load.server_pages import read_pages, read_version
from aiperf_spec.models.run import NoticeKind
from aiperf_spec.profiling import profile
from aiperf_spec.render.diagnosis import ServerInfo, diagnose, diagnosis_report
from aiperf_spec.render.notices import notice_text

MAX_TOKENS = 16
_TOLD = frozenset({NoticeKind.MAX_TOKENS_REFUSED, NoticeKind.PROXY, NoticeKind.INSECURE, NoticeKind.ADAPTER})


def doctor(values: dict[str, Any]) -> None:
    """Send one request, print the result and what to change; exit with 0 if acceptance is reported, else with 1.

    `values` are of `ProfileConfig`.
    """
    with translated_errors():
        config = ProfileConfig.create(**{"temperature": 0, **values}, request_count=1, max_tokens=MAX_TOKENS)
        server = run_in_loop(_look(config))
        asking = {} if server.engine is None else known_engines()[server.engine].request_inputs
        missing = asking.keys() - config.extra_inputs.keys()
        if missing:
            config = config.model_copy(update={"extra_inputs": {**asking, **config.extra_inputs}})
        result = profile(config)
        diagnosis = diagnose(result, server, asked_for_user=bool(missing))
    stdout().print(diagnosis_report(diagnosis))
    for notice in result.notices:
        if notice.kind in _TOLD:
            note(notice_text(notice))
    raise typer.Exit(ExitCode.OK if diagnosis.reported else ExitCode.NO_SUCCESS)


async def _look(config: ProfileConfig) -> ServerInfo:
    server = split_endpoint(config.url)
    redactor = Redactor(config, server)
    async with Client(config, server) as client:
        models = listed_models(await client.get_json(server.models))
        owner = models.get(config.model or "", next(iter(models.values()), None)) or None
        engines = known_engines()
        engine = recognised(owner, engines)
        version = (await read_pages(server, client, redactor, owner)).version
        if engine is None:
            version = await read_version(server, client, EngineDescription(name=""))
    shown = (None if text is None else redactor.text(text) for text in (owner, engine, version))
    return ServerInfo(*shown)
