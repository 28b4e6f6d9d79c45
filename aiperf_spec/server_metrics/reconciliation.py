"""Hold the requests' own figures against the server's counters."""

from collections import Counter
from collections.abc import Iterable, Mapping

from aiperf_spec.adapters.description import EngineCounters
from aiperf_spec.adapters.engines import counters_in
from aiperf_spec.analysis.server_acceptance import accepted_by_tokens
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.draft_totals import DraftTotals
from aiperf_spec.models.drafter import ServerDrafter
from aiperf_spec.models.identities import MAX_DRAFT
from aiperf_spec.models.run import ErrorKind, Phase, RequestRecord
from aiperf_spec.models.server_metrics import (
    Agreement,
    CountName,
    MetricFigures,
    ReconciledCount,
    Reconciliation,
    ServerMetrics,
)


def reconcile(
    records: Iterable[RequestRecord], metrics: ServerMetrics, drafter: ServerDrafter | None = None
) -> Reconciliation | None:
    """Return both sides of each count; None where the server has no counter of verify steps.

    The interval begins after the warm-up and before the first profiled request, so only profiled requests are in it.
    Every one of them that brought figures is added up, a failed one too, and so are the counters of all series and
    endpoints. Where some brought drafts in all and no verify steps, the drafts alone are compared. Accepted drafts that
    follow from tokens are compared where these leave one number; `drafter`, what the server says of itself, tells that.
    """
    found = metrics.metrics
    counted = [name for name, metric in found.items() if metric.type == "counter"]
    described = counters_in(counted).items()
    engine, counters = next(((name, each) for name, each in described if each.verify_steps in found), (None, None))
    if counters is None:
        return None
    profiled = [record for record in records if record.phase is Phase.PROFILING]
    steps: int | None = 0
    proposed = accepted = 0
    histogram: Counter[int] | None = Counter()
    silent: Counter[str] = Counter()
    if any(_own_totals(record) for record in profiled):
        steps = histogram = None
    for record in profiled:
        acceptance = record.acceptance
        if acceptance is not None:
            steps = None if steps is None else steps + acceptance.num_spec_steps
            proposed += acceptance.num_draft_tokens
            accepted += acceptance.num_accepted_draft_tokens
            if histogram is not None:
                histogram.update(acceptance.acceptance_histogram)
        elif (totals := _own_totals(record)) is not None:
            proposed += totals.num_draft_tokens
            accepted += totals.num_accepted_draft_tokens
        elif (reason := _silence(record)) is not None:
            silent[reason] += 1
    sums = (
        (CountName.VERIFY_STEPS, counters.verify_steps, steps),
        (CountName.PROPOSED, counters.proposed_drafts, proposed),
        (CountName.ACCEPTED, counters.accepted_drafts, accepted),
    )
    counts = [
        ReconciledCount(name, metric, requests, _grown(found[metric]))
        for name, metric, requests in sums
        if metric in found
    ]
    counts += _positions(histogram, counters.accepted_per_position, found)
    settled = all(endpoint.settled for endpoint in metrics.endpoints)
    # A request that was aborted, or is still under way, had steps that are counted as such only where it finishes.
    drafter = drafter if drafter is not None and drafter.engine == engine else None
    aborted = _grown(found.get(counters.aborted_requests or ""))
    exact = settled and drafter is not None and not drafter.overlaps and not aborted
    bounds = _accepted_bounds(counters, found, 1 if drafter is None else drafter.bonus_tokens, exact=exact)
    if bounds is not None and counters.emitted_tokens is not None and bounds[0] == bounds[1]:
        counts.append(ReconciledCount(CountName.ACCEPTED, counters.emitted_tokens, accepted, bounds[0]))
    return Reconciliation(
        counts=tuple(counts),
        agreement=_agreement(counts, found),
        requests_reported=len(profiled) - silent.total(),
        requests_silent=dict(sorted(silent.items(), key=lambda item: -item[1])),
        server_requests=_grown(found.get(counters.finished_requests or "")),
        prompt_tokens=_grown(found.get(counters.prompt_tokens or "")),
        cached_tokens=_grown(found.get(counters.cached_tokens or "")),
        settled=settled,
        accepted_bounds=bounds,
        requests_ours=sum(_requests_counted(record, counters) for record in profiled),
        engine=engine,
    )


def _own_totals(record: RequestRecord) -> DraftTotals | None:
    return None if record.draft_totals is None or record.draft_totals.whole_batch else record.draft_totals


def _silence(record: RequestRecord) -> str | None:
    # A request that verified no step is reported on: it adds nothing to either side.
    if record.error is not None:
        return "cancelled" if record.error.kind is ErrorKind.CANCELLED else "failed"
    return None if record.drop_reason in (None, DropReason.ZERO_STEP) else str(record.drop_reason)


def _requests_counted(record: RequestRecord, counters: EngineCounters) -> int:
    if counters.finished_by_token.intersection(record.silencing_fields):
        return record.prompts * record.samples * max(record.output_tokens or record.max_tokens or 1, 1)
    return record.prompts * (record.samples + (counters.finished_beyond if record.samples > 1 else 0))


def _accepted_bounds(
    counters: EngineCounters, found: Mapping[str, MetricFigures], bonus: int, *, exact: bool
) -> tuple[int, int] | None:
    tokens, steps = found.get(counters.emitted_tokens or ""), _grown(found.get(counters.verify_steps or ""))
    if tokens is None or steps is None:
        return None
    emitted = counters.emitted((each.endpoint_url, each.labels, each.stats.get("total")) for each in tokens.series)
    if emitted is None:
        return None
    names = (counters.completion_tokens, counters.finished_requests)
    completion, finished = (_grown(found.get(name or "")) for name in names)
    return accepted_by_tokens(bonus * steps, emitted, completion=completion, finished=finished, exact=exact)


def _grown(metric: MetricFigures | None) -> int | None:
    total = None if metric is None else metric.total()
    return None if total is None else round(total)


def _positions(
    histogram: Counter[int] | None, metric: str | None, found: Mapping[str, MetricFigures]
) -> list[ReconciledCount]:
    # Position i, from 0, counts the steps that accepted more than i drafts.
    if metric is None or metric not in found:
        return []
    server: dict[int, float | None] = {}
    for series in found[metric].series:
        position, total = series.labels.get("position", ""), series.stats.get("total")
        if position.isdecimal() and len(position) <= len(str(MAX_DRAFT)):
            before = server.get(int(position), 0.0)
            server[int(position)] = None if before is None or total is None else before + total
    known = histogram or Counter[int]()
    ours = {i: sum(steps for bucket, steps in known.items() if bucket > i) for i in range(max(known, default=0))}
    counts = []
    for i in sorted(server.keys() | ours.keys()):
        grown = server.get(i, 0.0)
        name = CountName.at_position(i + 1)
        mine = None if histogram is None else ours.get(i, 0)
        counts.append(ReconciledCount(name, metric, mine, None if grown is None else round(grown)))
    return counts


def _agreement(counts: list[ReconciledCount], found: Mapping[str, MetricFigures]) -> Agreement:
    if any(count.server is None for count in counts):
        reset = any(series.reset for count in counts for series in found[count.metric].series)
        return Agreement.RESET if reset else Agreement.NO_NUMBER
    differences = [count.difference or 0 for count in counts]
    if not any(differences):
        return Agreement.EXACT
    if min(differences) < 0:
        return Agreement.SERVER_FEWER
    return Agreement.SERVER_MORE if differences[0] or counts[0].requests is None else Agreement.MIXED
