"""Send a run's requests: phases, workers, cancellation. Each record goes to a sink as its request ends."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import orjson

from aiperf_spec.adapters.registry import AdapterRegistry
from aiperf_spec.client.client import Client, RequestTrace
from aiperf_spec.client.failures import RequestFailedError
from aiperf_spec.config.choices import ExportLevel
from aiperf_spec.config.redaction import Redactor
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.load.fair_queue import FairQueue
from aiperf_spec.load.plan import PlannedRequest
from aiperf_spec.load.stop import Stop
from aiperf_spec.load.tokenizer import TokenCounter
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.response import ParsedResponse, last_usage
from aiperf_spec.models.run import ErrorKind, Phase, RawExchange, RequestError, RequestRecord
from aiperf_spec.wire.outcome import request_failure
from aiperf_spec.wire.request_body import asks_for_several_sequences, build_body, prompt_text
from aiperf_spec.wire.response_reader import Events, ResponseReader
from aiperf_spec.wire.timing import timing

T = TypeVar("T")

Sink = Callable[[RequestRecord], None]

_MESSAGE_LIMIT = 4096
"""Characters of a server's message that a record keeps: some servers answer with megabytes."""


class Requester:
    """Turn work into a record: send it, read what comes back, judge it."""

    def __init__(
        self,
        config: ProfileConfig,
        model: str,
        client: Client,
        registry: AdapterRegistry,
        redactor: Redactor,
        counter: TokenCounter | None = None,
    ) -> None:
        self._config = config
        self._model = model
        self._client = client
        self._registry = registry
        self._redactor = redactor
        self._paths = registry.payload_paths, registry.timing_paths
        self._keep_raw = config.export_level is ExportLevel.RAW
        self._turnstile = FairQueue()
        self._counter = counter
        # Ids are UUIDs whose last part counts: asking for new randomness costs more than all else that an id takes.
        self._id_starts = {phase: str(uuid.uuid4())[:-12] for phase in Phase}
        self.in_flight = 0
        """Requests that are under way."""

    async def send(self, work: PlannedRequest, responses: list[ParsedResponse] | None = None) -> RequestRecord:
        """Return the record of one request; never raises for what a server does.

        A cancelled request's record says so: the caller decides whether its own task goes on. `responses`, where
        given, is filled with what came, for the turn that follows.
        """
        await self._turnstile.turn()
        body = build_body(self._config, self._model, work.prompts)
        payload = orjson.dumps(body)
        record = self._begun(work)
        exchange = RequestTrace()
        reader = ResponseReader(*self._paths, keep_events=self._keep_raw)
        error: RequestError | None = None
        self.in_flight += 1
        try:
            await self._client.post(payload, record.request_id, exchange, reader)
        except RequestFailedError as failure:
            error = failure.error
        except asyncio.CancelledError:
            error = RequestError(ErrorKind.CANCELLED, "the run was stopped while this request was in flight")
        finally:
            self.in_flight -= 1
        # A request that has ended gets its record even if the run is stopped in this moment.
        with suppress(asyncio.CancelledError):
            await self._turnstile.turn()
        # What the server said itself is nearer the cause than how the connection ended afterwards.
        if error is None or (error.kind is not ErrorKind.CANCELLED and _said_so(reader.responses)):
            error = request_failure(reader.responses, is_stream=reader.is_stream) or error
        if responses is not None:
            responses += reader.responses
        self._end(record, body, exchange, reader, error)
        if self._counter is not None and record.succeeded:
            with suppress(asyncio.CancelledError):
                await self._count_tokens(self._counter, record, body, reader.responses)
        if reader.events is not None:
            record.raw = self._raw(body, record.request_id, reader.events, is_stream=reader.is_stream)
        return record

    async def _count_tokens(
        self, counter: TokenCounter, record: RequestRecord, body: dict[str, Any], responses: list[ParsedResponse]
    ) -> None:
        # A tool call is more tokens than the text that is left of it: what cannot be counted is left to usage.
        if any(response.tool_calls for response in responses):
            return
        answer = "".join(response.reasoning + response.text for response in responses)
        record.counted_input, record.counted_output = await asyncio.to_thread(counter.count, prompt_text(body), answer)
        if not self._config.use_server_token_count:
            record.input_tokens, record.output_tokens = record.counted_input, record.counted_output

    def _begun(self, work: PlannedRequest) -> RequestRecord:
        categories = {prompt.category for prompt in work.prompts}
        return RequestRecord(
            index=work.index,
            phase=work.phase,
            prompt_id=work.prompts[0].id,
            category=categories.pop() if len(categories) == 1 else None,
            start_ns=0,
            end_ns=0,
            turn_index=work.turn_index,
            id_start=self._id_starts[work.phase],
            scheduled_ns=work.scheduled_ns,
            streaming=self._config.streaming,
        )

    def _end(
        self,
        record: RequestRecord,
        body: dict[str, Any],
        exchange: RequestTrace,
        reader: ResponseReader,
        error: RequestError | None,
    ) -> None:
        record.start_ns, record.ack_ns, record.end_ns = exchange.start_ns, exchange.ack_ns, exchange.end_ns
        record.status, record.retried = exchange.status, exchange.retried
        if error is not None:
            message = self._redactor.text(error.message)
            if len(message) > _MESSAGE_LIMIT:
                message = message[:_MESSAGE_LIMIT] + "..."
            status = exchange.status if error.status is None else error.status
            record.error = RequestError(error.kind, message, status, error.cause_chain)
            record.drop_reason = DropReason.FAILED
            return
        responses = reader.responses
        moments = timing(responses, is_stream=reader.is_stream and self._config.streaming)
        record.first_content_ns = moments.first_content_ns
        record.last_content_ns = moments.last_content_ns
        record.chunk_gaps_ns = moments.chunk_gaps_ns
        usage = last_usage(responses)
        if usage is not None:
            record.input_tokens = usage.prompt_tokens
            record.output_tokens = usage.completion_tokens
        if self._counter is not None:
            record.server_usage = usage
        record.server_timing = self._registry.server_timing(responses)
        record.acceptance, record.drop_reason = self._registry.read(
            responses, several_sequences=asks_for_several_sequences(body)
        )

    def _raw(self, body: dict[str, Any], request_id: str, kept: Events, *, is_stream: bool) -> RawExchange:
        clean = self._redactor.text
        events = []
        for arrival_ns, event in kept:
            fields = [("data", clean(event.data.decode("utf-8", "replace")))]
            if event.type:
                fields.insert(0, ("event", clean(event.type.decode("utf-8", "replace"))))
            events.append((arrival_ns, fields))
        headers = self._redactor.headers({**self._client.headers, "x-request-id": request_id})
        return RawExchange(self._redactor.value(body), headers, is_stream, events)


def _said_so(responses: list[ParsedResponse]) -> bool:
    return any(response.error is not None and not response.malformed for response in responses)


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def converse(requester: Requester, work: PlannedRequest, sink: Sink, stop: Stop) -> bool:
    """Send a conversation's requests in order, each record to the sink, and say whether the sender may go on.

    A turn that failed ends its conversation: what it would have answered is not there to be built on.
    """
    turn: PlannedRequest | None = work
    while turn is not None:
        responses: list[ParsedResponse] | None = [] if turn.later_turns else None
        record = await requester.send(turn, responses)
        cancelled = record.error is not None and record.error.kind is ErrorKind.CANCELLED
        if record.error is not None and not cancelled:
            record.unsent_turns = turn.later_turns
        sink(record)
        if cancelled or stop.reason is not None or _is_being_cancelled():
            return False
        turn = turn.after(responses) if responses is not None and record.succeeded else None
    return True
