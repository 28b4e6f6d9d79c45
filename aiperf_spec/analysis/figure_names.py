"""The names of figures: what gates and `report --metric` take."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from aiperf_spec.analysis.comparison.compare import POOLED_LENGTH, POOLED_RATE, STEP_TIME
from aiperf_spec.analysis.comparison.outputs import IDENTICAL
from aiperf_spec.config.choices import ReportMetric
from aiperf_spec.errors import ConfigError
from aiperf_spec.metrics.stats import STAT_NAMES
from aiperf_spec.metrics.table import LOOP_LAG, RECORD_BY_TAG, RUN_BY_TAG, Group, RecordMetric, RunMetric

FLAGS = ("reconciled",)
"""Names whose value is true or false, handed in by who knows them."""
_PREFIX = "spec_decode_"
_METRICS: dict[str, RecordMetric | RunMetric] = {**RECORD_BY_TAG, **RUN_BY_TAG}
_OF_REQUESTS = {*RECORD_BY_TAG, LOOP_LAG}
"""Tags of many values, which have statistics."""
_KNOWN = {
    *_METRICS,
    LOOP_LAG,
    *("error_rate", "coverage_of_requests", "coverage", STEP_TIME, IDENTICAL),
    *FLAGS,
}
_POOLED = {
    **dict.fromkeys(("acceptance_length", "accept_length"), POOLED_LENGTH),
    **dict.fromkeys(("draft_acceptance_rate", "acceptance_rate", "accept_rate"), POOLED_RATE),
}
"""Names that people gate on mean the pooled figure, in which every verify step weighs the same."""
_OTHERS = {
    "ttft": "time_to_first_token",
    "itl": "inter_token_latency",
    "latency": "request_latency",
    "throughput": "output_token_throughput",
    "accept_length": "spec_decode_acceptance_length",
    "accept_rate": "spec_decode_draft_acceptance_rate",
    "acceptance_rate": "spec_decode_draft_acceptance_rate",
    "time_per_decode_step": STEP_TIME,
    "client_lag": LOOP_LAG,
}


def _plain(name: str) -> str:
    # "TTFT (ms)" and "Rate per request (%)" as words of a tag: ttft, rate_per_request.
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"\(.*\)$", "", name.strip()).lower()).strip("_")


def _tags() -> dict[str, str]:
    named = {_plain(metric.label): metric.tag for metric in reversed(_METRICS.values())}
    return {**named, **_OTHERS, **{tag.removeprefix(_PREFIX): tag for tag in _KNOWN}, **{tag: tag for tag in _KNOWN}}


_TAGS = _tags()
"""What is understood: tags, with and without their prefix, the names of tables' rows, and a few more."""


@dataclass(slots=True, frozen=True)
class FigureName:
    """A figure's name, resolved: `tag` as in files, `statistic` None for a figure that is one number."""

    tag: str
    statistic: str | None
    category: str | None

    @property
    def is_flag(self) -> bool:
        """Whether its value is true or false."""
        return self.tag in FLAGS

    @property
    def is_timed(self) -> bool:
        """Whether it is a duration of the whole run, or something per second of it."""
        metric = _METRICS.get(self.tag)
        return isinstance(metric, RunMetric) and metric.is_timed

    @property
    def unit(self) -> str:
        """Its unit, as files write it."""
        metric = _METRICS.get(self.tag)
        return metric.unit if metric else "ms" if self.tag in (STEP_TIME, LOOP_LAG) else "ratio"

    @property
    def title(self) -> str:
        """Its name for people, with its statistic and its unit."""
        metric = _METRICS.get(self.tag)
        if metric is None:
            name = self.tag.replace("_", " ").capitalize()
        else:
            # Tables call latencies TTFT and ITL; other labels mean little outside their table.
            name = metric.label if metric.group is Group.LATENCY and metric.unit == "ms" else metric.header
        unit = "" if self.unit in ("ratio", "count") else f" ({self.unit})"
        return f"{name}, {self.statistic}{unit}" if self.statistic else f"{name}{unit}"

    def __str__(self) -> str:
        """Return its name as gates and `--metric` take it."""
        return f"{self.tag}.{self.statistic}" if self.statistic else self.tag


def resolve(metric: str, statistic: str | None, category: str | None) -> FigureName:
    """Return the figure that a name means; raise `ConfigError` naming the nearest right one.

    Names are the tags of the files, whose prefix `spec_decode_` may be left out, and those of the tables. The
    acceptance length and the draft acceptance rate without a statistic are the pooled figures; with one
    (`acceptance_length.avg`), and under their full tags, they are of requests. A metric of requests without a statistic
    is its mean. Statistics are `STAT_NAMES` and all percentiles from p1 to p99.
    """
    name = _plain(metric)
    if statistic is None and name in _POOLED:
        return FigureName(_POOLED[name], None, category)
    tag = _TAGS.get(name)
    if tag is None:
        nearest = difflib.get_close_matches(name, sorted({*_TAGS, *_POOLED}), n=1, cutoff=0.0)
        raise ConfigError(f"no metric is named {metric!r}", f"the nearest name is {nearest[0]}")
    if tag not in _OF_REQUESTS:
        if statistic not in (None, "avg"):
            raise ConfigError(f"{metric} is one number and has no statistic {statistic!r}", f"write {metric} alone")
        if category is not None and tag in FLAGS:
            raise ConfigError(f"{metric} is a figure of the whole run, not of a category", f"write {metric} alone")
        return FigureName(tag, None, category)
    chosen = statistic or "avg"
    if chosen not in STAT_NAMES and not re.fullmatch(r"p[1-9]\d?", chosen):
        nearest = difflib.get_close_matches(chosen, STAT_NAMES, n=1, cutoff=0.0)
        raise ConfigError(f"{metric} has no statistic {chosen!r}", f"the nearest is {metric}.{nearest[0]}")
    if category is not None and tag == LOOP_LAG:
        raise ConfigError(f"{metric} is a figure of the whole run, not of a category", f"write {metric} alone")
    return FigureName(tag, chosen, category)


_SUMMED = {
    POOLED_LENGTH: ReportMetric.ACCEPT_LENGTH,
    POOLED_RATE: ReportMetric.ACCEPT_RATE,
    "output_token_throughput": ReportMetric.THROUGHPUT,
}


def parse_metric(text: str) -> ReportMetric | FigureName:
    """Return what `--metric NAME[.STATISTIC]` means: a `ReportMetric` by any of its names, or another figure.

    Raises `ConfigError` naming the nearest right name.
    """
    if "[" in text:
        raise ConfigError(f"--metric {text!r} names a category", "leave it out: every category has a column")
    # A dot before a space belongs to a name, such as "Accept. rate".
    metric, *statistic = re.split(r"\.(?=\w+\Z)", text)
    try:
        name = resolve(metric, statistic[0] if statistic else None, None)
    except ConfigError as error:
        raise ConfigError(f"--metric {text!r}: {error.message}", error.remedy) from None
    if name.is_flag:
        raise ConfigError(f"--metric {text!r} is true or false, not a number", f"use --require '{name} == true'")
    if name.tag == IDENTICAL:
        raise ConfigError(f"--metric {text!r} is a figure of two runs", "compare BASE CANDIDATE --outputs shows it")
    return _SUMMED.get(name.tag, name)
