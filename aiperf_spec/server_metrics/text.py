"""Read Prometheus' text format and OpenMetrics, with prometheus-client's parser of the former.

Its parser of OpenMetrics refuses whatever breaks a rule, and the pages of engines break some: what is said otherwise in
OpenMetrics is rewritten line by line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.samples import Sample

Labels = tuple[tuple[str, str], ...]
"""Names and values of a series, by name."""


class NotPrometheusError(ValueError):
    """Say that a text is not in Prometheus' format."""


MAX_VALUE = 1e18
"""The largest value that is reckoned with: beyond, sums and squares may be no number, and no counter gets there."""


def value_of(number: float) -> float:
    """Return the number; NaN for infinity, and for one so large that figures of it mean nothing."""
    return number if abs(number) <= MAX_VALUE else math.nan


_DECLARED = re.compile(r"# (TYPE|HELP) (\S+)(.*)")
_SAMPLE = re.compile(r"([\w:.]+)((?:\{.*\})?)[ \t]+([^ \t]+)(?:[ \t]+[-+.\deE]+)?\s*$")
_EXEMPLAR = re.compile(r' # \{(?:[^"{}]|"(?:[^"\\]|\\.)*")*\} [-+.\deE]+(?: [-+.\deE]+)?\s*$')


def sample_of(line: str) -> tuple[str, str] | None:
    """Return the series of a sample's line and its value, without time stamp and exemplar; None for another line.

    Dots in its name become underscores, for Prometheus' names have none.
    """
    if line.startswith("#"):
        return None
    found = _SAMPLE.match(_EXEMPLAR.sub("", line) if " # {" in line else line)
    return None if found is None else (found[1].replace(".", "_") + found[2], found[3])


def _classic(text: str) -> str:
    """Return the text with the counters of OpenMetrics declared by the name that their samples have."""
    samples = [line if (found := sample_of(line)) is None else " ".join(found) for line in text.split("\n")]
    sampled = {line.partition("{")[0].partition(" ")[0] for line in samples}
    lines = []
    for line in samples:
        if (declared := _DECLARED.match(line)) is not None:
            name = declared[2].replace(".", "_")
            total = f"{name}_total"
            line = f"# {declared[1]} {total if total in sampled and name not in sampled else name}{declared[3]}"
        lines.append(line)
    return "\n".join(lines)


@dataclass(slots=True)
class Buckets:
    """One series of a histogram: cumulative counts by upper bound, the number of values and their sum."""

    bounds: dict[str, float] = field(default_factory=dict)
    count: float = 0.0
    sum: float = 0.0


@dataclass(slots=True)
class Family:
    """One metric: `name` without `_total`, and its values by labels. Only a histogram has `histograms`."""

    name: str
    type: str
    description: str
    values: dict[Labels, float] = field(default_factory=dict)
    histograms: dict[Labels, Buckets] = field(default_factory=dict)


def parse(text: str) -> dict[str, Family]:
    """Return the counters, gauges and histograms of a text by name; raise `NotPrometheusError` where it is none.

    A counter is found under one name with `_total` and without. The times of creation (`_created`), summaries,
    series without a type and lines that cannot be read are left out.
    """
    classic = _classic(text)
    try:
        families = _families(classic)
    except _UNREADABLE:
        # Looked for only now: reading every line by itself takes longer than all of them.
        families = _families("\n".join(line for line in classic.split("\n") if _is_readable(line)))
    if not families:
        raise NotPrometheusError("no metric in it")
    return families


_UNREADABLE = (ValueError, KeyError, IndexError, TypeError)
"""What prometheus-client's parser raises."""


def _is_readable(line: str) -> bool:
    try:
        _families(line)
    except _UNREADABLE:
        return False
    return True


def _families(text: str) -> dict[str, Family]:
    from prometheus_client.parser import text_string_to_metric_families

    families: dict[str, Family] = {}
    for metric in text_string_to_metric_families(text):
        if metric.type in ("counter", "gauge", "histogram") and not metric.name.endswith("_created"):
            family = families.setdefault(metric.name, Family(metric.name, metric.type, metric.documentation))
            _take(family, metric.samples)
    return families


def _take(family: Family, samples: Iterable[Sample]) -> None:
    for name, labels, number, *_ in samples:
        value = value_of(number)
        if name.endswith("_created"):
            continue
        if family.type != "histogram":
            family.values[_key(labels)] = value
            continue
        rest = {key: label for key, label in labels.items() if key != "le"}
        buckets = family.histograms.setdefault(_key(rest), Buckets())
        if name.endswith("_bucket"):
            bound = labels.get("le", "+Inf")
            # A bound that is no number bounds nothing.
            with suppress(ValueError):
                if not math.isnan(float(bound) + value):
                    buckets.bounds[bound] = value
        elif name.endswith("_count"):
            buckets.count = value
        elif name.endswith("_sum"):
            buckets.sum = value


def _key(labels: dict[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def series_of(prefix: str) -> tuple[str, Labels] | None:
    """Return the sample's name and labels of a line without its value; None for what is no series."""
    from prometheus_client.parser import text_string_to_metric_families

    try:
        for metric in text_string_to_metric_families(f"{prefix} 0\n"):
            for name, labels, *_ in metric.samples:
                return name, _key(labels)
    except _UNREADABLE:
        pass
    return None
