"""Profile a server, start to end: the recipe behind the command and the Python entry."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import httpx
import orjson

from aiperf_spec.adapters.registry import load_registry
from aiperf_spec.client import Client, request_headers
from aiperf_spec.config import ProfileConfig
from aiperf_spec.errors import ConfigError, ServerUnavailableError
from aiperf_spec.models.run import Phase, RequestRecord, RunResult
from aiperf_spec.notices import run_notices
from aiperf_spec.redaction import Redactor
from aiperf_spec.runner import Requester, Sink, Stop, plan, run_phase
from aiperf_spec.urls import Server, split_endpoint
from aiperf_spec.wire.body import build_body
from aiperf_spec.workload.files import load_prompts
from aiperf_spec.workload.prompts import Prompt, order

_POLL_SECONDS = 0.5

T = TypeVar("T")


@dataclass(slots=True)
class Hooks:
    """What a caller takes part in.

    `on_plan` runs once the model is known and before the first request, and returns a sink: it may refuse by raising.
    `sinks` get every record as its request ends; `on_stop` gets the stop through which the run can be ended.
    """

    on_plan: Callable[[RunResult], Sink | None] | None = None
    sinks: Sequence[Sink] = ()
    on_stop: Callable[[Stop], None] | None = None
    transport: httpx.AsyncBaseTransport | None = None
    clock: Callable[[], int] = field(default=time.perf_counter_ns)


def first_request(config: ProfileConfig) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Return URL, headers and body of a run's first request, without sending anything; secrets are redacted."""
    server = split_endpoint(config.url)
    prompts, _ = load_prompts(config.input_file)
    chosen = _take(config, prompts)
    headers = {**request_headers(config, server), "x-request-id": "<one a request>"}
    url = server.endpoint(config.endpoint_type).partition("?")[0] + ("?..." if server.query else "")
    return url, Redactor(config, server).headers(headers), _checked_body(config, config.model, chosen)


def _take(config: ProfileConfig, prompts: tuple[Prompt, ...]) -> tuple[Prompt, ...]:
    ordered = order(prompts, config.dataset_sampling_strategy, config.random_seed)
    return tuple(itertools.islice(ordered, config.batch_size_text))


def _checked_body(config: ProfileConfig, model: str | None, prompts: tuple[Prompt, ...]) -> dict[str, Any]:
    body = build_body(config, model or "<the model that /v1/models lists>", prompts)
    try:
        orjson.dumps(body)
    except TypeError as error:
        raise ConfigError(f"the request body cannot be written as JSON: {error}") from None
    return body


def profile(config: ProfileConfig, hooks: Hooks | None = None) -> RunResult:
    """Profile a server and return the run: every record, and what is to be said of them.

    Writes the artifact folder where `config.artifact_dir` names one. Raises a `SpecProfileError` for what keeps the
    run from starting; failed requests are records, not exceptions. `aiperf_spec.metrics.summarise(result.records)`
    gives the figures.
    """
    hooks = hooks or Hooks()
    if hooks.on_plan is None and config.artifact_dir is not None:
        return _profile_into_folder(config, hooks)
    return run_in_loop(profile_async(config, hooks))


def _profile_into_folder(config: ProfileConfig, hooks: Hooks) -> RunResult:
    from aiperf_spec.export.writer import ArtifactWriter

    writer = ArtifactWriter(config)
    with writer:
        result = run_in_loop(profile_async(config, replace(hooks, on_plan=writer.open)))
        writer.finish(result)
    return result


def run_in_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on uvloop where the platform has it, on asyncio's own loop elsewhere."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(coroutine)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def profile_async(config: ProfileConfig, hooks: Hooks) -> RunResult:
    """Run within the caller's event loop; see `profile`."""
    server = split_endpoint(config.url)
    prompts, dataset = load_prompts(config.input_file)
    _checked_body(config, config.model, _take(config, prompts))
    registry = load_registry()
    redactor = Redactor(config, server)
    stop = Stop()
    if hooks.on_stop is not None:
        hooks.on_stop(stop)
    async with Client(config, server, transport=hooks.transport, clock=hooks.clock) as client:
        await stop.unless(_wait_until_ready(config, server, client))
        model, owned_by = await stop.unless(_model(config, server, client))
        result = RunResult(
            config=config,
            url=server.base,
            model=model,
            owned_by=owned_by,
            dataset=dataset,
            wall_offset_ns=time.time_ns() - hooks.clock(),
            run_id=uuid.uuid4().hex[:12],
        )
        sinks = [result.records.append, *hooks.sinks]
        if hooks.on_plan is not None and (writer := hooks.on_plan(result)) is not None:
            sinks.append(writer)
        requester = Requester(config, model, client, registry, redactor)
        await _run_phases(config, prompts, requester, _to_all(sinks), stop)
        result.stopped_by = stop.reason
        result.notices = run_notices(result, proxy=client.proxy, adapter_warnings=registry.warnings)
    return result


async def _run_phases(
    config: ProfileConfig, prompts: tuple[Prompt, ...], requester: Requester, sink: Sink, stop: Stop
) -> None:
    count = config.request_count or -(-len(prompts) // config.batch_size_text)
    for phase, requests in ((Phase.WARMUP, config.warmup_request_count), (Phase.PROFILING, count)):
        if requests and stop.reason is None:
            # Each phase starts at the first prompt, so that warming up does not change what is measured.
            ordered = order(prompts, config.dataset_sampling_strategy, config.random_seed)
            works = plan(ordered, requests, phase, config.batch_size_text)
            await run_phase(requester, works, min(config.concurrency, requests), sink, stop)


def _to_all(sinks: Sequence[Sink]) -> Sink:
    def sink(record: RequestRecord) -> None:
        for each in sinks:
            each(record)

    return sink


async def _wait_until_ready(config: ProfileConfig, server: Server, client: Client) -> None:
    if not config.ready_timeout:
        return
    loop = asyncio.get_running_loop()
    deadline = loop.time() + config.ready_timeout
    while not await client.is_up(server.models):
        if loop.time() + _POLL_SECONDS > deadline:
            raise ServerUnavailableError(
                f"{server.root} was not ready within {config.ready_timeout:g} s (--ready-timeout)",
                "check that the server runs and that --url names it",
            )
        await asyncio.sleep(_POLL_SECONDS)


async def _model(config: ProfileConfig, server: Server, client: Client) -> tuple[str, str | None]:
    answer = await client.get_json(server.models)
    listed = _listed_models(answer)
    if config.model is not None:
        return config.model, listed.get(config.model, next(iter(listed.values()), None))
    if len(listed) == 1:
        return next(iter(listed.items()))
    if not listed:
        raise ServerUnavailableError(
            f"{server.models} {'gives no answer' if answer is None else 'lists no model'}, so --model must name one",
            "check that the server runs and that --url names it, or give --model",
        )
    raise ConfigError(
        f"{server.models} lists {len(listed)} models, so --model must name one: " + ", ".join(sorted(listed))
    )


def _listed_models(answer: Any) -> dict[str, str | None]:
    data = answer.get("data") if isinstance(answer, dict) else None
    models: dict[str, str | None] = {}
    for entry in data if isinstance(data, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("id"), str) and entry["id"]:
            owner = entry.get("owned_by")
            models[entry["id"]] = owner if isinstance(owner, str) else None
    return models
