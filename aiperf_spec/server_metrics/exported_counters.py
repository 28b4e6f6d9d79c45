"""Acceptance from what a server counted, as exported by this program or by AIPerf."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from aiperf_spec.adapters.registry import known_engines


@dataclass(slots=True, frozen=True)
class CountedAcceptance:
    """Growth of the counters of speculation, over all series."""

    accepted: int
    steps: int
    proposed: int


def counted_acceptance(document: dict[str, Any]) -> CountedAcceptance | None:
    """Return what the counters of an export grew by, all series together; None where one is missing or was reset."""
    for engine in known_engines().values():
        counters = engine.counters
        names = (counters.accepted_drafts, counters.verify_steps, counters.proposed_drafts)
        accepted, steps, proposed = (None if name is None else _total(document, name) for name in names)
        if accepted is not None and proposed is not None and steps:
            return CountedAcceptance(accepted, steps, proposed)
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


def _series(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    metrics = document.get("metrics")
    metric = metrics.get(name) if isinstance(metrics, dict) else None
    series = metric.get("series") if isinstance(metric, dict) else None
    return [one for one in series if isinstance(one, dict)] if isinstance(series, list) else []


def _stats(document: dict[str, Any], name: str, stat: str) -> list[float] | None:
    values = []
    for series in _series(document, name):
        stats = series.get("stats")
        value = stats.get(stat) if isinstance(stats, dict) else None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return None
        values.append(float(value))
    return values or None


def _total(document: dict[str, Any], name: str) -> int | None:
    values = _stats(document, name, "total")
    return None if values is None or min(values) < 0 else round(math.fsum(values))


def _gauge(document: dict[str, Any], described: Sequence[str | None], kind: str) -> float | None:
    metrics = document.get("metrics")
    names = [str(name) for name in metrics] if isinstance(metrics, dict) else []
    # An engine that is not known by name still tells by the words in it.
    known = [name for name in described if name is not None]
    alike = [
        name for name in names if all(word in name.lower() for word in ("spec", "accept", kind)) and name not in known
    ]
    for name in (*known, *sorted(alike)):
        values = _stats(document, name, "avg")
        if values is not None:
            return fmean(values)
    return None
