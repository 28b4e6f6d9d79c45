"""A run's summary as JSON and as CSV, in AIPerf's shapes (schema 1.5)."""

from typing import Any

from aiperf_spec.artifacts.write.csv_table import csv_bytes
from aiperf_spec.artifacts.write.record_lines import error_details, to_json
from aiperf_spec.artifacts.write.server_metrics_files import iso_time, reconciliation_json, server_acceptance_json
from aiperf_spec.config.choices import ExportLevel
from aiperf_spec.config.redaction import Redactor
from aiperf_spec.config.server_url import split_endpoint
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.metrics.stats import STAT_NAMES, Stats, loop_lag
from aiperf_spec.metrics.summary import CategorySummary, Summary, summarise
from aiperf_spec.metrics.table import LOOP_LAG, RECORD_METRICS, RUN_METRICS
from aiperf_spec.models.clients import Clients
from aiperf_spec.models.run import DatasetInfo, Phase, RunResult
from aiperf_spec.version import __version__

SCHEMA_VERSION = "1.5"


def summary_json(result: RunResult, summary: Summary) -> bytes:
    """Return `profile_export_aiperf.json`: AIPerf's keys at the top, ours under `spec_profile`."""
    document: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "benchmark_id": result.run_id}
    document |= figures_json(summary)
    if (lag := loop_lag(result.loop_lags_ns)) is not None:
        document[LOOP_LAG] = {"unit": "ms", **_stats(lag)}
    slos = {"slos": summary.objectives} if summary.objectives else {}
    document["input_config"] = input_config(result) | slos
    document["run_info"] = {"benchmark_id": result.run_id, "trial": 0, "generator": f"spec-profile {__version__}"}
    document["was_cancelled"] = result.stopped_by is not None
    document["is_complete"] = result.stopped_by is None and result.failure is None
    document["error_summary"] = [
        {"error_details": error_details(group.first), "count": group.count} for group in summary.errors
    ]
    document |= _interval(result)
    warmup = summarise(result.records, Phase.WARMUP)
    if warmup.total:
        document["warmup_metrics"] = _metrics(warmup)
    document["spec_profile"] = _ours(result, summary)
    return to_json(document, indent=True) + b"\n"


def figures_json(summary: Summary) -> dict[str, Any]:
    """Return a summary's metrics and pooled histogram as AIPerf's keys hold them, less all that is of a single run."""
    pooled = {"pooled_spec_decode_acceptance_histogram": dict(sorted(summary.acceptance.histogram.items()))}
    return _metrics(summary) | (pooled if summary.acceptance.requests else {})


def clients_json(clients: Clients) -> dict[str, Any]:
    """Return what each client added to a pooled run, times in UTC, and for how long all of them were under way."""
    return {
        "each": [
            {
                "name": client.name,
                "share": None if client.share is None else str(client.share),
                "requests": client.requests,
                "start_time": None if client.start_ns is None else iso_time(client.start_ns),
                "end_time": None if client.end_ns is None else iso_time(client.end_ns),
                "clock": client.clock,
            }
            for client in clients.each
        ],
        "missing_shares": [str(share) for share in clients.missing],
        "start_spread_seconds": clients.start_spread_s,
        "common_seconds": clients.common_s,
    }


def _metrics(summary: Summary) -> dict[str, Any]:
    metrics: dict[str, Any] = {}
    for metric in RECORD_METRICS:
        if (stats := summary.record_stats.get(metric.tag)) is not None:
            metrics[metric.tag] = {"unit": metric.unit, **_stats(stats)}
    for run_metric in RUN_METRICS:
        if (value := summary.run_values.get(run_metric.tag)) is not None:
            metrics[run_metric.tag] = {"unit": run_metric.unit, "avg": value}
    return metrics


def _stats(stats: Stats) -> dict[str, float]:
    return {**{name: stats.value(name) for name in STAT_NAMES}, "count": stats.count}


def _interval(result: RunResult) -> dict[str, str | None]:
    profiled = result.profiled()
    if not profiled:
        return {"start_time": None, "end_time": None}
    start = min(record.start_ns for record in profiled) + result.wall_offset_ns
    end = max(record.end_ns for record in profiled) + result.wall_offset_ns
    return {"start_time": iso_time(start), "end_time": iso_time(end)}


def _ours(result: RunResult, summary: Summary) -> dict[str, Any]:
    return {
        "version": __version__,
        "server": {
            "url": result.url,
            "owned_by": result.owned_by,
            "version": result.server_version,
            "drafter": result.drafter,
        },
        "engines": sorted(summary.acceptance.engines),
        "draft_lengths": sorted(summary.acceptance.draft_lengths),
        "stopped_by": result.stopped_by,
        "prompts": {
            "type": result.dataset.type,
            "turns": result.dataset.turns,
            "file_hashes": result.dataset.file_hashes,
        },
        "client": _client(result),
        "tags": Redactor(result.config, split_endpoint(result.config.url)).value(result.config.tags),
        "failure": None if result.failure is None else result.failure.message,
        "requests": {
            "total": summary.total,
            "succeeded": summary.succeeded,
            "failed": summary.failed,
            "cancelled": summary.cancelled,
            "unsent": result.unsent,
            "with_acceptance": summary.acceptance.requests,
        },
        "drop_reasons": {str(reason): count for reason, count in summary.drop_reasons.items()},
        "categories": {name: _category(category) for name, category in summary.categories.items()},
        "reconciliation": None if result.reconciliation is None else reconciliation_json(result.reconciliation),
        "server_acceptance": server_acceptance_json(result.reconciliation),
        "notices": [{"kind": notice.kind, **notice.values} for notice in result.notices],
    }


def _client(result: RunResult) -> dict[str, Any] | None:
    # Of one of several clients, what it was told and how its clock stands.
    config = result.config
    if config.share is None and config.start_at is None:
        return None
    return {"share": config.share, "start_at": config.start_at, "clock": result.clock}


def _category(category: CategorySummary) -> dict[str, Any]:
    pooled = category.acceptance
    return {
        "requests": category.requests,
        "with_acceptance": pooled.requests,
        "token_weighted_acceptance_length": pooled.length,
        "acceptance_length": category.mean_length,
        "overall_draft_acceptance_rate": pooled.rate_percent,
        "steps": pooled.steps,
        "accepted_draft_tokens": pooled.accepted,
        "draft_tokens": pooled.proposed,
        "acceptance_histogram": dict(sorted(pooled.histogram.items())),
    }


def input_config(result: RunResult) -> dict[str, Any]:
    """Return the configuration in AIPerf's nesting; it holds no secret."""
    config = result.config
    how: dict[str, Any] = {} if config.request_rate is None else {"rate": config.request_rate}
    if config.fixed_schedule:
        how["type"] = "fixed_schedule"
    phases = [_phase(config, "profiling", config.request_count or len(result.profiled()), **how)]
    if config.warmup_request_count:
        phases.insert(0, _phase(config, "warmup", config.warmup_request_count, exclude_from_results=True))
    limit = {} if config.max_tokens is None else {"max_tokens": config.max_tokens}
    extra = dict(config.extra_inputs)
    for name, value in (limit | config.sent_options).items():
        extra.setdefault(name, value)
    return {
        "models": {"items": [{"name": result.model}]},
        "endpoint": {
            "urls": [_given_url(config)],
            "type": config.endpoint_type,
            "streaming": config.streaming,
            "use_server_token_count": config.use_server_token_count,
            "extra": Redactor(config, split_endpoint(config.url)).value(extra),
        },
        "datasets": [_dataset(result)],
        "phases": phases,
        "artifacts": {
            "dir": None if result.artifact_dir is None else str(result.artifact_dir),
            "records": ["jsonl"] if config.export_level is not ExportLevel.SUMMARY else [],
            "raw": config.export_level is ExportLevel.RAW,
        },
        "random_seed": config.random_seed,
        "server_metrics": {"enabled": config.server_metrics, "urls": [], "formats": ["json", "csv"]},
    }


def _given_url(config: ProfileConfig) -> str:
    # With a version where the URL named one; AIPerf adds its own.
    server = split_endpoint(config.url)
    version = server.base.removeprefix(server.root)
    return server.base if version and version in config.url else server.root


def _dataset(result: RunResult) -> dict[str, Any]:
    dataset = result.dataset
    return {
        "name": dataset.name,
        "type": "file" if dataset.path else "built_in",
        "path": dataset.path,
        "format": _format(dataset),
        "entries": dataset.entries,
        "sampling": result.config.sampling,
    }


def _format(dataset: DatasetInfo) -> str:
    # AIPerf's report reads a run as SPEED-Bench's by this selector: rows with a category, which each record carries
    # as its `source_kind`.
    selector = dataset.selector or ""
    if selector.startswith("speed_bench_"):
        return selector
    if dataset.has_categories:
        return "speed_bench_qualitative"
    return dataset.type or "single_turn"


def _phase(config: ProfileConfig, name: str, requests: int, **more: Any) -> dict[str, Any]:
    load = {"type": "concurrency", "requests": requests, "concurrency": config.concurrency}
    return {"name": name, "kind": name, **load, **more}


def summary_csv(summary: Summary) -> bytes:
    """Return `profile_export_aiperf.csv`: request metrics with statistics, a blank line, run metrics with a value."""
    rows: list[list[str]] = []
    if summary.record_stats:
        rows.append(["Metric", *STAT_NAMES])
        for metric in sorted(RECORD_METRICS, key=lambda metric: metric.tag):
            if (stats := summary.record_stats.get(metric.tag)) is not None:
                values = [f"{stats.value(name):.2f}" for name in STAT_NAMES]
                rows.append([_headed(metric.header, metric.unit), *values])
        rows.append([])
    rows.append(["Metric", "Value"])
    for run_metric in sorted(RUN_METRICS, key=lambda metric: metric.tag):
        if (value := summary.run_values.get(run_metric.tag)) is not None:
            rows.append([_headed(run_metric.header, run_metric.unit), f"{value:.2f}"])
    return csv_bytes(rows, line_end="\r\n")


def _headed(header: str, unit: str) -> str:
    return header if unit in ("count", "requests") else f"{header} ({unit})"
