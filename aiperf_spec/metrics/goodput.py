"""Goodput: the requests that met every service-level objective."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aiperf_spec.errors import ConfigError
from aiperf_spec.metrics.table import RECORD_METRICS, RecordMetric
from aiperf_spec.models.run import RequestRecord

GOODPUT_TAGS = ("goodput", "good_request_count", "good_request_fraction")
_ONE_VALUE = [metric for metric in RECORD_METRICS if metric.tag != "inter_chunk_latency"]
_BY_NAME = {
    **{metric.label.lower(): metric for metric in reversed(_ONE_VALUE)},
    **{metric.tag: metric for metric in _ONE_VALUE},
}


@dataclass(slots=True, frozen=True)
class Objective:
    """A limit of a metric of requests, in the unit in which tables and files show it."""

    metric: RecordMetric
    limit: float

    @property
    def at_most(self) -> bool:
        """Whether the limit is an upper one: of durations it is, of counts, rates and lengths it is a lower one."""
        # AIPerf's flags (0.13.0) say the same of every tag that both programs have.
        return self.metric.unit == "ms"

    def met_by(self, record: RequestRecord) -> bool:
        """Say whether a request met it; one without the metric did not, as in AIPerf."""
        value = self.metric.value(record)
        if value is None or isinstance(value, list):
            return False
        return value <= self.limit if self.at_most else value >= self.limit


def objectives(limits: Mapping[str, float]) -> tuple[Objective, ...]:
    """Return the objectives that limits by metric mean; raise `ConfigError` naming a metric that is not known.

    A metric is named by its tag in files, or as tables name it ("ttft", "itl").
    """
    found: dict[str, Objective] = {}
    for name, limit in limits.items():
        if (metric := _BY_NAME.get(name.lower())) is None:
            nearest = difflib.get_close_matches(name, sorted(_BY_NAME), n=1, cutoff=0.0)
            raise ConfigError(
                f"--goodput: no metric of single requests is named {name!r}", f"the nearest name is {nearest[0]}"
            )
        if metric.tag in found:
            raise ConfigError(f"--goodput: {metric.tag} has two limits", "give each metric one limit")
        found[metric.tag] = Objective(metric, limit)
    return tuple(found.values())


def good_requests(records: Sequence[RequestRecord], goals: Sequence[Objective]) -> int:
    """Return how many of these successful requests met every objective."""
    return sum(all(goal.met_by(record) for goal in goals) for record in records)
