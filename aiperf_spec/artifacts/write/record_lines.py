"""One record as a line of `profile_export.jsonl` or `profile_export_raw.jsonl`."""

from dataclasses import asdict, is_dataclass
from typing import Any

import orjson

from aiperf_spec.metrics.table import RECORD_METRICS
from aiperf_spec.models.response import Answer
from aiperf_spec.models.run import ErrorKind, Phase, RequestError, RequestRecord

_SEPARATORS = tuple((chr(code).encode(), b"\\u%04x" % code) for code in (0x85, 0x2028, 0x2029))
_PHASE_INDEX = {Phase.WARMUP: 0, Phase.PROFILING: 1}


def record_line(record: RequestRecord, wall_offset_ns: int) -> bytes:
    """Return the record's line, newline included.

    `metadata`, `metrics`, `spec_decode_acceptance` and `error` are AIPerf's; `spec_decode_drop_reason` and
    `spec_decode_draft_totals` and `answer` are ours. Failed requests have no metrics. In the metadata, `prompt_hash`
    and `finish_reason` are ours.
    """
    line: dict[str, Any] = {"metadata": _metadata(record, wall_offset_ns), "metrics": _metrics(record)}
    if record.acceptance is not None:
        line["spec_decode_acceptance"] = record.acceptance.model_dump(mode="json")
    if record.drop_reason is not None:
        line["spec_decode_drop_reason"] = record.drop_reason
    if record.draft_totals is not None:
        line["spec_decode_draft_totals"] = record.draft_totals
    if record.error is not None:
        line["error"] = error_details(record.error)
    if (answer := record.answer) is not None:
        line["answer"] = _answer(answer)
    return _line(line)


def _answer(answer: Answer) -> dict[str, Any]:
    text = {} if answer.text is None else {"text": answer.text}
    return {
        "hash": answer.hash,
        "characters": answer.characters,
        "temperature": answer.temperature,
        "seeded": answer.seeded,
        **text,
    }


def raw_line(record: RequestRecord, wall_offset_ns: int) -> bytes:
    """Return the line with every event as received; empty where the record kept none."""
    raw = record.raw
    if raw is None:
        return b""
    responses: list[dict[str, Any]] = []
    for arrival_ns, fields in raw.events:
        if raw.is_stream:
            packets = [{"name": name, "value": value} for name, value in fields]
            responses.append({"perf_ns": arrival_ns, "packets": packets})
        else:
            responses.append({"perf_ns": arrival_ns, "text": "".join(value for _, value in fields)})
    line: dict[str, Any] = {
        "metadata": _metadata(record, wall_offset_ns),
        "start_perf_ns": record.start_ns,
        "request_headers": raw.request_headers,
        "status": record.status,
        "responses": responses,
        "payload": raw.payload,
    }
    if record.error is not None:
        line["error"] = error_details(record.error)
    return _line(line)


def _line(value: dict[str, Any]) -> bytes:
    # JSON may hold these raw, but readers that split text into lines take them for line ends.
    data = to_json(value)
    if not data.isascii():
        for separator, escaped in _SEPARATORS:
            data = data.replace(separator, escaped)
    return data + b"\n"


def to_json(value: Any, *, indent: bool = False) -> bytes:
    """Write JSON. Dataclasses become objects, NaN and infinity null, keys strings, a lone surrogate a question mark."""
    options = orjson.OPT_NON_STR_KEYS | (orjson.OPT_INDENT_2 if indent else 0)
    try:
        return orjson.dumps(value, option=options)
    except TypeError:
        return orjson.dumps(_clean(value), option=options)


def _clean(value: Any) -> Any:
    # orjson writes neither lone surrogates (a server may escape one in JSON) nor integers past 64 bits.
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 63:
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return _clean(asdict(value)) if is_dataclass(value) and not isinstance(value, type) else value


def _metadata(record: RequestRecord, wall_offset_ns: int) -> dict[str, Any]:
    return {
        "session_num": record.index,
        "x_request_id": record.request_id or None,
        "conversation_id": record.prompt_id,
        "turn_index": record.turn_index,
        "source_kind": record.category,
        "request_start_ns": record.start_ns + wall_offset_ns,
        "request_ack_ns": None if record.ack_ns is None else record.ack_ns + wall_offset_ns,
        "request_end_ns": record.end_ns + wall_offset_ns,
        "worker_id": "spec-profile",
        "record_processor_id": "spec-profile",
        "benchmark_phase": record.phase,
        "phase_index": _PHASE_INDEX[record.phase],
        "phase_name": record.phase,
        "phase_kind": record.phase,
        "was_cancelled": record.error is not None and record.error.kind is ErrorKind.CANCELLED,
        "prompt_hash": record.prompt_hash or None,
        "finish_reason": record.finish_reason,
    }


def _metrics(record: RequestRecord) -> dict[str, Any]:
    if record.error is not None:
        return {}
    values = ((metric, metric.value(record)) for metric in RECORD_METRICS)
    return {metric.tag: {"value": value, "unit": metric.unit} for metric, value in values if value is not None}


def error_details(error: RequestError) -> dict[str, Any]:
    """Return an error as AIPerf's ErrorDetails: code (HTTP status), type (our kind), message, cause chain."""
    details: dict[str, Any] = {"code": error.status, "type": error.kind, "message": error.message}
    if error.cause_chain:
        details["cause_chain"] = list(error.cause_chain)
    return details
