"""Records of requests, read back from `profile_export.jsonl`, ours or AIPerf's."""

import sys
from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

from aiperf_spec.artifacts import names
from aiperf_spec.artifacts.read.files import UNREADABLE, existing, open_binary, parse_json, unreadable
from aiperf_spec.artifacts.read.record_lines import NO_RECORD, Acceptance, RecordLine, decode_line
from aiperf_spec.models.acceptance import DropReason, SpecDecodeAcceptanceRecord
from aiperf_spec.models.response import Answer
from aiperf_spec.models.run import ErrorKind, OutputTiming, Phase, RequestError, RequestRecord, ServerTiming
from aiperf_spec.models.units import MAX_FIGURE, NS_PER_MS

T = TypeVar("T")

_Number = Annotated[float, Meta(ge=-MAX_FIGURE, le=MAX_FIGURE)]
_Tokens = Annotated[float, Meta(ge=0, le=MAX_FIGURE, multiple_of=1)]


class _Metric(Struct, Generic[T], gc=False):
    value: T | None


class _Metrics(Struct, gc=False):
    request_latency: _Metric[_Number] | None = None
    time_to_first_token: _Metric[_Number] | None = None
    inter_chunk_latency: _Metric[list[_Number]] | None = None
    http_connect: _Metric[_Number] | None = None
    schedule_lag: _Metric[_Number] | None = None
    input_sequence_length: _Metric[_Tokens] | None = None
    output_sequence_length: _Metric[_Tokens] | None = None
    usage_prompt_cache_read_tokens: _Metric[_Tokens] | None = None
    server_time_to_first_token: _Metric[_Number] | None = None
    server_queue_time: _Metric[_Number] | None = None
    server_generation_time: _Metric[_Number] | None = None
    server_inter_token_latency: _Metric[_Number] | None = None
    server_output_token_throughput_per_user: _Metric[_Number] | None = None
    server_reasoning_tokens: _Metric[_Tokens] | None = None
    server_content_tokens: _Metric[_Tokens] | None = None
    server_unclassified_tokens: _Metric[_Tokens] | None = None
    server_time_to_first_reasoning_token: _Metric[_Number] | None = None
    server_time_to_first_content_token: _Metric[_Number] | None = None
    server_reasoning_generation_time: _Metric[_Number] | None = None
    server_content_generation_time: _Metric[_Number] | None = None
    server_reasoning_inter_token_latency: _Metric[_Number] | None = None
    server_content_inter_token_latency: _Metric[_Number] | None = None


class _WithMetrics(Struct):
    metrics: _Metrics


class _WithAnswer(Struct):
    answer: Answer | None = None


_decode_metrics = msgspec.json.Decoder(_WithMetrics).decode
_decode_answer = msgspec.json.Decoder(_WithAnswer).decode


def _metrics(line: bytes) -> _Metrics:
    try:
        return _decode_metrics(line).metrics
    except NO_RECORD:
        return _well_typed(line)


def _well_typed(line: bytes) -> _Metrics:
    # One of them is not of its type: that one is left out.
    found = {}
    with suppress(*NO_RECORD, AttributeError):
        metrics = parse_json(line).get("metrics")
        for field in msgspec.structs.fields(_Metrics):
            with suppress(*NO_RECORD):
                found[field.name] = msgspec.convert(metrics.get(field.name), field.type)
    return _Metrics(**found)


def _value(metric: _Metric[T] | None) -> T | None:
    return None if metric is None else metric.value


def _tokens(metric: _Metric[float] | None) -> int | None:
    return None if metric is None or metric.value is None else int(metric.value)


def _moment(start_ns: int, milliseconds: float | None) -> int | None:
    return None if milliseconds is None else start_ns + round(milliseconds * NS_PER_MS)


def read_record(text: bytes) -> RequestRecord:
    """Return the record of a line; raise one of `NO_RECORD` where it is none.

    Times are the wall clock's in ns, latencies within a nanosecond of what was measured.
    A metric that is not of its type is absent, and costs the record no more than itself.
    """
    line = decode_line(text)
    metadata, metrics = line.metadata, _metrics(text)
    start_ns = metadata.request_start_ns
    gaps, first = _value(metrics.inter_chunk_latency), _value(metrics.time_to_first_token)
    lag = _value(metrics.schedule_lag)
    timing = ServerTiming(
        time_to_first_token_ms=_value(metrics.server_time_to_first_token),
        queue_time_ms=_value(metrics.server_queue_time),
        generation_time_ms=_value(metrics.server_generation_time),
        mean_itl_ms=_value(metrics.server_inter_token_latency),
        tokens_per_second=_value(metrics.server_output_token_throughput_per_user),
        output=_output_timing(metrics),
    )
    return RequestRecord(
        index=metadata.session_num,
        phase=Phase.WARMUP if metadata.phase_kind == Phase.WARMUP else Phase(metadata.benchmark_phase),
        prompt_id=metadata.conversation_id or "",
        turn_index=metadata.turn_index or 0,
        prompt_hash=sys.intern(metadata.prompt_hash or ""),
        category=metadata.source_kind or None,
        start_ns=start_ns,
        scheduled_ns=_moment(start_ns, None if lag is None else -lag),
        connect_ns=_moment(0, _value(metrics.http_connect)),
        ack_ns=metadata.request_ack_ns,
        end_ns=metadata.request_end_ns,
        first_content_ns=_moment(start_ns, first),
        last_content_ns=_moment(start_ns, _value(metrics.request_latency)),
        chunk_gaps_ns=None if gaps is None else array("q", [round(gap * NS_PER_MS) for gap in gaps]),
        streaming=first is not None,
        input_tokens=_tokens(metrics.input_sequence_length),
        output_tokens=_tokens(metrics.output_sequence_length),
        cached_tokens=_tokens(metrics.usage_prompt_cache_read_tokens),
        acceptance=_acceptance(line.spec_decode_acceptance),
        server_timing=None if timing == ServerTiming() else timing,
        error=_error(line),
        drop_reason=_drop_reason(line),
        draft_totals=line.spec_decode_draft_totals,
        finish_reason=None if metadata.finish_reason is None else sys.intern(metadata.finish_reason),
    )


def _output_timing(metrics: _Metrics) -> OutputTiming | None:
    counts = metrics.server_reasoning_tokens, metrics.server_content_tokens, metrics.server_unclassified_tokens
    times = (
        metrics.server_time_to_first_reasoning_token,
        metrics.server_time_to_first_content_token,
        metrics.server_reasoning_generation_time,
        metrics.server_content_generation_time,
        metrics.server_reasoning_inter_token_latency,
        metrics.server_content_inter_token_latency,
    )
    return OutputTiming(*map(_tokens, counts), *map(_value, times)) if any((*counts, *times)) else None


def _acceptance(found: Acceptance | None) -> SpecDecodeAcceptanceRecord | None:
    if found is None:
        return None
    arrays = {name: msgspec.json.decode(getattr(found, name)) for name in ("per_step_accepted", "per_step_drafted")}
    return SpecDecodeAcceptanceRecord(**{**msgspec.structs.asdict(found), **arrays})


def _error(line: RecordLine) -> RequestError | None:
    if (error := line.error) is None:
        return None
    return RequestError(ErrorKind.read(error.type), error.message, error.code, error.cause_chain or ())


def _drop_reason(line: RecordLine) -> DropReason | None:
    if line.error is not None:
        return DropReason.FAILED
    if line.spec_decode_acceptance is not None:
        return None
    # AIPerf does not say why a record is missing.
    reason = line.spec_decode_drop_reason
    return DropReason(reason) if reason in set(DropReason) else DropReason.ABSENT


@dataclass(slots=True, frozen=True)
class LoadedRecords:
    """The records of a run, and the numbers of the lines that could not be read (a killed run may cut its last)."""

    records: list[RequestRecord]
    unreadable: tuple[int, ...]


def _answer(text: bytes) -> Answer | None:
    try:
        return _decode_answer(text).answer
    except NO_RECORD:
        return None


class RecordStream:
    """Yield the records of a run's folder one by one, in the order of the file; `.gz` is read too.

    Answers, whose texts may be long, are read only with `answers`. `unreadable` grows by the numbers of the lines that
    are no record. Raises `SpecProfileError` naming the file that cannot be read.
    """

    def __init__(self, folder: Path, *, answers: bool = False) -> None:
        self.unreadable: list[int] = []
        self._answers = answers
        self._path = existing(folder, names.RECORDS_JSONL) or folder / names.RECORDS_JSONL

    def __iter__(self) -> Iterator[RequestRecord]:
        try:
            with open_binary(self._path) as file:
                for number, line in enumerate(file, start=1):
                    try:
                        record = read_record(line)
                        record.answer = _answer(line) if self._answers else None
                        yield record
                    except NO_RECORD:
                        if line.strip():
                            self.unreadable.append(number)
        except UNREADABLE as error:
            raise unreadable(self._path, error) from None


def load_records(folder: Path, *, answers: bool = False) -> LoadedRecords:
    """Return all records of an artifact folder at once; see `RecordStream`."""
    stream = RecordStream(folder, answers=answers)
    return LoadedRecords(list(stream), tuple(stream.unreadable))
