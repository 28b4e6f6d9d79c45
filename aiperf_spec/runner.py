"""Send a run's requests: phases, workers, cancellation. Each record goes to a sink as its request ends."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from aiperf_spec.adapters.registry import AdapterRegistry
from aiperf_spec.choices import ExportLevel
from aiperf_spec.client import Client, Exchange
from aiperf_spec.client_errors import RequestFailedError
from aiperf_spec.config import ProfileConfig
from aiperf_spec.errors import StoppedError
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.response import ParsedResponse, last_usage
from aiperf_spec.models.run import ErrorKind, Phase, RawExchange, RequestError, RequestRecord
from aiperf_spec.redaction import Redactor
from aiperf_spec.wire.body import asks_for_several_sequences, build_body
from aiperf_spec.wire.outcome import judge
from aiperf_spec.wire.parse import parse_event
from aiperf_spec.wire.sse import SSEEvent
from aiperf_spec.wire.timing import timing
from aiperf_spec.workload.prompts import Prompt

T = TypeVar("T")

Sink = Callable[[RequestRecord], None]

_MESSAGE_LIMIT = 4096
"""Characters of a server's message that a record keeps: some servers answer with megabytes."""


@dataclass(slots=True, frozen=True)
class Work:
    """One request to be sent; several prompts make one batch on completions."""

    index: int
    phase: Phase
    prompts: tuple[Prompt, ...]


class Stop:
    """Ask a run to end early; made within the run's event loop."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._event = asyncio.Event()

    def request(self, reason: str) -> None:
        """Stop sending and cancel what is in flight; the first reason is kept."""
        self.reason = self.reason or reason
        self._event.set()

    async def unless(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the work returns; raise `StoppedError` where a stop is requested before it does."""
        task = asyncio.create_task(work)
        stopper = asyncio.create_task(self.wait())
        try:
            await asyncio.wait({task, stopper}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise StoppedError(self.reason or "a stop")
            return task.result()
        finally:
            task.cancel()
            stopper.cancel()
            await asyncio.gather(task, stopper, return_exceptions=True)

    async def wait(self) -> None:
        """Return once a stop was requested."""
        await self._event.wait()


def plan(prompts: Iterator[Prompt], count: int, phase: Phase, batch_size: int, first_index: int = 0) -> Iterator[Work]:
    """Yield the requests of a phase, taking `batch_size` prompts for each."""
    for index in range(first_index, first_index + count):
        yield Work(index, phase, tuple(next(prompts) for _ in range(batch_size)))


class Requester:
    """Turn work into a record: send it, read what comes back, judge it."""

    def __init__(
        self, config: ProfileConfig, model: str, client: Client, registry: AdapterRegistry, redactor: Redactor
    ) -> None:
        self._config = config
        self._model = model
        self._client = client
        self._registry = registry
        self._redactor = redactor
        self._paths = registry.payload_paths
        self._keep_raw = config.export_level is ExportLevel.RAW

    async def send(self, work: Work) -> RequestRecord:
        """Return the record of one request; never raises for what a server does.

        A cancelled request's record says so: the caller decides whether its own task goes on.
        """
        body = build_body(self._config, self._model, work.prompts)
        payload = orjson.dumps(body)
        exchange = Exchange()
        responses: list[ParsedResponse] = []
        raw: list[tuple[int, SSEEvent]] = []
        paths, keep_raw = self._paths, self._keep_raw

        def receive(arrival_ns: int, event: SSEEvent) -> None:
            if keep_raw:
                raw.append((arrival_ns, event))
            response = parse_event(event, arrival_ns, paths)
            if response is not None:
                responses.append(response)

        request_id = str(uuid.uuid4())
        error: RequestError | None = None
        try:
            await self._client.post(payload, request_id, exchange, receive)
        except RequestFailedError as failure:
            error = failure.error
        except asyncio.CancelledError:
            error = RequestError(ErrorKind.CANCELLED, "the run was stopped while this request was in flight")
        # What the server said itself is nearer the cause than how the connection ended afterwards.
        if error is None or (error.kind is not ErrorKind.CANCELLED and _said_so(responses)):
            error = judge(responses, is_stream=exchange.is_stream) or error
        record = self._record(work, body, request_id, exchange, responses, error)
        if keep_raw:
            record.raw = self._raw(body, request_id, exchange, raw)
        return record

    def _record(
        self,
        work: Work,
        body: dict[str, Any],
        request_id: str,
        exchange: Exchange,
        responses: list[ParsedResponse],
        error: RequestError | None,
    ) -> RequestRecord:
        categories = {prompt.category for prompt in work.prompts}
        record = RequestRecord(
            index=work.index,
            phase=work.phase,
            prompt_id=work.prompts[0].id,
            category=categories.pop() if len(categories) == 1 else None,
            request_id=request_id,
            start_ns=exchange.start_ns,
            ack_ns=exchange.ack_ns,
            end_ns=exchange.end_ns,
            status=exchange.status,
            retried=exchange.retried,
            streaming=self._config.streaming,
        )
        if error is not None:
            message = self._redactor.text(error.message)
            if len(message) > _MESSAGE_LIMIT:
                message = message[:_MESSAGE_LIMIT] + "..."
            status = exchange.status if error.status is None else error.status
            record.error = RequestError(error.kind, message, status, error.cause_chain)
            record.drop_reason = DropReason.FAILED
            return record
        moments = timing(responses, is_stream=exchange.is_stream and self._config.streaming)
        record.first_content_ns = moments.first_content_ns
        record.last_content_ns = moments.last_content_ns
        record.chunk_gaps_ns = moments.chunk_gaps_ns
        record.usage = usage = last_usage(responses)
        if usage is not None:
            record.input_tokens = usage.prompt_tokens
            record.output_tokens = usage.completion_tokens
        record.acceptance, record.drop_reason = self._registry.read(
            responses, several_sequences=asks_for_several_sequences(body)
        )
        return record

    def _raw(
        self, body: dict[str, Any], request_id: str, exchange: Exchange, raw: list[tuple[int, SSEEvent]]
    ) -> RawExchange:
        clean = self._redactor.text
        events = []
        for arrival_ns, event in raw:
            fields = [("data", clean(event.data.decode("utf-8", "replace")))]
            if event.type:
                fields.insert(0, ("event", clean(event.type.decode("utf-8", "replace"))))
            events.append((arrival_ns, fields))
        headers = self._redactor.headers({**self._client.headers, "x-request-id": request_id})
        return RawExchange(self._redactor.value(body), headers, exchange.is_stream, events)


def _said_so(responses: list[ParsedResponse]) -> bool:
    return any(response.error is not None and not response.malformed for response in responses)


async def run_phase(requester: Requester, works: Iterator[Work], concurrency: int, sink: Sink, stop: Stop) -> None:
    """Send the work with `concurrency` requests in flight at all times, until it is done or a stop is requested.

    A stop cancels what is in flight; those requests reach the sink as cancelled.
    """

    async def worker() -> None:
        # The workers share one iterator: whoever is free takes the next request.
        for work in works:
            record = await requester.send(work)
            sink(record)
            cancelled = record.error is not None and record.error.kind is ErrorKind.CANCELLED
            if cancelled or stop.reason is not None:
                return

    if stop.reason is not None:
        return
    workers = [asyncio.create_task(worker()) for _ in range(concurrency)]
    stopper = asyncio.create_task(stop.wait())
    pending: set[asyncio.Task[None]] = {*workers}
    try:
        while pending and not stopper.done():
            done, pending = await asyncio.wait({*pending, stopper}, return_when=asyncio.FIRST_COMPLETED)
            pending.discard(stopper)
            for task in done - {stopper}:
                task.result()
    finally:
        stopper.cancel()
        for task in pending:
            task.cancel()
        await asyncio.gather(*workers, stopper, return_exceptions=True)
    for task in workers:
        task.result()
