"""Every figure of a run by name, with its interval: what gates ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from aiperf_spec.analysis.clusters import Read, added_up, clustered, length_terms, measured, prompt_of, rate_terms
from aiperf_spec.analysis.comparison.compare import POOLED_LENGTH, POOLED_RATE, STEP_TIME, mean_terms
from aiperf_spec.analysis.comparison.mismatches import RunSettings, same_prompts
from aiperf_spec.analysis.comparison.outputs import IDENTICAL
from aiperf_spec.analysis.comparison.pairing import difference, pair_up
from aiperf_spec.analysis.figure_names import FigureName
from aiperf_spec.analysis.intervals import (
    Estimate,
    as_length,
    as_rate,
    difference_of,
    missing,
    percentile_interval,
    ratio,
    share_interval,
)
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.server_acceptance import ServerAcceptance
from aiperf_spec.analysis.speed import (
    accepted_terms,
    coverage,
    coverage_terms,
    drafted_share,
    drafted_terms,
    step_terms,
    step_time,
    tokens_per_decode_step,
)
from aiperf_spec.metrics.goodput import Objective
from aiperf_spec.metrics.stats import percentile
from aiperf_spec.metrics.summary import Summary, summarise
from aiperf_spec.metrics.table import LOOP_LAG, RECORD_BY_TAG, RUN_BY_TAG, RecordMetric
from aiperf_spec.models.run import ErrorKind, Phase, RequestRecord


@dataclass(slots=True, frozen=True)
class _Pooled:
    """A figure that is `offset` + `scale` times a ratio of sums."""

    read: Read
    shown: Callable[[Estimate], Estimate] = lambda share: share
    """What makes the ratio with its interval the figure with its own, which ends where the figure does."""
    scale: float = 1.0
    offset: float = 0.0
    estimated: Callable[[Sequence[RequestRecord]], Estimate] | None = None
    """What gives the figure instead, where its interval is not that of the ratio alone."""

    def of(self, records: Sequence[RequestRecord]) -> Estimate:
        """Return the figure with its interval."""
        return self.estimated(records) if self.estimated else self.shown(ratio(clustered(records, self.read)))


_POOLED = {
    POOLED_LENGTH: _Pooled(length_terms, as_length, offset=1.0),
    POOLED_RATE: _Pooled(rate_terms, as_rate, scale=100.0),
    "tokens_per_decode_step": _Pooled(accepted_terms, offset=1.0, estimated=tokens_per_decode_step),
    "drafted_share": _Pooled(drafted_terms, estimated=drafted_share),
    STEP_TIME: _Pooled(step_terms, estimated=step_time),
    "coverage": _Pooled(coverage_terms, estimated=coverage),
}
_COUNTED = (POOLED_LENGTH, POOLED_RATE)
_SHARES = ("error_rate", "coverage_of_requests")


class Figures:
    """The figures of a run by name.

    `flags` holds what records do not tell, by name: `reconciled` is whether the server's own counters agree. `summary`,
    where it is at hand, gives the values that tables show; `settings` say of records without a hash of their prompt
    whether two runs' prompts are the same; `loop_lag` gives a statistic of the client's own lag by its name, in ms.
    With `counted`, the acceptance length and the draft acceptance rate are those of the server's counters, or are
    missing for the reason that it gives. `goals` are the objectives of goodput. `identical` is the share of answers
    that are those of the base, by category, and under None of all.
    """

    def __init__(
        self,
        records: Sequence[RequestRecord],
        *,
        summary: Summary | None = None,
        flags: Mapping[str, bool | None] | None = None,
        settings: RunSettings | None = None,
        counted: ServerAcceptance | Missing | None = None,
        loop_lag: Callable[[str], float | None] | None = None,
        goals: Sequence[Objective] = (),
        identical: Mapping[str | None, Estimate] | None = None,
    ) -> None:
        self._all = list(records)
        self._measured = measured(records)
        self._goals = goals
        self._summaries: dict[str | None, Summary] = {None: summary or summarise(records, goals=goals)}
        self.flags = dict(flags or {})
        self.settings = settings or RunSettings()
        self._counted = counted
        self._loop_lag = loop_lag
        self._identical = identical or {}

    @property
    def categories(self) -> list[str]:
        """The categories of its requests."""
        return sorted({record.category for record in self._all if record.category})

    def find(self, name: FigureName) -> Estimate:
        """Return the figure with its interval; its value is None, and the reason said, where the run has none."""
        if name.tag in _SHARES:
            return self._share(name)
        if name.tag == IDENTICAL:
            return self._identical.get(name.category) or missing(Missing.NOT_IN_BOTH)
        if self._counted is not None and name.tag in _COUNTED:
            return _by_counters(self._counted, name)
        if name.tag == LOOP_LAG:
            lag = None if self._loop_lag is None else self._loop_lag(name.statistic or "avg")
            return missing(Missing.NOT_KEPT if lag is None else Missing.NO_INTERVAL, lag)
        if (found := _POOLED.get(name.tag)) is not None:
            return found.of(self._of(name.category))
        summary = self._summary_of(name.category)
        if name.tag in RUN_BY_TAG:
            value = summary.run_values.get(name.tag)
            return missing(Missing.NO_RECORDS if value is None else Missing.NO_INTERVAL, value)
        return self._of_requests(name, summary)

    def difference_from(self, name: FigureName, base: Figures, factor: float) -> Estimate:
        """Return this run's figure less `factor` times the base's.

        Means and pooled figures are paired by prompt where prompts match; of others, the two intervals make the
        difference's, as of independent runs.
        """
        found = _POOLED.get(name.tag)
        if found is None and name.statistic == "avg":
            found = _Pooled(mean_terms(RECORD_BY_TAG[name.tag]))
        if found is None or (self._counted is not None and name.tag in _COUNTED):
            return difference_of(self.find(name), base.find(name), factor)
        mine, theirs = self._of(name.category), base._of(name.category)
        pairing = pair_up(theirs, mine, same_prompts=same_prompts(base.settings, self.settings))
        apart = difference(theirs, mine, found.read, pairing, factor=factor, offset=found.offset / found.scale)
        return apart.estimate.scaled(found.scale)

    def _of(self, category: str | None) -> list[RequestRecord]:
        return [record for record in self._measured if _is_of(record, category)]

    def _summary_of(self, category: str | None) -> Summary:
        if category not in self._summaries:
            chosen = [record for record in self._all if record.category == category]
            self._summaries[category] = summarise(chosen, goals=self._goals)
        return self._summaries[category]

    def _of_requests(self, name: FigureName, summary: Summary) -> Estimate:
        stats = summary.record_stats.get(name.tag)
        if stats is None or name.statistic is None:
            return missing(Missing.NO_RECORDS)
        chosen = self._of(name.category)
        if name.statistic[0] == "p":
            q, (values, keys) = int(name.statistic[1:]), _values(RECORD_BY_TAG[name.tag], chosen)
            value = stats.percentiles.get(q)
            # A run whose records are not at hand has the percentiles of its summary alone.
            value = percentile(sorted(values), q) if value is None and values else value
            return missing(Missing.NO_RECORDS) if value is None else percentile_interval(values, keys, q, value)
        value = stats.value(name.statistic)
        if name.statistic == "avg":
            found = ratio(clustered(chosen, mean_terms(RECORD_BY_TAG[name.tag])))
            # What tables show is what is judged; the records give how it scatters.
            return missing(Missing.NO_INTERVAL, value) if found.value is None else replace(found, value=value)
        return missing(Missing.NO_INTERVAL, value)

    def _share(self, name: FigureName) -> Estimate:
        chosen = [record for record in self._all if record.phase is Phase.PROFILING and _is_of(record, name.category)]
        if name.tag == "error_rate":
            ended = [r for r in chosen if r.error is None or r.error.kind is not ErrorKind.CANCELLED]
            terms = ((not record.succeeded, 1) for record in ended)
        else:
            ended = [record for record in chosen if record.succeeded]
            terms = ((record.acceptance is not None, 1) for record in ended)
        return share_interval(added_up(map(prompt_of, ended), terms))


def _by_counters(counted: ServerAcceptance | Missing, name: FigureName) -> Estimate:
    if not isinstance(counted, ServerAcceptance):
        return missing(counted)
    if name.category is not None:
        return missing(Missing.COUNTERS_OF_ALL)
    if counted.proposed is None and name.tag == POOLED_RATE:
        return missing(Missing.PROPOSED_NOT_COUNTED)
    if not counted.is_exact:
        return missing(Missing.COUNTERS_BOUND_ONLY)
    value = counted.length if name.tag == POOLED_LENGTH else counted.rate
    return missing(Missing.NO_RECORDS if value is None else Missing.NO_INTERVAL, value)


def _is_of(record: RequestRecord, category: str | None) -> bool:
    return category is None or record.category == category


def _values(metric: RecordMetric, records: Sequence[RequestRecord]) -> tuple[list[float], list[str]]:
    # The values of a metric, and of each the prompt: some requests have several (the gaps between their chunks).
    values: list[float] = []
    keys: list[str] = []
    for record in records:
        value = metric.value(record)
        if value is not None:
            own = value if isinstance(value, list) else [value]
            values += own
            keys += [prompt_of(record)] * len(own)
    return values, keys
