"""Where drafts die: acceptance by position in the draft."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from aiperf_spec.analysis.clusters import prompt_of
from aiperf_spec.analysis.intervals import Estimate, missing, ratio
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.models.acceptance import SpecDecodeAcceptanceRecord
from aiperf_spec.models.run import RequestRecord

MAX_POSITIONS = 256
"""Positions, and modelled draft lengths, that are given: no drafter is longer, but a payload may say anything."""


@dataclass(slots=True, frozen=True)
class Drafting:
    """Say what is known of how the drafts were made.

    `k` is the draft length: the engine's, or, where every step's proposal is known, the largest one; None where
    neither is reported. `at_risk_known` says whether the steps that proposed at least i are known for every i; where
    not, `reason` says why. `full` says that every step proposed k. `assumed` marks that --assume-chain was needed.
    """

    k: int | None
    full: bool
    at_risk_known: bool
    reason: Missing | None = None
    assumed: bool = False


@dataclass(slots=True, frozen=True)
class Position:
    """Acceptance at one position, counted from 1. Shares are fractions.

    `survival` S(i) = steps that accepted at least i / steps (vLLM's per-position rate). `conditional` c(i) = steps that
    accepted at least i / steps that accepted at least i - 1 and proposed at least i, which are `at_risk`.
    """

    position: int
    accepted: int
    steps: int
    survival: Estimate
    at_risk: int | None
    conditional: Estimate


@dataclass(slots=True, frozen=True)
class PositionCurve:
    """The curve of a run or a category, and what is known of its denominators."""

    drafting: Drafting
    positions: tuple[Position, ...]


def drafting(records: Sequence[SpecDecodeAcceptanceRecord], *, assume_chain: bool = False) -> Drafting:
    """Return what the records prove of their drafts.

    A request's denominators are known from `per_step_drafted`, from a histogram for each proposed length, or from
    proposed = steps x k, which no step within k can reach without proposing k. Where the engine does not report k
    (SGLang), an average of k a step proves nothing: steps of 4 and 6 average 5, and a tree of 5 nodes proposes 5 as
    well. `assume_chain` takes it for a chain of the same length in every step, where proposed / steps is one whole
    number in all requests; and more than k a step (a tree) for one that proposed every depth up to k.
    """
    with_steps = records if all(r.num_spec_steps for r in records) else [r for r in records if r.num_spec_steps]
    if not with_steps:
        return Drafting(None, full=False, at_risk_known=False, reason=Missing.NO_RECORDS)
    if not all(record.proposed_counted for record in with_steps):
        return Drafting(None, full=False, at_risk_known=False, reason=Missing.PROPOSED_NOT_COUNTED)
    lengths = {record.num_spec_tokens for record in with_steps}
    k = next(iter(lengths)) if len(lengths) == 1 else None
    if k is not None and any(record.num_draft_tokens > record.num_spec_steps * k for record in with_steps):
        if assume_chain:
            return Drafting(k, full=True, at_risk_known=True, assumed=True)
        return Drafting(k, full=False, at_risk_known=False, reason=Missing.NOT_A_CHAIN)
    if k is not None and all(_is_full(record) for record in with_steps):
        return Drafting(k, full=True, at_risk_known=True)
    if all(_proposals(record) or _is_full(record) for record in with_steps):
        longest = max(max(_proposals(record) or (record.num_spec_tokens or 0,)) for record in with_steps)
        return Drafting(k or longest, full=False, at_risk_known=True)
    if len(lengths) > 1:
        return Drafting(None, full=False, at_risk_known=False, reason=Missing.MIXED_DRAFT_LENGTHS)
    if k is not None:
        return Drafting(k, full=False, at_risk_known=False, reason=Missing.SHORT_DRAFTS)
    constant = _constant_proposal(with_steps)
    if assume_chain and constant:
        return Drafting(constant, full=True, at_risk_known=True, assumed=True)
    return Drafting(None, full=False, at_risk_known=False, reason=Missing.DRAFT_LENGTH_UNKNOWN)


def _proposals(record: SpecDecodeAcceptanceRecord) -> Iterable[int]:
    """Return what its steps proposed, each length at least once; nothing where that is not known."""
    return (record.per_step_accepted and record.per_step_drafted) or record.histogram_by_proposed or ()


def _is_full(record: SpecDecodeAcceptanceRecord) -> bool:
    k = record.num_spec_tokens
    return k is not None and record.num_draft_tokens == record.num_spec_steps * k


def _constant_proposal(records: Sequence[SpecDecodeAcceptanceRecord]) -> int | None:
    first = records[0]
    length, rest = divmod(first.num_draft_tokens, first.num_spec_steps)
    same = all(record.num_draft_tokens == record.num_spec_steps * length for record in records)
    deepest = max(depth for record in records for depth in record.acceptance_histogram)
    return length if not rest and same and deepest <= length else None


@dataclass(slots=True, frozen=True)
class Tallies:
    """Steps by position of the prompts with a verify step: a row a prompt, columns at index 0 for position 1.

    `reached` accepted at least as many draft tokens; `at_risk` accepted at least one fewer and proposed as many. The
    latter holds only where the requests' drafting is known: without figures of single steps, every step is taken to
    have proposed enough. Whole numbers, as floats: no sum of them overflows.
    """

    steps: array[float]
    reached: tuple[array[float], ...]
    at_risk: tuple[array[float], ...]


def tally_all(records: Sequence[RequestRecord], known: Drafting) -> Tallies:
    """Count the steps of every prompt at positions 1..k; to the deepest without k.

    Beyond `MAX_POSITIONS` nothing is counted.
    """
    last = known.k
    if last is None:
        last = max((max(r.acceptance.acceptance_histogram, default=0) for r in records if r.acceptance), default=0)
    last = min(last, MAX_POSITIONS)
    steps, reached = array("d"), tuple(array("d") for _ in range(last))
    # Where every step proposed k, those that accepted a position are those at risk of the next.
    shared = known.full and not known.assumed
    at_risk = (steps, *reached[:-1])[:last] if shared else tuple(array("d") for _ in range(last))
    columns = (steps, *reached) if shared else (steps, *reached, *at_risk)
    places: dict[str, int] = {}
    for record in records:
        if (report := record.acceptance) is None or not report.num_spec_steps:
            continue
        place = places.setdefault(prompt_of(record), len(steps))
        if place == len(steps):
            for column in columns:
                column.append(0)
        row = _at_least(report.acceptance_histogram, last)
        if not shared:
            row += _at_risk(report, row)
        for column, value in zip(columns, (report.num_spec_steps, *row), strict=True):
            column[place] += value
    return Tallies(steps, reached, at_risk)


def _at_risk(record: SpecDecodeAcceptanceRecord, reached: list[int]) -> list[int]:
    last = len(reached)
    if (found := record.histogram_by_proposed) is not None:
        gone: Counter[int] = Counter()
        for drafted, histogram in found.items():
            for accepted, times in histogram.items():
                gone[min(accepted + 1, drafted)] += times
        return _at_least(gone, last)
    if _is_full(record) or record.per_step_accepted is None or record.per_step_drafted is None:
        bound = last if record.num_spec_tokens is None else min(record.num_spec_tokens, last)
        return [*[record.num_spec_steps, *reached][:bound], *[0] * (last - bound)]
    steps = zip(record.per_step_accepted, record.per_step_drafted, strict=True)
    # A step is at risk of positions 1..accepted + 1, as far as it proposed.
    return _at_least(Counter(min(accepted + 1, drafted) for accepted, drafted in steps), last)


def _at_least(histogram: Mapping[int, int], last: int) -> list[int]:
    counts = [0] * (last + 1)
    for value, steps in histogram.items():
        counts[min(value, last)] += steps
    return list(accumulate(counts[:0:-1]))[::-1]


def position_curve(known: Drafting, tallies: Tallies) -> PositionCurve:
    """Return S(i) and c(i) for i = 1..k; to the deepest accepted position where k is not known."""
    steps, positions = int(sum(tallies.steps)), []
    # Where no request has a step there is no position to speak of.
    for position, reached in enumerate(tallies.reached if steps else (), start=1):
        survival = ratio(zip(reached, tallies.steps, strict=True)).within(0, 1)
        risk, conditional = None, missing(known.reason or Missing.NO_RECORDS)
        if known.at_risk_known:
            at_risk = tallies.at_risk[position - 1]
            risk, terms = int(sum(at_risk)), zip(reached, at_risk, strict=True)
            conditional = ratio(terms).within(0, 1) if risk else missing(Missing.NONE_AT_RISK)
        positions.append(Position(position, int(sum(reached)), steps, survival, risk, conditional))
    return PositionCurve(known, tuple(positions))
