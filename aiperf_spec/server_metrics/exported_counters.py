"""Acceptance from what a server counted, as exported by this program or by AIPerf."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from aiperf_spec.server_metrics.reconciliation import ACCEPTED_TOKENS, DRAFT_TOKENS, DRAFTS

_LENGTH_GAUGES = ("sglang:spec_accept_length", "vllm:spec_decode_mean_accepted_length", "trtllm:spec_accept_length")
_RATE_GAUGES = ("sglang:spec_accept_rate", "vllm:spec_decode_draft_acceptance_rate", "trtllm:spec_accept_rate")


@dataclass(slots=True, frozen=True)
class CountedAcceptance:
    """Growth of the counters of speculation, over all series."""

    accepted: int
    steps: int
    proposed: int


def counted_acceptance(document: dict[str, Any]) -> CountedAcceptance | None:
    """Return what the counters of an export grew by, all series together; None where one is missing or was reset."""
    accepted, steps, proposed = (_total(document, name) for name in (ACCEPTED_TOKENS, DRAFTS, DRAFT_TOKENS))
    if accepted is None or steps is None or proposed is None or not steps:
        return None
    return CountedAcceptance(accepted, steps, proposed)


def length_gauge(document: dict[str, Any]) -> float | None:
    """Return the time-average of an acceptance-length gauge, over its series; None where there is none."""
    value = _gauge(document, _LENGTH_GAUGES, ("spec", "accept", "length"))
    # An acceptance length below 1 is an idle server's zero.
    return value if value is not None and value >= 1 else None


def rate_gauge(document: dict[str, Any]) -> float | None:
    """Return the time-average of an acceptance-rate gauge, in percent; None where there is none."""
    value = _gauge(document, _RATE_GAUGES, ("spec", "accept", "rate"))
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


def _gauge(document: dict[str, Any], known: tuple[str, ...], words: tuple[str, ...]) -> float | None:
    metrics = document.get("metrics")
    names = [str(name) for name in metrics] if isinstance(metrics, dict) else []
    # An engine that is not known by name still tells by the words in it.
    alike = [name for name in names if all(word in name.lower() for word in words) and name not in known]
    for name in (*known, *sorted(alike)):
        values = _stats(document, name, "avg")
        if values is not None:
            return fmean(values)
    return None
