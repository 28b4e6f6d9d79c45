"""A request as a flat row, for data frames."""

from statistics import fmean
from typing import Any

from aiperf_spec.metrics.table import RECORD_METRICS
from aiperf_spec.models.run import RequestRecord


def request_row(record: RequestRecord) -> dict[str, Any]:
    """Return what a request was and the value of every metric, by the tags and in the units of the files.

    Of a metric with several values, the gaps between chunks, it is their mean. A value is None where there is none: a
    failed request has no metrics.
    """
    row: dict[str, Any] = {
        "index": record.index,
        "prompt_id": record.prompt_id,
        "prompt_hash": record.prompt_hash or None,
        "turn_index": record.turn_index,
        "category": record.category,
        "error": None if record.error is None else str(record.error.kind),
        "status": record.status,
        "finish_reason": record.finish_reason,
        "engine": None if record.acceptance is None else record.acceptance.engine,
        "num_spec_tokens": None if record.acceptance is None else record.acceptance.num_spec_tokens,
        "drop_reason": None if record.drop_reason is None else str(record.drop_reason),
    }
    for metric in RECORD_METRICS:
        value = metric.value(record) if record.succeeded else None
        row[metric.tag] = (fmean(value) if value else None) if isinstance(value, list) else value
    return row
