"""A run's figures from its summary file: all that a run leaves at `--export-level summary`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from aiperf_spec.artifacts.read.summary_file import Category, ErrorCount, SummaryFile
from aiperf_spec.metrics.pooled import PooledAcceptance
from aiperf_spec.metrics.stats import PERCENTILES, STAT_NAMES, Stats
from aiperf_spec.metrics.summary import CategorySummary, ErrorGroup, Summary
from aiperf_spec.metrics.table import RECORD_METRICS, RUN_METRICS
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.run import ErrorKind, RequestError


def summary_of(file: SummaryFile) -> Summary:
    """Return the figures of the profiled phase as the summary file gives them; what it lacks is absent or zero."""
    own = file.spec_profile
    values = {metric.tag: file.metric(metric.tag) for metric in RUN_METRICS}
    run_values = {tag: value for tag, value in values.items() if value is not None}
    stats = {metric.tag: _stats(file, metric.tag) for metric in RECORD_METRICS}
    return Summary(
        succeeded=_count(own.requests.get("succeeded"), run_values.get("request_count")),
        failed=_count(own.requests.get("failed"), run_values.get("error_request_count")),
        cancelled=_count(own.requests.get("cancelled")),
        record_stats={tag: described for tag, described in stats.items() if described is not None},
        run_values=run_values,
        acceptance=PooledAcceptance(
            requests=_count(own.requests.get("with_acceptance"), file.metric("spec_decode_steps", "count")),
            steps=_count(run_values.get("total_spec_decode_steps")),
            proposed=_count(run_values.get("total_draft_tokens")),
            accepted=_count(run_values.get("total_accepted_draft_tokens")),
            histogram=_histogram(file.pooled_spec_decode_acceptance_histogram),
        ),
        drop_reasons={reason: _count(own.drop_reasons[reason]) for reason in DropReason if reason in own.drop_reasons},
        categories={name: _category(found or Category()) for name, found in own.categories.items()},
        errors=[_error(found or ErrorCount()) for found in file.error_summary],
    )


def _count(*values: float | None) -> int:
    # The first of several places that says it.
    return next((round(value) for value in values if value is not None), 0)


def _stats(file: SummaryFile, tag: str) -> Stats | None:
    found = {name: file.metric(tag, name) for name in (*STAT_NAMES, "count")}
    known = {name: value for name, value in found.items() if value is not None}
    if len(known) < len(found):
        return None
    percentiles = {q: known.pop(f"p{q}") for q in PERCENTILES}
    return Stats(count=round(known.pop("count")), percentiles=percentiles, **known)


def _histogram(found: Mapping[str, float | None]) -> Counter[int]:
    known = {bucket: steps for bucket, steps in found.items() if bucket.isdecimal() and steps is not None}
    return Counter({int(bucket): round(steps) for bucket, steps in known.items()})


def _category(found: Category) -> CategorySummary:
    pooled = PooledAcceptance(
        requests=_count(found.with_acceptance),
        steps=_count(found.steps),
        proposed=_count(found.draft_tokens),
        accepted=_count(found.accepted_draft_tokens),
        histogram=_histogram(found.acceptance_histogram),
    )
    return CategorySummary(_count(found.requests), pooled, found.acceptance_length)


def _error(found: ErrorCount) -> ErrorGroup:
    details = found.error_details
    message = details.message or details.type or ""
    return ErrorGroup(RequestError(ErrorKind.read(details.type), message, details.code), _count(found.count))
