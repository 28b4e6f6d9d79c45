"""What a server counted as JSON and as CSV, in AIPerf's shapes (schema 1.1 and 1.0)."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from aiperf_spec.analysis.server_acceptance import ServerAcceptance, server_acceptance
from aiperf_spec.artifacts.write.csv_table import csv_bytes
from aiperf_spec.artifacts.write.record_lines import to_json
from aiperf_spec.metrics.stats import PERCENTILES
from aiperf_spec.models.server_metrics import (
    EndpointScrapes,
    MetricFigures,
    Reconciliation,
    SeriesFigures,
    ServerMetrics,
)
from aiperf_spec.models.units import NS_PER_S
from aiperf_spec.version import __version__

_JSON_SCHEMA = "1.1"
_CSV_SCHEMA = "1.0"
_PERCENTILES = tuple(f"p{q}" for q in PERCENTILES)
_SECTIONS = (
    ("gauge", ("avg", "min", "max", "std", *_PERCENTILES)),
    ("counter", ("total", "rate", "rate_avg", "rate_min", "rate_max", "rate_std")),
    ("histogram", ("count", "count_rate", "sum", "sum_rate", "avg", *(f"{name}_estimate" for name in _PERCENTILES))),
)
_INFO = "_info"
"""A gauge of this name holds its text in its labels."""
COUNTERS_LABEL = "server's counters, all traffic"
GAUGE_NOTE = "averages over time within the profiled interval, not token-weighted"


def server_metrics_json(metrics: ServerMetrics, run_id: str, reconciliation: Reconciliation | None) -> bytes:
    """Return `server_metrics_export.json`: AIPerf's keys at the top, ours under `spec_profile`."""
    urls = [endpoint.url for endpoint in metrics.endpoints]
    document: dict[str, Any] = {
        "schema_version": _JSON_SCHEMA,
        "aiperf_version": f"spec-profile {__version__}",
        "benchmark_id": run_id,
        "summary": {
            "endpoints_configured": urls,
            "endpoints_successful": urls,
            "start_time": iso_time(metrics.start_ns),
            "end_time": iso_time(metrics.end_ns),
            "endpoint_info": {endpoint.url: _endpoint(endpoint) for endpoint in metrics.endpoints},
            "phase_time_ranges": {"profiling": {"start_ns": metrics.start_ns, "end_ns": metrics.end_ns}},
        },
        "metrics_phase": "profiling",
        "metrics": {name: _metric(metric) for name, metric in metrics.metrics.items()},
        "spec_profile": {
            "gauges": GAUGE_NOTE,
            "reset": sorted(name for name, metric in metrics.metrics.items() if any(s.reset for s in metric.series)),
            "reconciliation": None if reconciliation is None else reconciliation_json(reconciliation),
        },
    }
    return to_json(document, indent=True) + b"\n"


def reconciliation_json(reconciliation: Reconciliation) -> dict[str, Any]:
    """Return a reconciliation as JSON values."""
    counts = [{**asdict(count), "difference": count.difference} for count in reconciliation.counts]
    return {**asdict(reconciliation), "counts": counts}


def server_acceptance_json(reconciliation: Reconciliation | None) -> dict[str, Any] | None:
    """Return acceptance by the server's counters, or the reason for none; None where they were not compared.

    A length that is known between bounds only is null. The rate is in percent; `position_acceptance` holds
    unconditional shares of the verify steps, from position 1.
    """
    if reconciliation is None:
        return None
    found = server_acceptance(reconciliation)
    if not isinstance(found, ServerAcceptance):
        return {"of": COUNTERS_LABEL, "reason": found}
    return {
        "of": COUNTERS_LABEL,
        "acceptance_length": found.length if found.is_exact else None,
        "least_acceptance_length": found.least_length,
        "greatest_acceptance_length": found.length,
        "draft_acceptance_rate": found.rate,
        "position_acceptance": found.positions,
        "verify_steps": found.steps,
        "draft_tokens": found.proposed,
        "accepted_draft_tokens": found.accepted if found.is_exact else None,
    }


def iso_time(wall_ns: int) -> str:
    """Return a wall clock in ns as AIPerf writes it: UTC without a zone."""
    return datetime.fromtimestamp(wall_ns / NS_PER_S, UTC).replace(tzinfo=None).isoformat()


def _endpoint(endpoint: EndpointScrapes) -> dict[str, Any]:
    return {
        "total_fetches": endpoint.fetches,
        "failed_fetches": endpoint.failed_fetches,
        "first_fetch_ns": endpoint.first_ns,
        "last_fetch_ns": endpoint.last_ns,
        "avg_fetch_latency_ms": endpoint.latency_ms,
        "duration_seconds": (endpoint.last_ns - endpoint.first_ns) / NS_PER_S,
        "settled": endpoint.settled,
    }


def _metric(metric: MetricFigures) -> dict[str, Any]:
    unit = {} if metric.unit is None else {"unit": metric.unit}
    series = [_series(series) for series in metric.series]
    return {"type": metric.type, "description": metric.description, **unit, "series": series}


def _series(series: SeriesFigures) -> dict[str, Any]:
    left_out: dict[str, Any] = {"labels": {}, "buckets": None, "reset": False}
    return {key: value for key, value in asdict(series).items() if key not in left_out or value != left_out[key]}


def server_metrics_csv(metrics: ServerMetrics, run_id: str) -> bytes:
    """Return `server_metrics_export.csv`: gauges, counters, histograms and texts, each a section with a header."""
    head = "# AIPerf Server Metrics Export (CSV)\n"
    head += f"# aiperf_version: spec-profile {__version__}\n# schema_version: {_CSV_SCHEMA}\n"
    head += f"# benchmark_id: {run_id}\n# Note: gauges are {GAUGE_NOTE}\n#\n"
    rows: list[list[str]] = []
    for kind, names in _SECTIONS:
        if chosen := {n: m for n, m in metrics.metrics.items() if m.type == kind and not n.endswith(_INFO)}:
            rows += [[], *_section(kind, names, chosen)] if rows else _section(kind, names, chosen)
    texts = {name: metric for name, metric in metrics.metrics.items() if name.endswith(_INFO)}
    if texts:
        rows += [[], ["Endpoint", "Metric", "Key", "Value", "Description"]]
    for name, metric in texts.items():
        for series in metric.series:
            host = _host(series.endpoint_url)
            rows += [[host, name, key, text, metric.description] for key, text in series.labels.items()]
    return head.encode() + csv_bytes(rows)


def _section(kind: str, names: tuple[str, ...], metrics: dict[str, MetricFigures]) -> Iterator[list[str]]:
    labels = sorted({label for metric in metrics.values() for series in metric.series for label in series.labels})
    last = ["buckets"] if kind == "histogram" else []
    yield ["Endpoint", "Type", "Metric", "Unit", *names, *labels, "Description", *last]
    for name, metric in metrics.items():
        for series in metric.series:
            figures = (_figure(series.stats.get(stat), whole=stat == "count") for stat in names)
            row = [_host(series.endpoint_url), kind, name, metric.unit or "", *figures]
            row += [*(series.labels.get(label, "") for label in labels), metric.description]
            if kind == "histogram":
                row.append(";".join(f"{bound}={count}" for bound, count in (series.buckets or {}).items()))
            yield row


def _figure(value: float | None, *, whole: bool) -> str:
    if value is None:
        return ""
    return str(round(value)) if whole else f"{value:.4f}"


def _host(url: str) -> str:
    return urlsplit(url).netloc
