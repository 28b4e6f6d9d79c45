"""Everything that is asked of one run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aiperf_spec.analysis.cautions import cautions
from aiperf_spec.analysis.clusters import clustered, grouped, length_terms, measured, rate_terms
from aiperf_spec.analysis.drift import Drift, drift
from aiperf_spec.analysis.intervals import Estimate, as_length, as_rate, missing, ratio
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.outliers import Outliers, PromptLength, outliers, prompt_length
from aiperf_spec.analysis.positions import PositionCurve, drafting, position_curve, tally_all
from aiperf_spec.analysis.speed import (
    SpeedUp,
    coverage,
    drafted_share,
    pooled_itl,
    speed_up,
    step_time,
    tokens_per_decode_step,
    undrafted_totals,
)
from aiperf_spec.analysis.whatif import WhatIf, what_if
from aiperf_spec.config.settings import ReportSettings
from aiperf_spec.models.run import Notice, RequestRecord


@dataclass(slots=True, frozen=True)
class GroupAnalysis:
    """The acceptance of a run or of one category: `length` pooled, `rate` pooled and in percent."""

    requests: int
    """Successful requests with at least one verify step."""
    length: Estimate
    rate: Estimate
    curve: PositionCurve
    what_if: WhatIf


@dataclass(slots=True, frozen=True)
class Analysis:
    """The answers that one run gives. Intervals are 95 %, over prompts."""

    run: GroupAnalysis
    categories: dict[str, GroupAnalysis]
    tokens_per_decode_step: Estimate
    drafted_share: Estimate
    """Verify steps / decode steps, a fraction."""
    undrafted_steps: int
    """Decode steps that ran without a draft; `undrafted_at_most` counts those that a cut last step may hide as well."""
    undrafted_at_most: int
    coverage: Estimate
    """A fraction."""
    step_time_ms: Estimate
    itl_ms: Estimate
    """Pooled: every token weighs the same."""
    speed_up: SpeedUp
    drift: Drift
    prompt_length: PromptLength
    outliers: Outliers
    cautions: tuple[Notice, ...]
    """What makes the intervals worth less than they say."""


def analyse(
    records: Iterable[RequestRecord],
    settings: ReportSettings | None = None,
    *,
    baseline: Iterable[RequestRecord] | None = None,
) -> Analysis:
    """Return the analysis of a run's records; `baseline` are those of a run without speculation, read already.

    Only successful profiled requests are taken. Nothing is raised for what records lack: figures without a value say
    why (`Estimate.reason` and the `reason` of each part).
    """
    settings = settings or ReportSettings()
    chosen = measured(records)
    categories = grouped(chosen, lambda record: record.category)
    undrafted, undrafted_at_most = undrafted_totals(chosen)
    return Analysis(
        run=_group(chosen, settings),
        categories={name: _group(categories[name], settings) for name in sorted(categories)},
        tokens_per_decode_step=tokens_per_decode_step(chosen),
        drafted_share=drafted_share(chosen),
        undrafted_steps=undrafted,
        undrafted_at_most=undrafted_at_most,
        coverage=coverage(chosen),
        step_time_ms=step_time(chosen),
        itl_ms=pooled_itl(chosen),
        speed_up=speed_up(
            chosen,
            baseline=None if baseline is None else measured(baseline),
            baseline_itl_ms=settings.baseline_itl,
        ),
        drift=drift(chosen),
        prompt_length=prompt_length(chosen),
        outliers=outliers(chosen, settings.worst),
        cautions=cautions(chosen),
    )


def _group(records: Sequence[RequestRecord], settings: ReportSettings) -> GroupAnalysis:
    reports = [report for record in records if (report := record.acceptance) and report.num_spec_steps]
    known = drafting(reports, assume_chain=settings.assume_chain)
    tallies = tally_all(records, known)
    return GroupAnalysis(
        requests=len(reports),
        length=length(records),
        rate=rate(records),
        curve=position_curve(known, tallies),
        what_if=what_if(records, known, tallies, draft_cost=settings.draft_cost, assume_chain=settings.assume_chain),
    )


def length(records: Sequence[RequestRecord]) -> Estimate:
    """Return the pooled acceptance length, 1 + sum(accepted) / sum(steps), with its interval."""
    return as_length(ratio(clustered(records, length_terms)))


def rate(records: Sequence[RequestRecord]) -> Estimate:
    """Return the pooled draft acceptance rate, sum(accepted) / sum(proposed), in percent, with its interval."""
    if any(record.acceptance and not record.acceptance.proposed_counted for record in records):
        return missing(Missing.PROPOSED_NOT_COUNTED)
    return as_rate(ratio(clustered(records, rate_terms)))
