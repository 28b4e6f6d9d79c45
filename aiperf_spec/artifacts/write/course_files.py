"""A course of candidates as JSON and as CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aiperf_spec.analysis.comparison.course import Against, Checkpoint, Course
from aiperf_spec.analysis.gates import GateResult
from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.artifacts.write.analysis_json import SCHEMA_VERSION
from aiperf_spec.artifacts.write.csv_table import csv_bytes
from aiperf_spec.artifacts.write.record_lines import to_json
from aiperf_spec.render.course import reason, sentences

_ESTIMATE = ("", "_low", "_high")
_AGAINST = (*_ESTIMATE, "_adjusted_p", "_verdict")


def course_json(found: Course, gates: Mapping[str, Sequence[GateResult]] | None = None) -> bytes:
    """Return what `compare --order-by --format json` prints: every candidate, those left out, gates where asked for."""
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "interval_level": 0.95,
        "clusters": "prompts",
        "correction": f"Holm, over {found.tests} pairs of runs",
        "ordered_by": found.ordered_by,
        "prompts": found.prompts,
        "base": {"run": found.base, "prompts": found.base_prompts, "acceptance_length": found.base_length},
        "best": None if found.best is None else found.checkpoints[found.best].name,
        "candidates": [_checkpoint(each) for each in found.checkpoints],
        "left_out": [{"run": each.name, "reason": each.reason, "message": reason(each)} for each in found.left_out],
        "sentences": list(sentences(found)),
    }
    if gates is not None:
        document["gates"] = [{"candidate": name, "results": results} for name, results in gates.items()]
        document["gates"] += [{"candidate": each.name, "results": None} for each in found.left_out]
    return to_json(document, indent=True) + b"\n"


def _checkpoint(each: Checkpoint) -> dict[str, Any]:
    return {
        "run": each.name,
        "place": each.place,
        "acceptance_length": each.length,
        "against_base": _against(each.against_base),
        "against_best": None if each.against_best is None else _against(each.against_best),
        "misleads": each.mismatches,
    }


def _against(found: Against) -> dict[str, Any]:
    own = {"p": found.difference.p, "adjusted_p": found.adjusted_p, "verdict": found.verdict}
    return {"difference": found.difference.estimate, **own}


def course_csv(found: Course) -> bytes:
    """Return a row for the base and each candidate, and one with the reason for each run that is left out."""
    head = ["place", "run", "prompts", *(f"acceptance_length{end}" for end in _ESTIMATE)]
    head += [f"{name}{end}" for name in ("less_base", "less_best") for end in _AGAINST]
    rows = [["base", found.base, *_length(found.base_length), *[""] * 2 * len(_AGAINST), ""]]
    for each in found.checkpoints:
        against = (_cells(each.against_base), _cells(each.against_best))
        rows.append([each.place, each.name, *_length(each.length), *against[0], *against[1], ""])
    filled = [""] * (len(head) - 2)
    rows += [["", each.name, *filled, reason(each)] for each in found.left_out]
    return csv_bytes([[*head, "left_out"], *rows])


def _length(length: Estimate) -> list[str]:
    return [str(length.n), *_estimate(length)]


def _estimate(found: Estimate) -> list[str]:
    return [_number(value) for value in (found.value, found.low, found.high)]


def _cells(found: Against | None) -> list[str]:
    if found is None:
        return ["", "", "", "", "best"]
    return [*_estimate(found.difference.estimate), _number(found.adjusted_p), found.verdict]


def _number(value: float | None) -> str:
    return "" if value is None else repr(value)
