"""The answer of a run: what was measured, and the few figures that are looked for first."""

from dataclasses import dataclass

from aiperf_spec.adapters.description import recognised
from aiperf_spec.adapters.engines import known_engines
from aiperf_spec.analysis.intervals import Estimate, missing
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.report import Analysis
from aiperf_spec.analysis.server_acceptance import ServerAcceptance, exact_length, server_acceptance
from aiperf_spec.metrics.outage import with_outage
from aiperf_spec.metrics.pooled import PooledAcceptance
from aiperf_spec.metrics.stats import Stats
from aiperf_spec.metrics.summary import Summary
from aiperf_spec.models.decoding import some_undrafted
from aiperf_spec.models.run import RunResult
from aiperf_spec.models.server_metrics import Reconciliation


@dataclass(slots=True, frozen=True)
class Setup:
    """What a server ran, as far as it or its responses say; None and () where they do not.

    `engines` are names of adapters, `method` is the drafter's, `draft_lengths` every k that a request reported.
    """

    engines: tuple[str, ...] = ()
    version: str | None = None
    method: str | None = None
    draft_lengths: tuple[int, ...] = ()


@dataclass(slots=True, frozen=True)
class TotalsAnswer:
    """Acceptance of the requests that reported drafts in all: the rate in percent, and the bounds of the length.

    The two bounds are the same where the steps are known, by the engine or by the server's counters.
    """

    requests: int
    rate: float | None
    least_length: float
    greatest_length: float


@dataclass(slots=True, frozen=True)
class Answer:
    """The figures that a run is judged by first; `render.answer` makes a block of lines of them.

    `length` and `rate` (in percent) are pooled. `best` and `worst` are the categories with the greatest and the
    smallest pooled length, None where fewer than two have one. Latencies are statistics over requests, in ms.
    """

    setup: Setup
    length: Estimate
    rate: Estimate
    drafted_share: float | None
    """Verify steps / decode steps, a fraction; None where every step had a draft, or that is not known."""
    best: tuple[str, float] | None
    worst: tuple[str, float] | None
    tokens_per_second: float | None
    """Output tokens of the whole run by its duration."""
    outage_s: float | None
    """How long no request succeeded while requests failed; None where there was no outage."""
    outage_apart: bool
    """Whether the duration, by which the tokens are divided, leaves some of it out."""
    ttft: Stats | None
    itl: Stats | None
    latency: Stats | None
    summary: Summary
    """The figures of which these are a choice."""
    stopped_by: str | None
    """The signal that ended the run early."""
    reconciliation: Reconciliation | None
    counted: ServerAcceptance | None
    """Acceptance by the server's counters, of all its traffic, where no request reported any."""
    totals: TotalsAnswer | None
    """Of requests that reported no verify steps, where no others reported."""


def reported_setup(pooled: PooledAcceptance) -> Setup:
    """Return what the responses of a run say of its server."""
    return Setup(engines=tuple(sorted(pooled.engines)), draft_lengths=tuple(sorted(pooled.draft_lengths)))


def setup_of(result: RunResult, summary: Summary) -> Setup:
    """Return what the server ran: by its responses, else by its own pages."""
    reported, drafter = reported_setup(summary.acceptance), result.drafter
    named = recognised(result.owned_by, known_engines())
    own_length = None if drafter is None else drafter.draft_length
    return Setup(
        engines=reported.engines or (() if named is None else (named,)),
        version=result.server_version,
        method=None if drafter is None else drafter.method,
        draft_lengths=reported.draft_lengths or (() if own_length is None else (own_length,)),
    )


def _totals(result: RunResult, summary: Summary) -> TotalsAnswer | None:
    values, exact = summary.run_values, exact_length(result.reconciliation)
    least, greatest = (values.get(f"draft_totals_{end}_acceptance_length") for end in ("least", "greatest"))
    if summary.acceptance.requests or least is None or greatest is None:
        return None
    ends = (least, greatest) if exact is None else (exact, exact)
    return TotalsAnswer(int(values["draft_totals_requests"]), values.get("draft_totals_draft_acceptance_rate"), *ends)


def answer_of(result: RunResult, summary: Summary, analysis: Analysis | None) -> Answer:
    """Return the answer of a run; without an analysis its figures have no intervals."""
    pooled = summary.acceptance
    lengths = {name: each.acceptance.length for name, each in summary.categories.items()}
    known = sorted(((name, value) for name, value in lengths.items() if value is not None), key=lambda each: -each[1])
    share = summary.run_values.get("drafted_share")
    counted = None if pooled.requests else server_acceptance(result.reconciliation)
    return Answer(
        setup=setup_of(result, summary),
        length=missing(Missing.NO_RECORDS, pooled.length) if analysis is None else analysis.run.length,
        rate=missing(Missing.NO_RECORDS, pooled.rate_percent) if analysis is None else analysis.run.rate,
        drafted_share=share if some_undrafted(share) else None,
        best=known[0] if len(known) > 1 else None,
        worst=known[-1] if len(known) > 1 else None,
        tokens_per_second=summary.run_values.get("output_token_throughput"),
        outage_s=summary.run_values.get("outage_duration"),
        outage_apart=with_outage(summary.run_values) is not None,
        ttft=summary.record_stats.get("time_to_first_token"),
        itl=summary.record_stats.get("inter_token_latency"),
        latency=summary.record_stats.get("request_latency"),
        summary=summary,
        stopped_by=result.stopped_by,
        reconciliation=result.reconciliation,
        counted=counted if isinstance(counted, ServerAcceptance) else None,
        totals=_totals(result, summary),
    )
