"""Measure a run: all its requests, from the first look at the server to the last read of its counters."""

from __future__ import annotations

import time
import uuid
from array import array
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import orjson

from aiperf_spec.adapters.registry import load_registry
from aiperf_spec.client.client import Client, request_headers
from aiperf_spec.config.choices import ExportLevel
from aiperf_spec.config.redaction import Redactor
from aiperf_spec.config.server_url import split_endpoint
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import ConfigError, SpecProfileError, StoppedError, standing_alone
from aiperf_spec.load.event_loop import monitored_loop_lag, running
from aiperf_spec.load.failing import FailureWatch
from aiperf_spec.load.model import find_model
from aiperf_spec.load.notices import run_notices
from aiperf_spec.load.open_files import allow_connections
from aiperf_spec.load.plan import own_requests_of, planned
from aiperf_spec.load.readiness import wait_until_ready
from aiperf_spec.load.requester import Requester, Sink
from aiperf_spec.load.scheduler import PhaseRunner, Sender
from aiperf_spec.load.server_clock import read_clock
from aiperf_spec.load.server_pages import read_pages
from aiperf_spec.load.start import check_start, wait_for_start
from aiperf_spec.load.stop import Stop
from aiperf_spec.load.tokenizer import load_counter
from aiperf_spec.models.run import Phase, RequestRecord, RunInfo, RunResult
from aiperf_spec.models.server_metrics import ServerMetrics
from aiperf_spec.models.units import NS_PER_MS
from aiperf_spec.server_metrics.reconciliation import reconcile
from aiperf_spec.server_metrics.scraper import HURRIED_SECONDS, MetricsScraper
from aiperf_spec.wire.request_body import build_body
from aiperf_spec.workload.dataset import Workload, open_workload

if TYPE_CHECKING:
    import httpx

    from aiperf_spec.artifacts.write.writer import ArtifactWriter


@dataclass(slots=True)
class Hooks:
    """What a caller takes part in.

    `on_plan` is told of the run once the model is known and before the first request: it may refuse by raising.
    `writer` then opens the artifact folder, and gets every record as its request ends, after `sinks`. `on_stop` gets
    the stop through which the run can be ended.
    """

    on_plan: Callable[[RunInfo], None] | None = None
    writer: ArtifactWriter | None = None
    sinks: Sequence[Sink] = ()
    on_stop: Callable[[Stop], None] | None = None
    watch: Callable[[Callable[[], int]], Coroutine[Any, Any, None]] | None = None
    """Runs beside the phases and is cancelled after them; is handed what tells how many requests are in flight."""
    transport: httpx.AsyncBaseTransport | None = None
    clock: Callable[[], int] = field(default=time.perf_counter_ns)


def first_request(config: ProfileConfig) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Return URL, headers and body of a run's first request, without sending anything; secrets are redacted."""
    server = split_endpoint(config.url)
    body = _first_body(config, open_workload(config))
    headers = {**request_headers(config, server), "x-request-id": "<one a request>"}
    url = server.endpoint(config.endpoint_type).partition("?")[0] + ("?..." if server.query else "")
    redactor = Redactor(config, server)
    return url, redactor.headers(headers), redactor.value(body)


def _first_body(config: ProfileConfig, workload: Workload) -> dict[str, Any]:
    requests, prompts = planned(config, workload, Phase.PROFILING)
    first = next(requests, None)
    if first is None:
        if prompts.failure is not None:
            raise prompts.failure
        raise ConfigError(
            f"--share {config.share} leaves this client nothing to send: there are fewer requests than clients",
            "run fewer clients, or send more requests (--request-count)",
        )
    body = build_body(config, config.model or "<the model that /v1/models lists>", first.prompts)
    try:
        orjson.dumps(body)
    except TypeError as error:
        raise ConfigError(f"the request body cannot be written as JSON: {error}") from None
    return body


async def measure_run(config: ProfileConfig, hooks: Hooks) -> RunResult:
    """Send a run's requests and return their records, and what is to be said of them.

    A writer, where one is given, gets the records as they end. Raises a `SpecProfileError` for what keeps the run from
    starting.
    """
    server = split_endpoint(config.url)
    workload = open_workload(config)
    _first_body(config, workload)  # which raises where it cannot be sent
    counter = None if config.tokenizer is None else load_counter(config.tokenizer)
    registry = load_registry()
    redactor = Redactor(config, server)
    allow_connections(config)
    stop = Stop()
    if hooks.on_stop is not None:
        hooks.on_stop(stop)
    async with Client(config, server, transport=hooks.transport, clock=hooks.clock) as client:
        await stop.unless(wait_until_ready(config, server, client, redactor))
        # Stopped by now, a run still shows and writes that it sent nothing, where its model can be known.
        found = await stop.unless(find_model(config, server, client, redactor), HURRIED_SECONDS)
        model, owned_by = found.name, found.owned_by
        pages = await stop.unless(read_pages(server, client, redactor, owned_by), HURRIED_SECONDS)
        clock = None
        if config.share is not None or config.start_at is not None:
            # A client that is to send nothing needs no clock.
            with suppress(StoppedError):
                clock = await stop.unless(read_clock(server, client))
        wall_offset_ns = (
            time.time_ns() - hooks.clock() + (0 if clock is None else round(clock.correction_ms * NS_PER_MS))
        )
        if stop.reason is None:
            check_start(config, wall_offset_ns + hooks.clock())
        info = RunInfo(
            config=config,
            url=server.base,
            model=redactor.text(model),
            owned_by=None if owned_by is None else redactor.text(owned_by),
            dataset=workload.info,
            wall_offset_ns=wall_offset_ns,
            clock=clock,
            run_id=uuid.uuid4().hex[:12],
            drafter=pages.drafter,
            server_version=pages.version,
        )
        if hooks.on_plan is not None:
            hooks.on_plan(info)
        folder = None if hooks.writer is None else hooks.writer.open(info)
        records: list[RequestRecord] = []
        watch = FailureWatch(config, found, own_requests_of(config, workload.info, Phase.PROFILING))

        def sink(record: RequestRecord) -> None:
            if info.drafter is not None and record.acceptance is not None:
                record.acceptance = info.drafter.completed(record.acceptance)
            for each in hooks.sinks:
                each(record)
            if hooks.writer is not None:
                hooks.writer.append(record)
                # The answer, and what went over the wire, are in the file from then on: a run cannot hold all of it.
                record.answer = None
                record = record if record.raw is None else replace(record, raw=None)
            records.append(record)
            if (failure := watch.look(record)) is not None:
                stop.give_up(failure)

        looks = _looks_at_answers(config, hooks)
        requester = Requester(
            config, model, client, registry, redactor, counter, looks_at_answers=looks, clock=hooks.clock
        )
        phase_runner = PhaseRunner(config, workload, requester, sink, stop, hooks.clock)
        async with MetricsScraper(config, server, client, redactor, hooks.clock) as scraper:
            sent = await _send(phase_runner, model, info.wall_offset_ns, hooks, scraper)
            # From here on nothing that goes wrong may cost what was measured.
            faults: list[SpecProfileError] = []
            metrics = reconciliation = None
            with standing_alone("the comparison with the server's counters", faults):
                metrics = await _server_metrics(records, scraper, info.wall_offset_ns, hurry=stop.reason is not None)
                # What the server counted is of all clients, what is compared with it of this one.
                alone = config.client_share.count == 1
                reconciliation = reconcile(records, metrics, info.drafter) if metrics is not None and alone else None
        info = replace(info, dataset=workload.info)  # what a streamed file held is known only now
        run = RunResult(
            **{known.name: getattr(info, known.name) for known in fields(info)},
            records=records,
            unsent=phase_runner.unsent,
            loop_lags_ns=sent.lags_ns,
            stopped_by=stop.signal,
            failure=sent.failure or stop.failure or watch.verdict(),
            artifact_dir=folder,
            server_metrics=metrics,
            reconciliation=reconciliation,
            faults=faults,
        )
        warnings = list(dict.fromkeys(map(redactor.text, [*registry.warnings, *sent.warnings])))
    notices = scraper.notices
    with standing_alone("the list of notices", faults):
        own = run_notices(run, proxy=client.proxy, adapter_warnings=warnings, handover_ns=sent.handover_ns)
        notices = [*own, *notices]
    return replace(run, notices=notices)


@dataclass(slots=True)
class _Sent:
    """How sending went; the last two are of worker processes."""

    failure: SpecProfileError | None
    lags_ns: array[int]
    handover_ns: Sequence[int] = ()
    warnings: Sequence[str] = ()


async def _send(
    phase_runner: PhaseRunner, model: str, wall_offset_ns: int, hooks: Hooks, scraper: MetricsScraper
) -> _Sent:
    """Run the phases, from this process or from several."""
    config, stop, sender = phase_runner.config, phase_runner.stop, phase_runner.sender

    def watching(sender: Sender) -> AbstractAsyncContextManager[object]:
        return nullcontext() if hooks.watch is None else running(hooks.watch(lambda: sender.in_flight))

    async def run_phases() -> SpecProfileError | None:
        if stop.reason is None and (failure := await phase_runner.run(Phase.WARMUP, hooks.clock())) is not None:
            return failure
        if stop.reason is None:
            await scraper.begin(stop.wait, settle=bool(config.warmup_request_count or config.ready_timeout))
        start = await wait_for_start(config, wall_offset_ns, hooks.clock, stop)
        return await phase_runner.run(Phase.PROFILING, start) if isinstance(start, int) else start

    if config.workers == 1 or stop.reason is not None:
        async with monitored_loop_lag(hooks.clock) as lags_ns, watching(sender):
            return _Sent(await run_phases(), lags_ns)
    from aiperf_spec.load.worker_processes import WorkerProcesses

    async with WorkerProcesses(config, model, stop, _looks_at_answers(config, hooks)) as processes, watching(processes):
        phase_runner.sender = processes
        failure = await run_phases()
    return _Sent(failure or processes.failure, processes.lags_ns, processes.handover_ns, processes.warnings)


def _looks_at_answers(config: ProfileConfig, hooks: Hooks) -> bool:
    return hooks.writer is not None and config.export_level is not ExportLevel.SUMMARY


async def _server_metrics(
    records: Sequence[RequestRecord], scraper: MetricsScraper, wall_offset_ns: int, *, hurry: bool
) -> ServerMetrics | None:
    profiled = [record for record in records if record.phase is Phase.PROFILING]
    if not profiled:
        return None
    start_ns, end_ns = min(r.start_ns for r in profiled), max(r.end_ns for r in profiled)
    return await scraper.end(start_ns, end_ns, wall_offset_ns, hurry=hurry)
