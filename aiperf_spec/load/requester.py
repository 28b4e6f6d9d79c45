"""Send requests and make their records: each is made once, when its request has ended, and goes to a sink."""

import asyncio
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson

from aiperf_spec.adapters.registry import AdapterRegistry
from aiperf_spec.client.client import Client
from aiperf_spec.client.failures import RequestFailedError
from aiperf_spec.client.sink import RequestTrace
from aiperf_spec.config.choices import ExportLevel
from aiperf_spec.config.redaction import Redactor, without_texts
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.load.event_loop import FairQueue, sleep_until
from aiperf_spec.load.plan import PlannedRequest
from aiperf_spec.load.stop import Stop
from aiperf_spec.load.tokenizer import TokenCounter
from aiperf_spec.models.acceptance import DropReason, SpecDecodeAcceptanceRecord
from aiperf_spec.models.draft_totals import DraftTotals
from aiperf_spec.models.response import Answer, ParsedResponse, Usage
from aiperf_spec.models.run import BothCounts, ErrorKind, Phase, RawExchange, RequestError, RequestRecord, request_id
from aiperf_spec.wire.chunk import Paths, parse_event
from aiperf_spec.wire.outcome import (
    Timing,
    answer_pieces,
    finish_reason,
    request_failure,
    timing,
    unread_fields,
    whole_answer,
)
from aiperf_spec.wire.request_body import build_body, output_limit, prompt_text, prompts_and_samples
from aiperf_spec.wire.response_reader import PatternSearch, ResponseReader
from aiperf_spec.workload.prompts import hashed

Sink = Callable[[RequestRecord], None]

_MESSAGE_LIMIT = 4096
"""Characters of a server's message that a record keeps: some servers answer with megabytes."""


def new_id_starts() -> dict[Phase, str]:
    """Return what the ids of a run's requests have in common, by phase.

    Ids are UUIDs whose last part counts: asking for new randomness costs more than all else that an id takes.
    """
    return {phase: str(uuid.uuid4())[:-12] for phase in Phase}


@dataclass(slots=True)
class Requester:
    """Turn a planned request into a record: send it, read what comes back, judge it."""

    config: ProfileConfig
    model: str
    client: Client
    registry: AdapterRegistry
    redactor: Redactor
    counter: TokenCounter | None = None
    id_starts: dict[Phase, str] = field(default_factory=new_id_starts)
    """What the ids of each phase's requests are without their numbers."""
    looks_at_answers: bool = False
    """Whether records say what was answered: where a file is to have it."""
    clock: Callable[[], int] = time.perf_counter_ns
    in_flight: int = field(init=False, default=0)
    """Requests that are under way."""
    _fair_queue: FairQueue = field(init=False, default_factory=FairQueue)
    _pattern_search: PatternSearch = field(init=False, default_factory=PatternSearch)
    _paths: tuple[Paths, Paths] = field(init=False)

    def __post_init__(self) -> None:
        self._paths = self.registry.payload_paths, self.registry.timing_paths

    async def converse(self, first: PlannedRequest, sink: Sink, stop: Stop, end_ns: int | None) -> bool:
        """Send a conversation's requests in order, each record to the sink, and say whether the sender may go on.

        A turn that failed ends its conversation: what it would have answered is not there to be built on. So does
        `end_ns`, the end of the time for which requests are sent; None where there is none.
        """
        turn: PlannedRequest | None = first
        while turn is not None:
            responses: list[ParsedResponse] | None = [] if turn.later_turns else None
            record = await self.send(turn, responses)
            now_ns = self.clock()
            next_ns = turn.follows_at_ns(now_ns) if record.succeeded else now_ns
            over = end_ns is not None and next_ns >= end_ns
            cancelled = record.error is not None and record.error.kind is ErrorKind.CANCELLED
            if over or (record.error is not None and not cancelled):
                record.unsent_turns = turn.later_turns
            sink(record)
            if over or cancelled or not stop.may_go_on():
                return False
            if next_ns > now_ns:
                await sleep_until(next_ns, self.clock)
            turn = turn.after(responses) if responses is not None and record.succeeded else None
        return True

    async def send(self, planned: PlannedRequest, responses: list[ParsedResponse] | None = None) -> RequestRecord:
        """Return the record of one request; never raises for what a server does.

        A cancelled request's record says so: the caller decides whether its own task goes on. `responses`, where
        given, is filled with what came, for the turn that follows.
        """
        await self._fair_queue.turn()
        body = build_body(self.config, self.model, planned.prompts)
        id_start = self.id_starts[planned.phase]
        trace = RequestTrace()
        keep_events = self.config.export_level is ExportLevel.RAW
        reader = ResponseReader(*self._paths, keep_events=keep_events, search=self._pattern_search)
        error: RequestError | None = None
        self.in_flight += 1
        try:
            await self.client.post(orjson.dumps(body), request_id(id_start, planned.index), trace, reader)
        except RequestFailedError as failure:
            error = failure.error
        except asyncio.CancelledError:
            error = RequestError(ErrorKind.CANCELLED, "the run was stopped while this request was in flight")
        finally:
            self.in_flight -= 1
        # A request that has ended gets its record even if the run is stopped in this moment.
        with suppress(asyncio.CancelledError):
            await self._fair_queue.turn()
        # What the server said itself is nearer the cause than how the connection ended afterwards.
        said = any(response.error is not None and not response.malformed for response in reader.responses)
        if error is None or (said and error.kind is not ErrorKind.CANCELLED):
            error = request_failure(reader.responses, is_stream=reader.is_stream) or error
        if responses is not None:
            responses += reader.responses
        counted: Usage | None = None
        if self.counter is not None and error is None:
            with suppress(asyncio.CancelledError):
                counted = await _count_tokens(self.counter, body, reader.responses)
        return self._record(planned, body, trace, reader, error, counted)

    def _record(
        self,
        planned: PlannedRequest,
        body: dict[str, Any],
        trace: RequestTrace,
        reader: ResponseReader,
        error: RequestError | None,
        counted: Usage | None,
    ) -> RequestRecord:
        responses, id_start = reader.responses, self.id_starts[planned.phase]
        prompts, samples = prompts_and_samples(body)
        several = prompts > 1 or samples > 1
        if error is None:
            moments = timing(responses, is_stream=reader.is_stream and self.config.streaming)
            usage = self.registry.usage(responses, several_sequences=several)
            # An engine that times each sequence sends the figures of one, or those of the last.
            engine_timing = None if several else self.registry.server_timing(responses)
            report, drop_reason = self.registry.read(responses, several_sequences=several)
        else:
            moments, usage, engine_timing = Timing(), None, None
            report, drop_reason = None, DropReason.FAILED
            error = self._shown(error, trace.status)
        tokens = usage if counted is None or self.config.use_server_token_count else counted
        return RequestRecord(
            index=planned.index,
            phase=planned.phase,
            prompt_id=planned.prompts[0].id,
            category=planned.category,
            start_ns=trace.start_ns,
            end_ns=trace.end_ns,
            turn_index=planned.turn_index,
            prompt_hash=planned.content_hash,
            id_start=id_start,
            scheduled_ns=planned.scheduled_ns,
            connect_ns=trace.connect_ns if error is None else None,
            ack_ns=trace.ack_ns,
            first_content_ns=moments.first_content_ns,
            last_content_ns=moments.last_content_ns,
            chunk_gaps_ns=moments.chunk_gaps_ns,
            streaming=self.config.streaming,
            input_tokens=None if tokens is None else tokens.prompt_tokens,
            output_tokens=None if tokens is None else tokens.completion_tokens,
            both_counts=None if counted is None else BothCounts(counted, usage),
            acceptance=report if isinstance(report, SpecDecodeAcceptanceRecord) else None,
            drop_reason=drop_reason,
            draft_totals=report if isinstance(report, DraftTotals) else None,
            server_timing=engine_timing,
            error=error,
            status=trace.status,
            retried=trace.retried,
            cached_tokens=None if usage is None else usage.cached_tokens,
            max_tokens=None if several else output_limit(body),
            finish_reason=finish_reason(responses),
            prompts=prompts,
            samples=samples,
            silencing_fields=tuple(name for name in self.registry.silencing_fields if body.get(name)),
            unread_fields=tuple(map(self.redactor.text, unread_fields(responses))) if reader.is_stream else (),
            answer=self._answer(body, responses) if error is None and (prompts, samples) == (1, 1) else None,
            raw=self._raw(body, request_id(id_start, planned.index), reader),
        )

    def _shown(self, error: RequestError, status: int | None) -> RequestError:
        message = self.redactor.cut_text(error.message)
        if len(message) > _MESSAGE_LIMIT:
            message = message[:_MESSAGE_LIMIT] + "..."
        return RequestError(error.kind, message, status if error.status is None else error.status, error.cause_chain)

    def _answer(self, body: dict[str, Any], responses: list[ParsedResponse]) -> Answer | None:
        if not self.looks_at_answers:
            return None
        text, temperature = whole_answer(responses), body.get("temperature")
        return Answer(
            hash=hashed(text.encode("utf-8", "surrogatepass")),
            characters=len(text),
            temperature=float(temperature) if isinstance(temperature, int | float) else None,
            seeded=body.get("seed") is not None,
            text=self.redactor.text(text) if self.config.keeps_texts else None,
        )

    def _raw(self, body: dict[str, Any], request_id: str, reader: ResponseReader) -> RawExchange | None:
        if reader.events is None:
            return None
        split = self._split_secrets(reader)
        events = []
        for arrival_ns, event in reader.events:
            data = _without(event.data, split) if split else event.data
            fields = [("event", event.type), ("data", data)] if event.type else [("data", data)]
            clean = [(name, self.redactor.text(value.decode("utf-8", "replace"))) for name, value in fields]
            events.append((arrival_ns, clean))
        headers = self.redactor.headers({**self.client.headers, "x-request-id": request_id})
        return RawExchange(self.redactor.value(body), headers, reader.is_stream, events)

    def _split_secrets(self, reader: ResponseReader) -> set[str]:
        """Return the texts of events that make up a secret together: whoever reads the answer would have it whole."""
        answer = "".join(answer_pieces(reader.responses))
        if self.redactor.text(answer) == answer:
            return set()
        # A response may stand for several events.
        said = (parse_event(event, at_ns, ()) for at_ns, event in reader.events or ())
        return self.redactor.split(answer_pieces(each for each in said if each is not None))


def _without(data: bytes, texts: set[str]) -> bytes:
    try:
        event = orjson.loads(data)
        return orjson.dumps({**event, "choices": without_texts(event["choices"], texts)})
    except (ValueError, TypeError, KeyError):
        return data


async def _count_tokens(counter: TokenCounter, body: dict[str, Any], responses: list[ParsedResponse]) -> Usage | None:
    # A tool call is more tokens than the text that is left of it: what cannot be counted is left to usage.
    if any(response.tool_calls for response in responses):
        return None
    answer = "".join(response.reasoning + response.text for response in responses)
    return Usage(*await asyncio.to_thread(counter.count, prompt_text(body), answer))
