"""What `server_metrics_export.json` holds, ours or AIPerf's, as models: the acceptance that a server counted."""

import math
from statistics import fmean

from pydantic import Field

from aiperf_spec.adapters.description import EngineCounters
from aiperf_spec.adapters.engines import counters_in, known_engines
from aiperf_spec.analysis.server_acceptance import ServerAcceptance, accepted_by_tokens, by_tokens
from aiperf_spec.artifacts.read.summary_file import Maybe, Number, Tolerant


class Series(Tolerant):
    """One series of a metric: statistics by name."""

    endpoint_url: str = ""
    labels: dict[str, str] = Field({})
    stats: dict[str, Maybe[Number]] = Field({})


class Metric(Tolerant):
    """One metric: `type` is counter, gauge or histogram."""

    type: str = ""
    series: list[Maybe[Series]] = Field([])


class ServerMetricsFile(Tolerant):
    """The file."""

    metrics: dict[str, Maybe[Metric]] = Field({})

    def counted_acceptance(self) -> ServerAcceptance | None:
        """Return what the counters grew by, all series together; None where one is missing or was reset.

        Of an engine that counts tokens and not accepted drafts, the file does not say whether they are exact.
        """
        for counters in counters_in(self.metrics).values():
            if (found := self._by_tokens(counters)) is not None:
                return found
            names = (counters.accepted_drafts, counters.verify_steps, counters.proposed_drafts)
            accepted, steps, proposed = (self._total(name) for name in names)
            if accepted is not None and proposed is not None and steps:
                return ServerAcceptance(steps, proposed, accepted)
        return None

    def _by_tokens(self, counters: EngineCounters) -> ServerAcceptance | None:
        tokens, steps = self.metrics.get(counters.emitted_tokens or ""), self._total(counters.verify_steps)
        known = [each for each in tokens.series if each is not None] if tokens else []
        emitted = counters.emitted((each.endpoint_url, each.labels, each.stats.get("total")) for each in known)
        if tokens is None or len(known) < len(tokens.series) or emitted is None or steps is None:
            return None
        completion, finished = map(self._total, (counters.completion_tokens, counters.finished_requests))
        bounds = accepted_by_tokens(steps, emitted, completion=completion, finished=finished, exact=False)
        found = None if bounds is None else by_tokens(steps, bounds)
        return found if isinstance(found, ServerAcceptance) else None

    def verify_steps(self) -> int | None:
        """Return by how much the counter of verify steps grew; None where there is none, or it was reset."""
        totals = (self._total(counters.verify_steps) for counters in counters_in(self.metrics).values())
        return next((steps for steps in totals if steps is not None), None)

    def length_gauge(self) -> float | None:
        """Return the time-average of an acceptance-length gauge, over its series; None where there is none."""
        value = self._gauge([engine.counters.length_gauge for engine in known_engines().values()], "length")
        # An acceptance length below 1 is an idle server's zero.
        return value if value is not None and value >= 1 else None

    def rate_gauge(self) -> float | None:
        """Return the time-average of an acceptance-rate gauge, in percent; None where there is none."""
        value = self._gauge([engine.counters.rate_gauge for engine in known_engines().values()], "rate")
        return None if value is None else value * 100

    def _stats(self, name: str | None, stat: str) -> list[float] | None:
        """Return a figure of each series of a metric; None where the metric is not there or one series lacks it."""
        metric = self.metrics.get(name or "")
        values = [None if each is None else each.stats.get(stat) for each in metric.series] if metric else []
        known = [value for value in values if value is not None]
        return known if known and len(known) == len(values) else None

    def _total(self, name: str | None) -> int | None:
        values = self._stats(name, "total")
        return None if values is None or min(values) < 0 else round(math.fsum(values))

    def _gauge(self, described: list[str | None], kind: str) -> float | None:
        # An engine that is not known by name still tells by the words in it.
        alike = [name for name in sorted(self.metrics) if all(w in name.lower() for w in ("spec", "accept", kind))]
        values = next((found for name in (*described, *alike) if (found := self._stats(name, "avg"))), None)
        return None if values is None else fmean(values)
