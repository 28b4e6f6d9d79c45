"""Analyses and comparisons as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from aiperf_spec.analysis.report import Analysis
from aiperf_spec.artifacts.write.record_lines import to_json

if TYPE_CHECKING:  # a run that compares nothing does not import them
    from aiperf_spec.analysis.comparison.compare import Comparison, ComparisonSet, Row
    from aiperf_spec.analysis.comparison.outputs import OutputComparison
    from aiperf_spec.analysis.gates import GateResult

SCHEMA_VERSION = "1.0"


def analysis_json(analysis: Analysis) -> bytes:
    """Return `analysis.json`: the analysis field by field, every figure with its interval or the reason for none."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "interval_level": 0.95,
        "clusters": "prompts",
        "what_if_is_an_estimate": True,
        **asdict(analysis),
    }
    return to_json(document, indent=True) + b"\n"


def comparison_json(
    comparisons: ComparisonSet,
    gates: Sequence[Sequence[GateResult]] | None = None,
    outputs: Sequence[OutputComparison] = (),
) -> bytes:
    """Return what `compare --format json` prints: every comparison and, where asked for, its gates and its answers."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "interval_level": 0.95,
        "correction": f"Holm, over {comparisons.tests} verdicts, half of the weight on pooled length",
        "comparisons": [_comparison(comparison) for comparison in comparisons.comparisons],
    }
    if gates is not None:
        document["gates"] = [
            {"candidate": comparison.candidate, "results": results}
            for comparison, results in zip(comparisons.comparisons, gates, strict=True)
        ]
    if outputs:
        document["outputs"] = [
            {**asdict(each), "median_shared": each.median_shared, "near_ties": each.near_ties} for each in outputs
        ]
    return to_json(document, indent=True) + b"\n"


def _comparison(comparison: Comparison) -> dict[str, Any]:
    pairing = comparison.pairing
    return {
        "base": comparison.base,
        "candidate": comparison.candidate,
        "paired": pairing.paired,
        "paired_by": "content" if pairing.by_content else "id",
        "pairs": len(pairing.pairs),
        "base_only": pairing.base_only,
        "candidate_only": pairing.candidate_only,
        "requests": {"base": comparison.outcomes[0], "candidate": comparison.outcomes[1]},
        "misleads": comparison.mismatches,
        "metrics": {row.tag: _row(row) for row in comparison.rows},
        "categories": {name: {row.tag: _row(row) for row in rows} for name, rows in comparison.categories.items()},
    }


def _row(row: Row) -> dict[str, Any]:
    found = row.difference
    return {
        "unit": row.unit,
        "better": row.better,
        "base": found.base,
        "candidate": found.candidate,
        "difference": found.estimate,
        "relative": row.relative,
        "paired": found.paired,
        "p": found.p,
        "adjusted_p": row.adjusted_p,
        "verdict": row.verdict,
    }
