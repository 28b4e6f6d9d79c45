"""Analyses as JSON, and the records of a baseline."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from aiperf_spec.analysis.report import Analysis
from aiperf_spec.artifacts.write.record_lines import to_json
from aiperf_spec.errors import ConfigError
from aiperf_spec.models.run import RequestRecord

SCHEMA_VERSION = "1.0"


def load_baseline(folder: Path) -> list[RequestRecord]:
    """Return a baseline's records; raise `ConfigError` where it speculated, for then it is no baseline."""
    from aiperf_spec.artifacts.read.records import load_records

    records = list(load_records(folder).records)
    if any(record.acceptance is not None for record in records):
        raise ConfigError(
            f"--baseline {str(folder)!r} is a run with speculation: its requests report acceptance",
            "name a run of the same server without speculation; --base is for gates that compare two such runs",
        )
    return records


def analysis_json(analysis: Analysis) -> bytes:
    """Return `analysis.json`: the analysis field by field, every figure with its interval or the reason for none."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "interval_level": 0.95,
        "what_if_is_an_estimate": True,
        **as_plain(analysis),
    }
    return to_json(document, indent=True) + b"\n"


def as_plain(value: Any) -> Any:
    """Return dataclasses as mappings and tuples as lists, all the way down."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: as_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(item) for item in value]
    return value
