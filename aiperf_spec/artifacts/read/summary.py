"""A run's figures read back from its summary file: all that a run leaves at `--export-level summary`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from aiperf_spec.artifacts.read.folders import RunFolder, dig
from aiperf_spec.metrics.pooled import PooledAcceptance
from aiperf_spec.metrics.stats import PERCENTILES, Stats
from aiperf_spec.metrics.summary import CategorySummary, ErrorGroup, Summary
from aiperf_spec.metrics.table import RECORD_METRICS, RUN_METRICS
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.run import ErrorKind, RequestError


def load_summary(folder: RunFolder) -> Summary:
    """Return the figures of the profiled phase as the summary file gives them; what it lacks is absent or zero."""
    document = folder.summary
    values = {metric.tag: dig(document, metric.tag, "avg") for metric in RUN_METRICS}
    run_values = {tag: float(value) for tag, value in values.items() if _is_number(value)}
    stats = {metric.tag: _stats(document.get(metric.tag)) for metric in RECORD_METRICS}
    requests = dig(document, "spec_profile", "requests")
    drops = dig(document, "spec_profile", "drop_reasons")
    categories = dig(document, "spec_profile", "categories")
    record_stats = {tag: described for tag, described in stats.items() if described is not None}
    steps = record_stats.get("spec_decode_steps")
    return Summary(
        succeeded=_count(dig(requests, "succeeded"), run_values.get("request_count")),
        failed=_count(dig(requests, "failed"), run_values.get("error_request_count")),
        cancelled=_count(dig(requests, "cancelled")),
        record_stats=record_stats,
        run_values=run_values,
        acceptance=PooledAcceptance(
            requests=_count(dig(requests, "with_acceptance"), None if steps is None else steps.count),
            steps=_count(run_values.get("total_spec_decode_steps")),
            proposed=_count(run_values.get("total_draft_tokens")),
            accepted=_count(run_values.get("total_accepted_draft_tokens")),
            histogram=_histogram(document.get("pooled_spec_decode_acceptance_histogram")),
        ),
        drop_reasons={reason: _count(drops[reason]) for reason in DropReason if reason in drops}
        if isinstance(drops, dict)
        else {},
        categories={name: _category(value) for name, value in categories.items()}
        if isinstance(categories, dict)
        else {},
        errors=_errors(document.get("error_summary")),
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(*values: Any) -> int:
    # The first of several places that says it.
    return next((round(value) for value in values if _is_number(value)), 0)


def _stats(value: Any) -> Stats | None:
    names = ("avg", "min", "max", "sum", "std")
    if not isinstance(value, dict) or not all(_is_number(value.get(name)) for name in (*names, "count")):
        return None
    percentiles = {q: float(value[f"p{q}"]) for q in PERCENTILES if _is_number(value.get(f"p{q}"))}
    if len(percentiles) < len(PERCENTILES):
        return None
    figures = {name: float(value[name]) for name in names}
    return Stats(count=round(value["count"]), percentiles=percentiles, **figures)


def _histogram(value: Any) -> Counter[int]:
    if not isinstance(value, dict):
        return Counter()
    pairs = ((bucket, steps) for bucket, steps in value.items() if str(bucket).isdecimal() and _is_number(steps))
    return Counter({int(bucket): round(steps) for bucket, steps in pairs})


def _category(value: Any) -> CategorySummary:
    pooled = PooledAcceptance(
        requests=_count(dig(value, "with_acceptance")),
        steps=_count(dig(value, "steps")),
        proposed=_count(dig(value, "draft_tokens")),
        accepted=_count(dig(value, "accepted_draft_tokens")),
        histogram=_histogram(dig(value, "acceptance_histogram")),
    )
    mean = dig(value, "acceptance_length")
    return CategorySummary(_count(dig(value, "requests")), pooled, float(mean) if _is_number(mean) else None)


def _errors(value: Any) -> list[ErrorGroup]:
    groups = []
    for entry in value if isinstance(value, list) else ():
        details = dig(entry, "error_details")
        kind, message, code = dig(details, "type"), dig(details, "message"), dig(details, "code")
        status = code if isinstance(code, int) else None
        groups.append(
            ErrorGroup(
                RequestError(ErrorKind.read(kind), str(message or kind or ""), status), _count(dig(entry, "count"))
            )
        )
    return groups
