"""What speculation did to speed: decode steps, coverage, time per step, speed-up against a baseline."""

import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from aiperf_spec.analysis.clusters import Terms, clustered
from aiperf_spec.analysis.intervals import Estimate, Ratio, as_length, estimate, linearised, missing, ratio, scatter
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.metrics.latency import content_span_ns
from aiperf_spec.models.decoding import Decoding, decoding, likely_steps, ran_undrafted
from aiperf_spec.models.run import RequestRecord
from aiperf_spec.models.units import NS_PER_MS

_Decoded = Callable[[RequestRecord], Decoding[int] | Decoding[float] | None]


class _ReadDecoded(Protocol):
    def __call__(self, record: RequestRecord, decoded: _Decoded = ...) -> Terms | None: ...


@dataclass(slots=True, frozen=True)
class SpeedUp:
    """How much faster tokens came than from a baseline without speculation.

    `measured` = baseline ITL / ITL, both pooled. It is the product of `tokens_per_step` (tokens per decode step),
    `per_step` (baseline ITL / time per decode step) and `kept` (tokens that came out / tokens that steps gave: what was
    cut at a stop or a limit keeps it below 1), all three over the same requests: those with times, and whose decode
    steps are known. Without such requests, or where `reason` says so, they are None.
    """

    baseline_itl_ms: float | None
    baseline_requests: int | None
    """None where the figure was given rather than measured."""
    measured: Estimate
    tokens_per_step: float | None = None
    per_step: float | None = None
    kept: float | None = None
    reason: Missing | None = None


def coverage(records: Sequence[RequestRecord]) -> Estimate:
    """Return the share of the output that verify steps gave, of requests whose decode steps are known.

    The prefill's token and those of steps without a draft keep it below 1. Tokens that were cut off are not counted.
    """
    return over_decode_steps(records, coverage_terms).within(0, 1)


def tokens_per_decode_step(records: Sequence[RequestRecord]) -> Estimate:
    """Return 1 + accepted / decode steps, pooled: the acceptance length where every step has a draft."""
    return as_length(over_decode_steps(records, accepted_terms))


def drafted_share(records: Sequence[RequestRecord]) -> Estimate:
    """Return verify steps / decode steps, pooled: a fraction."""
    return over_decode_steps(records, drafted_terms).within(0, 1)


def step_time(records: Sequence[RequestRecord]) -> Estimate:
    """Return (last - first content arrival) / decode steps, pooled, in ms; see `step_terms`."""
    return _in_ms(over_decode_steps(records, step_terms))


def pooled_itl(records: Sequence[RequestRecord]) -> Estimate:
    """Return sum(last - first content arrival) / sum(output tokens - 1), in ms: every token weighs the same."""
    return _in_ms(ratio(clustered(records, token_times)))


def _in_ms(given: Estimate) -> Estimate:
    return given.within(lowest=0) if given.value is not None else missing(Missing.NO_TIMES)


def over_decode_steps(records: Sequence[RequestRecord], read: _ReadDecoded) -> Estimate:
    """Return a ratio that counts decode steps, with an interval that allows for those which cut last steps may hide.

    The value is that of the fewest steps. The interval is that of `likely_steps`, and reaches from the fewest of them
    to the most; it always holds the value.
    """
    value = ratio(clustered(records, read))
    if not any(map(ran_undrafted, records)) or value.value is None:
        return value
    fewest, most = (
        ratio(clustered(records, partial(read, decoded=partial(likely_steps, most=most)))) for most in (False, True)
    )
    if fewest.low is None or fewest.high is None or most.low is None or most.high is None:
        return value
    low, high = min(fewest.low, most.low), max(fewest.high, most.high)
    return replace(value, low=min(value.value, low), high=max(value.value, high))


def coverage_terms(record: RequestRecord, decoded: _Decoded = decoding) -> Terms | None:
    """Return (tokens that verify steps gave, completion tokens); None where the steps are not known."""
    found = decoded(record)
    return None if found is None else (found.tokens - 1 - found.undrafted_steps, found.tokens)


def undrafted_totals(records: Sequence[RequestRecord]) -> tuple[int, int]:
    """Return the decode steps that ran without a draft: how many are known, and how many there are at most."""
    if not any(map(ran_undrafted, records)):
        return 0, 0  # the drafter drafts for every step
    known = at_most = 0
    for record in records:
        if (found := decoding(record)) is not None:
            known += found.undrafted_steps
            at_most += found.undrafted_at_most
    return known, at_most


def accepted_terms(record: RequestRecord, decoded: _Decoded = decoding) -> Terms | None:
    """Return (accepted, decode steps); None where the steps are not known, or there is none."""
    found = decoded(record)
    return None if found is None or not found.steps else (found.accepted, found.steps)


def drafted_terms(record: RequestRecord, decoded: _Decoded = decoding) -> Terms | None:
    """Return (verify steps, decode steps); None where the steps are not known, or there is none."""
    found = decoded(record)
    return None if found is None or not found.steps else (found.verify_steps, found.steps)


def step_terms(record: RequestRecord, decoded: _Decoded = decoding) -> Terms | None:
    """Return (last - first content arrival in ms, decode steps).

    None without streaming, where one read brought all content, and where the steps are not known or there is none.
    """
    found, span = decoded(record), content_span_ns(record)
    return None if found is None or span is None or not found.steps else (span / NS_PER_MS, found.steps)


def token_times(record: RequestRecord) -> Terms | None:
    """Return (last - first content arrival in ms, output tokens - 1).

    None below 2 tokens, without streaming, and where one read brought all content.
    """
    span, tokens = content_span_ns(record), record.output_tokens or 0
    return None if span is None or tokens < 2 else (span / NS_PER_MS, tokens - 1)


def speed_up(
    records: Sequence[RequestRecord],
    *,
    baseline: Sequence[RequestRecord] | None = None,
    baseline_itl_ms: float | None = None,
) -> SpeedUp:
    """Return the speed-up against a baseline run's records, or against an inter-token latency in ms.

    The interval is of log(baseline ITL) - log(ITL), the two runs taken as independent, with Student's t at the smaller
    of both runs' degrees of freedom; a given latency is taken as exact.
    """
    if baseline_itl_ms is None and baseline is None:
        return SpeedUp(None, None, missing(Missing.NO_BASELINE), reason=Missing.NO_BASELINE)
    mine = list(clustered(records, token_times))
    theirs = None if baseline is None else list(clustered(baseline, token_times))
    if not mine or theirs == []:
        return SpeedUp(None, None, missing(Missing.NO_TIMES), reason=Missing.NO_TIMES)
    itl = linearised(mine)
    base = baseline_itl_ms or 0.0 if theirs is None else linearised(theirs)
    base_ms = base.value if isinstance(base, Ratio) else base
    if not itl.value or not base_ms:
        return SpeedUp(base_ms, None, missing(Missing.NO_TIMES), reason=Missing.NO_TIMES)
    requests = None if theirs is None else sum(1 for record in baseline or () if token_times(record) is not None)
    return SpeedUp(base_ms, requests, _measured(itl, base), *_parts(records, base_ms))


def _measured(itl: Ratio, base: Ratio | float) -> Estimate:
    both = [itl, base] if isinstance(base, Ratio) else [itl]
    value = (base.value if isinstance(base, Ratio) else base) / itl.value
    error = math.hypot(*(scatter(array("d", map(each.log_term, each.terms))) for each in both))
    given = estimate(math.log(value), error, min(each.n for each in both), min(each.df for each in both), size=1)
    if given.low is None or given.high is None:
        return replace(given, value=value)
    return Estimate(value, math.exp(given.low), math.exp(given.high), given.n, value * error)


_Parts = tuple[float | None, float | None, float | None, Missing | None]


def _parts(records: Sequence[RequestRecord], base: float) -> _Parts:
    span, tokens, given, steps = 0.0, 0, 0, 0
    for record in records:
        found, times = decoding(record), step_terms(record)
        if found is None or times is None:
            continue
        if found.tokens != record.output_tokens:
            return None, None, None, Missing.OTHER_TOKEN_COUNT
        span, tokens = span + times[0], tokens + found.tokens - 1
        given, steps = given + found.given, steps + found.steps
    if not steps:
        return None, None, None, Missing.NO_RECORDS
    return given / steps, base * steps / span, tokens / given, None
