"""A sweep's answers as `sweep.json` and `sweep.csv`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.analysis.sweep.contrasts import Contrast
from aiperf_spec.analysis.sweep.points import MIN_REPEATS, Point
from aiperf_spec.analysis.sweep.sweep import Answers, SweepAnalysis
from aiperf_spec.artifacts.write.csv_table import csv_bytes
from aiperf_spec.artifacts.write.record_lines import to_json
from aiperf_spec.models.sweep import Load

SCHEMA_VERSION = "1.0"

_ESTIMATES = (
    ("output_token_throughput", "throughput"),
    ("goodput", "goodput"),
    ("inter_token_latency_ms", "itl_ms"),
    ("acceptance_length", "length"),
    ("draft_acceptance_rate_percent", "rate"),
    ("tokens_per_decode_step", "tokens_per_step"),
    ("step_time_ms", "step_time_ms"),
)
"""The names of a point's figures in files, and its fields."""


def sweep_json(
    analysis: SweepAnalysis, sentences: Sequence[str] = (), configurations: Mapping[str, Any] | None = None
) -> bytes:
    """Return `sweep.json`: every figure with its interval or the reason for none, verdicts, and what they come to.

    `configurations` are those of engines by name, as they were written.
    """
    slo, economy = analysis.slo, analysis.economy
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "interval_level": 0.95,
        "clusters": "prompts",
        "correction": f"Holm, over {analysis.answers.contrasts.tests} comparisons",
        "repeats": analysis.fewest_repeats,
        "repeats_for_verdicts": MIN_REPEATS,
        "points": [_point(point) for point in analysis.points],
        **_answers(analysis.answers),
        "categories": {name: _answers(answers) for name, answers in analysis.categories.items()},
        "slo": None,
        "economy": None,
        "failed_cells": [
            {"cell": cell.name, **_cell(cell.load, cell.k), "reason": why} for cell, why in analysis.failed
        ],
        "cells_at_less_load": [
            {"cell": cell.name, **_cell(cell.load, cell.k), "in_flight": mean} for cell, mean in analysis.short
        ],
        "sentences": list(sentences),
        "configurations": dict(configurations or {}),
    }
    if slo is not None:
        document["slo"] = {
            "conditions": slo.expressions,
            "highest_load": _load(slo.highest),
            "best_k": slo.best,
            "ties": slo.ties,
            "highest_load_of_k": [{"k": k, "load": _load(load)} for k, load in slo.highest_of.items()],
            "cells": [
                {
                    **_cell(each.load, each.k),
                    "met": each.met,
                    "missed": [
                        {"condition": result.gate.expression, "value": result.figure.value} for result in each.missed
                    ],
                }
                for each in slo.outcomes
            ],
        }
    if economy is not None:
        document["economy"] = {
            "predictions": [
                {**_cell(each.load, each.k), **asdict(each), "load": each.load.value, "error": each.error}
                for each in economy.predictions
            ],
            "refused": [{"load": _load(load), "reason": reason} for load, reason in economy.refused.items()],
        }
    return to_json(document, indent=True) + b"\n"


def _load(load: Load | None) -> float | None:
    return None if load is None else load.value


def _cell(load: Load, k: int | None) -> dict[str, Any]:
    return {"load_kind": load.kind, "load": load.value, "k": k}


def _point(point: Point) -> dict[str, Any]:
    return {
        **_cell(point.load, point.k),
        "engine": point.engine,
        "repeats": point.repeats,
        "request_count": point.requests,
        "error_request_count": point.failed,
        **{name: getattr(point, field) for name, field in _ESTIMATES},
        "time_to_first_token_ms": {"p50": point.ttft_p50_ms, "p99": point.ttft_p99_ms},
        "running_requests": point.running,
        "running_requests_by": "gauge" if point.by_gauge else "client",
    }


def _answers(answers: Answers) -> dict[str, Any]:
    return {
        "speed_ups": [_contrast(each) for each in answers.contrasts.by_pair.values()],
        "best": [
            {
                "load": choice.load.value,
                "k": choice.best,
                "ties": choice.ties,
                "shown": choice.shown,
                "judged": choice.judged,
            }
            for choice in answers.choices
        ],
        "pays": [
            {
                "k": payoff.k,
                "comes_to": payoff.trend,
                "faster_at": [load.value for load in payoff.faster],
                "slower_at": [load.value for load in payoff.slower],
                "none_shown_at": [load.value for load in payoff.unshown],
                "not_judged_at": [load.value for load in payoff.unjudged],
                "crossover": payoff.crossover,
            }
            for payoff in answers.payoffs
        ],
    }


def _contrast(found: Contrast) -> dict[str, Any]:
    return {
        **_cell(found.load, found.k),
        "base_k": found.base,
        "speed_up": found.speed_up,
        "repeats": found.repeats,
        "p": found.p,
        "adjusted_p": found.adjusted_p,
        "verdict": found.verdict,
    }


def sweep_csv(analysis: SweepAnalysis) -> bytes:
    """Return `sweep.csv`: a row for each load and k, with the ends of intervals; empty where there is no value."""
    names = [part for name, _ in _ESTIMATES for part in (name, f"{name}_low", f"{name}_high")]
    first = ["load_kind", "load", "k", "engine", "repeats", "request_count", "error_request_count", "prompts"]
    last = ["time_to_first_token_ms_p50", "time_to_first_token_ms_p99", "running_requests"]
    speed = ["speed_up", "speed_up_low", "speed_up_high", "speed_up_prompts", "verdict"]
    rows = [[*first, *names, *last, *speed]]
    for point in analysis.points:
        found = analysis.answers.speed_up(point.load, point.k)
        judged = ["", "", "", "", ""]
        if found is not None:
            judged = [*_ends(found.speed_up), str(found.speed_up.n), str(found.verdict)]
        counts = map(str, (point.repeats, point.requests, point.failed, point.itl_ms.n))
        of_cell = [str(point.load.kind), f"{point.load.value:g}", "" if point.k is None else str(point.k)]
        figures = [text for _, field in _ESTIMATES for text in _ends(getattr(point, field))]
        times = map(_text, (point.ttft_p50_ms, point.ttft_p99_ms, point.running))
        rows.append([*of_cell, point.engine or "", *counts, *figures, *times, *judged])
    return csv_bytes(rows)


def _ends(found: Estimate | None) -> list[str]:
    return ["", "", ""] if found is None else [_text(found.value), _text(found.low), _text(found.high)]


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
