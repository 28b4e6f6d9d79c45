"""Names of files and folders: AIPerf's, so that its tools find them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiperf_spec.models.run import RunInfo

SUMMARY_JSON = "profile_export_aiperf.json"
SUMMARY_CSV = "profile_export_aiperf.csv"
RECORDS_JSONL = "profile_export.jsonl"
RAW_JSONL = "profile_export_raw.jsonl"
ANALYSIS_JSON = "analysis.json"
SERVER_METRICS_JSON = "server_metrics_export.json"
SERVER_METRICS_CSV = "server_metrics_export.csv"
CONFIG_YAML = "config.yaml"
SWEEP_PLAN = "sweep_plan.json"
SWEEP_CELLS = "sweep_cells.jsonl"
SWEEP_SERVER = "sweep_server.json"
SWEEP_LOGS = "servers"
SWEEP_JSON = "sweep.json"
SWEEP_CSV = "sweep.csv"
SWEEP_HTML = "sweep.html"
_OF_SERVER = (SERVER_METRICS_JSON, SERVER_METRICS_CSV)
ALL = (SUMMARY_JSON, SUMMARY_CSV, RECORDS_JSONL, RAW_JSONL, ANALYSIS_JSON, CONFIG_YAML, *_OF_SERVER)

_MODEL_LENGTH = 80


def default_folder(info: RunInfo) -> Path:
    """Return `artifacts/<UTC time>-<model>-<endpoint>-c<concurrency>`, with a number where that is taken."""
    config = info.config
    model = re.sub(r"[^A-Za-z0-9._]+", "-", info.model)[:_MODEL_LENGTH].strip("-.") or "model"
    return _free(Path("artifacts") / f"{_stamp()}-{model}-{config.endpoint_type}-c{config.concurrency}")


def default_sweep_folder() -> Path:
    """Return `artifacts/sweep-<UTC time>`, with a number where that is taken."""
    return _free(Path("artifacts") / f"sweep-{_stamp()}")


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")


def _free(path: Path) -> Path:
    candidate, number = path, 2
    while candidate.exists():
        candidate, number = path.with_name(f"{path.name}-{number}"), number + 1
    return candidate
