"""What a run says of its drafter to another program: the length, and the rate at each position of a draft."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from aiperf_spec.adapters.engines import known_engines
from aiperf_spec.analysis.intervals import Estimate, effective_number, estimate, missing, scatter
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.positions import Tallies, drafting, position_curve, tally_all
from aiperf_spec.analysis.report import length
from aiperf_spec.analysis.speed import drafted_share
from aiperf_spec.analysis.whatif import refusal
from aiperf_spec.models.drafter import ServerDrafter
from aiperf_spec.models.run import RequestRecord


@dataclass(slots=True, frozen=True)
class MeasuredAcceptance:
    """The acceptance of a run or a category, with intervals over prompts.

    `rates` are R(1..k), shares of the drafts that have as many tokens: R(i) = c(1) x ... x c(i), the same as S(i) where
    every draft is full. `conditional` are c(1..k). Both are empty where they would mislead, and `reason` says why.
    """

    requests: int
    """Successful requests with at least one verify step."""
    length: Estimate
    drafted_share: Estimate
    """Verify steps / decode steps, a fraction."""
    k: int | None
    full: bool
    """Whether every draft had k tokens."""
    rates: tuple[Estimate, ...] = ()
    conditional: tuple[Estimate, ...] = ()
    reason: Missing | None = None


def measured_acceptance(
    records: Sequence[RequestRecord], *, drafter: ServerDrafter | None = None, assume_chain: bool = False
) -> MeasuredAcceptance:
    """Return what is to be passed on of successful profiled records.

    Rates are refused as shorter drafts are (`whatif.refusal`), where the server itself says that it drafts trees or
    blocks, and where drafts that came as far as a position never had a token there.
    """
    reports = [report for record in records if (report := record.acceptance) and report.num_spec_steps]
    known = drafting(reports, assume_chain=assume_chain)
    tallies = tally_all(records, known)
    found = MeasuredAcceptance(len(reports), length(records), drafted_share(records), known.k, known.full)
    reason = refusal(records, known, tallies, assume_chain=assume_chain)
    if reason is None and not assume_chain and drafter is not None and _drafts_no_chains(drafter):
        reason = Missing.NOT_CHAINS
    if reason is None and not tallies.reached:
        reason = Missing.NO_RECORDS
    if reason is None and any(
        reached and not at_risk
        for reached, at_risk in zip((1.0, *map(sum, tallies.reached)), map(sum, tallies.at_risk), strict=False)
    ):
        reason = Missing.NONE_AT_RISK
    if reason is not None:
        return replace(found, reason=reason)
    curve = position_curve(known, tallies).positions
    conditional = tuple(
        # Where no step came as far, none would have gone on.
        Estimate(0.0) if position.conditional.value is None else position.conditional
        for position in curve
    )
    rates = tuple(position.survival for position in curve) if known.full else tuple(_chained(tallies))
    return replace(found, rates=rates, conditional=conditional)


def _drafts_no_chains(drafter: ServerDrafter) -> bool:
    engine = known_engines().get(drafter.engine)
    # An engine whose page does not tell chains from others says nothing by naming a method.
    if engine is None or not engine.drafter.chains or drafter.method is None:
        return False
    return not drafter.drafts_chains or drafter.branches not in (None, 1)


def _chained(tallies: Tallies) -> list[Estimate]:
    """Return R(1..k), with the delete-one jackknife over prompts."""
    found: list[Estimate] = []
    prompts = len(tallies.steps)
    value, without = 1.0, [1.0] * prompts
    for reached, at_risk in zip(tallies.reached, tallies.at_risk, strict=True):
        accepted, risk = sum(reached), sum(at_risk)
        if not risk:
            found.append(missing(Missing.NONE_AT_RISK, 0.0))
            value, without = 0.0, [0.0] * prompts
            continue
        rate = accepted / risk
        value *= rate
        # A prompt that has all the drafts of a position leaves nothing to be told without it.
        left = [(accepted - a) / (risk - b) if risk > b else rate for a, b in zip(reached, at_risk, strict=True)]
        without = [one * other for one, other in zip(without, left, strict=True)]
        terms = [value - each for each in without]
        knowing = [b for b in at_risk if b]
        figure = estimate(value, scatter(terms), len(knowing), effective_number(knowing) - 1)
        found.append(figure.within(0, 1))
    return found
