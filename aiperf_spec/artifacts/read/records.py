"""Read records back from `profile_export.jsonl`, ours or AIPerf's."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from aiperf_spec.artifacts import names
from aiperf_spec.artifacts.read.folders import existing, unreadable
from aiperf_spec.artifacts.read.scan import open_binary
from aiperf_spec.models.acceptance import DropReason, SpecDecodeAcceptanceRecord
from aiperf_spec.models.run import ErrorKind, Phase, RequestError, RequestRecord, ServerTiming
from aiperf_spec.models.units import NS_PER_MS

_BUFFER = 1 << 18


@dataclass(slots=True, frozen=True)
class LoadedRecords:
    """The records of a run, and the numbers of the lines that could not be read (a killed run may cut its last)."""

    records: list[RequestRecord]
    unreadable: tuple[int, ...]


class RecordStream:
    """Yield the records of an artifact folder one by one, in the order of the file; `.gz` is read too.

    Times are wall-clock ns. Latencies are within a nanosecond of what was measured. `unreadable` grows by the numbers
    of the lines that are no record. Raises `SpecProfileError` naming the file that cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.unreadable: list[int] = []
        self._path = existing(folder, names.RECORDS_JSONL) or folder / names.RECORDS_JSONL

    def __iter__(self) -> Iterator[RequestRecord]:
        try:
            with open_binary(self._path, _BUFFER) as file:
                for number, line in enumerate(file, start=1):
                    if not line.strip():
                        continue
                    try:
                        yield _record(orjson.loads(line))
                    except (orjson.JSONDecodeError, ValidationError, ValueError, KeyError, TypeError, AttributeError):
                        self.unreadable.append(number)
        except (OSError, EOFError) as error:
            raise unreadable(self._path, error) from None


def load_records(folder: Path) -> LoadedRecords:
    """Return all records of an artifact folder at once; see `RecordStream`."""
    stream = RecordStream(folder)
    return LoadedRecords(list(stream), tuple(stream.unreadable))


def _record(line: dict[str, Any]) -> RequestRecord:
    metadata, metrics = line["metadata"], line["metrics"]
    start_ns = metadata["request_start_ns"]
    gaps = _value(metrics, "inter_chunk_latency")
    latency, first = _value(metrics, "request_latency"), _value(metrics, "time_to_first_token")
    record = RequestRecord(
        index=metadata["session_num"],
        phase=Phase(metadata["benchmark_phase"]),
        prompt_id=metadata.get("conversation_id") or "",
        turn_index=metadata.get("turn_index") or 0,
        category=metadata.get("source_kind"),
        start_ns=start_ns,
        connect_ns=_moment(0, _value(metrics, "http_connect")),
        ack_ns=metadata.get("request_ack_ns"),
        end_ns=metadata["request_end_ns"],
        first_content_ns=_moment(start_ns, first),
        last_content_ns=_moment(start_ns, latency),
        chunk_gaps_ns=None if gaps is None else array("q", (round(gap * NS_PER_MS) for gap in gaps)),
        streaming=first is not None,
        input_tokens=_value(metrics, "input_sequence_length"),
        output_tokens=_value(metrics, "output_sequence_length"),
    )
    if (acceptance := line.get("spec_decode_acceptance")) is not None:
        record.acceptance = _acceptance(acceptance)
    record.server_timing = _server_timing(metrics)
    record.error = _error(line.get("error"))
    record.drop_reason = _drop_reason(line, record)
    return record


def _value(metrics: dict[str, Any], tag: str) -> Any:
    metric = metrics.get(tag)
    return None if metric is None else metric["value"]


def _server_timing(metrics: dict[str, Any]) -> ServerTiming | None:
    timing = ServerTiming(
        time_to_first_token_ms=_value(metrics, "server_time_to_first_token"),
        queue_time_ms=_value(metrics, "server_queue_time"),
        generation_time_ms=_value(metrics, "server_generation_time"),
        mean_itl_ms=_value(metrics, "server_inter_token_latency"),
        tokens_per_second=_value(metrics, "server_output_token_throughput_per_user"),
    )
    return None if timing == ServerTiming() else timing


def _moment(start_ns: int, milliseconds: float | None) -> int | None:
    return None if milliseconds is None else start_ns + round(milliseconds * NS_PER_MS)


def _acceptance(value: dict[str, Any]) -> SpecDecodeAcceptanceRecord:
    histogram = {int(bucket): count for bucket, count in value["acceptance_histogram"].items()}
    return SpecDecodeAcceptanceRecord.model_validate({**value, "acceptance_histogram": histogram})


def _error(value: dict[str, Any] | None) -> RequestError | None:
    if value is None:
        return None
    kind = ErrorKind.read(value.get("type"))
    return RequestError(kind, value["message"], value.get("code"), tuple(value.get("cause_chain") or ()))


def _drop_reason(line: dict[str, Any], record: RequestRecord) -> DropReason | None:
    if record.acceptance is not None and record.error is None:
        return None
    if record.error is not None:
        return DropReason.FAILED
    # AIPerf does not say why a record is missing.
    return DropReason(line.get("spec_decode_drop_reason") or DropReason.ABSENT)
