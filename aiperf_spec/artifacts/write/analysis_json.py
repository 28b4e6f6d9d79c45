"""Analyses as JSON."""

from __future__ import annotations

from dataclasses import asdict

from aiperf_spec.analysis.report import Analysis
from aiperf_spec.artifacts.write.record_lines import to_json

SCHEMA_VERSION = "1.0"


def analysis_json(analysis: Analysis) -> bytes:
    """Return `analysis.json`: the analysis field by field, every figure with its interval or the reason for none."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "interval_level": 0.95,
        "what_if_is_an_estimate": True,
        **asdict(analysis),
    }
    return to_json(document, indent=True) + b"\n"
