"""Analyses as JSON."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from aiperf_spec.analysis.report import Analysis
from aiperf_spec.artifacts.write.record_lines import to_json

SCHEMA_VERSION = "1.0"


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
