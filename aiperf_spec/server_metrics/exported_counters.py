"""Acceptance from what a server counted, as exported by this program or by AIPerf."""

from __future__ import annotations

import math
from statistics import fmean
from typing import Any

from aiperf_spec.adapters.registry import known_engines
from aiperf_spec.analysis.category_totals import CategoryTotals


def counted_acceptance(document: dict[str, Any]) -> CategoryTotals | None:
    """Return what the counters of an export grew by, all series together; None where one is missing or was reset."""
    for engine in known_engines().values():
        counters = engine.counters
        names = (counters.accepted_drafts, counters.verify_steps, counters.proposed_drafts)
        accepted, steps, proposed = (_total(document, name) for name in names)
        if accepted is not None and proposed is not None and steps:
            return CategoryTotals(accepted=accepted, steps=steps, proposed=proposed)
    return None


def length_gauge(document: dict[str, Any]) -> float | None:
    """Return the time-average of an acceptance-length gauge, over its series; None where there is none."""
    value = _gauge(document, [engine.counters.length_gauge for engine in known_engines().values()], "length")
    # An acceptance length below 1 is an idle server's zero.
    return value if value is not None and value >= 1 else None


def rate_gauge(document: dict[str, Any]) -> float | None:
    """Return the time-average of an acceptance-rate gauge, in percent; None where there is none."""
    value = _gauge(document, [engine.counters.rate_gauge for engine in known_engines().values()], "rate")
    return None if value is None else value * 100


def _stats(document: dict[str, Any], name: str | None, stat: str) -> list[float] | None:
    """Return a figure of each series of a metric; None where the metric is not there or one series lacks it."""
    try:
        series = document["metrics"][name]["series"]
        values = [each["stats"][stat] for each in series if isinstance(each, dict)]
    except (KeyError, TypeError):
        return None
    good = all(type(value) in (int, float) and math.isfinite(value) for value in values)
    return values if values and good else None


def _total(document: dict[str, Any], name: str | None) -> int | None:
    values = _stats(document, name, "total")
    return None if values is None or min(values) < 0 else round(math.fsum(values))


def _gauge(document: dict[str, Any], described: list[str | None], kind: str) -> float | None:
    metrics = document.get("metrics")
    names = sorted(map(str, metrics)) if isinstance(metrics, dict) else []
    # An engine that is not known by name still tells by the words in it.
    alike = [name for name in names if all(word in name.lower() for word in ("spec", "accept", kind))]
    values = next((found for name in (*described, *alike) if (found := _stats(document, name, "avg"))), None)
    return None if values is None else fmean(values)
