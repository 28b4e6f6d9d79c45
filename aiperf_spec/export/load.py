"""Read records back from `profile_export.jsonl`, ours or AIPerf's."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from aiperf_spec.errors import SpecProfileError
from aiperf_spec.export import names
from aiperf_spec.models.acceptance import DropReason, SpecDecodeAcceptanceRecord
from aiperf_spec.models.response import Usage
from aiperf_spec.models.run import ErrorKind, Phase, RequestError, RequestRecord

_NS_PER_MS = 1e6


@dataclass(slots=True, frozen=True)
class LoadedRecords:
    """The records of a run, and the numbers of the lines that could not be read (a killed run may cut its last)."""

    records: list[RequestRecord]
    unreadable: tuple[int, ...]


def load_records(folder: Path) -> LoadedRecords:
    """Return the records of an artifact folder; raises `SpecProfileError` naming the file that cannot be read.

    Times are wall-clock ns. Latencies are within a nanosecond of what was measured.
    """
    path = folder / names.RECORDS_JSONL
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SpecProfileError(
            f"{str(path)!r}: {error.strerror or error}", "give the folder of a run exported at records or raw level"
        ) from None
    records, unreadable = [], []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            records.append(_record(orjson.loads(line)))
        except (orjson.JSONDecodeError, ValidationError, ValueError, KeyError, TypeError, AttributeError):
            unreadable.append(number)
    return LoadedRecords(records, tuple(unreadable))


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
        request_id=metadata.get("x_request_id") or "",
        start_ns=start_ns,
        ack_ns=metadata.get("request_ack_ns"),
        end_ns=metadata["request_end_ns"],
        first_content_ns=_moment(start_ns, first),
        last_content_ns=_moment(start_ns, latency),
        chunk_gaps_ns=None if gaps is None else array("q", (round(gap * _NS_PER_MS) for gap in gaps)),
        streaming=first is not None,
        input_tokens=_value(metrics, "input_sequence_length"),
        output_tokens=_value(metrics, "output_sequence_length"),
    )
    if record.output_tokens is not None:
        record.usage = Usage(record.input_tokens, record.output_tokens)
    if (acceptance := line.get("spec_decode_acceptance")) is not None:
        record.acceptance = _acceptance(acceptance)
    record.error = _error(line.get("error"))
    record.drop_reason = _drop_reason(line, record)
    return record


def _value(metrics: dict[str, Any], tag: str) -> Any:
    metric = metrics.get(tag)
    return None if metric is None else metric["value"]


def _moment(start_ns: int, milliseconds: float | None) -> int | None:
    return None if milliseconds is None else start_ns + round(milliseconds * _NS_PER_MS)


def _acceptance(value: dict[str, Any]) -> SpecDecodeAcceptanceRecord:
    histogram = {int(bucket): count for bucket, count in value["acceptance_histogram"].items()}
    return SpecDecodeAcceptanceRecord.model_validate({**value, "acceptance_histogram": histogram})


def _error(value: dict[str, Any] | None) -> RequestError | None:
    if value is None:
        return None
    known = value.get("type") in set(ErrorKind)
    kind = ErrorKind(value["type"]) if known else ErrorKind.SERVER_ERROR
    return RequestError(kind, value["message"], value.get("code"), tuple(value.get("cause_chain") or ()))


def _drop_reason(line: dict[str, Any], record: RequestRecord) -> DropReason | None:
    if record.acceptance is not None and record.error is None:
        return None
    if record.error is not None:
        return DropReason.FAILED
    # AIPerf does not say why a record is missing.
    return DropReason(line.get("spec_decode_drop_reason") or DropReason.ABSENT)
