"""What speculation did to speed: coverage, time per verify step, speed-up against a baseline."""

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace

from aiperf_spec.analysis.clusters import Read, Terms, clustered
from aiperf_spec.analysis.intervals import Estimate, Ratio, estimate, linearised, missing, ratio, scatter
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.models.acceptance import SpecDecodeAcceptanceRecord
from aiperf_spec.models.run import RequestRecord
from aiperf_spec.models.units import NS_PER_MS


@dataclass(slots=True, frozen=True)
class SpeedUp:
    """How much faster tokens came than from a baseline without speculation.

    `measured` = baseline ITL / ITL, both pooled. It is the product of `length` (acceptance length), `per_step`
    (baseline ITL / time per verify step) and `kept` (tokens that came out / tokens that steps emitted: what was
    trimmed at a stop or a limit keeps it below 1), all three over the same requests: those with times, tokens and
    acceptance. Without such requests, or where `reason` says so, they are None.
    """

    baseline_itl_ms: float | None
    baseline_requests: int | None
    """None where the figure was given rather than measured."""
    measured: Estimate
    length: float | None = None
    per_step: float | None = None
    kept: float | None = None
    reason: Missing | None = None


def coverage(records: Sequence[RequestRecord]) -> Estimate:
    """Return (accepted + steps) / completion tokens of requests with acceptance: the share that speculation produced.

    The token of the prefill and text trimmed at a stop keep it from being exactly 1. None without counts of tokens.
    """
    return ratio(clustered(records, coverage_terms)).within(lowest=0)


def coverage_terms(record: RequestRecord) -> Terms | None:
    """Return (accepted + steps, completion tokens); None without acceptance or a count of tokens."""
    report = record.acceptance
    if report is None:
        return None
    # The engine's own count where there is one: a tokenizer's differs from what steps emitted.
    tokens = record.output_tokens if report.completion_tokens is None else report.completion_tokens
    return (_emitted(report), tokens) if tokens else None


def _emitted(report: SpecDecodeAcceptanceRecord) -> int:
    return report.num_accepted_draft_tokens + report.num_spec_steps


def step_time(records: Sequence[RequestRecord]) -> Estimate:
    """Return (last - first content arrival) / verify steps, pooled, in ms; None without streaming."""
    return _pooled_ms(records, step_terms)


def pooled_itl(records: Sequence[RequestRecord]) -> Estimate:
    """Return sum(last - first content arrival) / sum(output tokens - 1), in ms: every token weighs the same."""
    return _pooled_ms(records, token_times)


def _pooled_ms(records: Sequence[RequestRecord], read: Read) -> Estimate:
    given = ratio(clustered(records, read)).within(lowest=0)
    return given if given.value is not None else missing(Missing.NO_TIMES)


def step_terms(record: RequestRecord) -> Terms | None:
    """Return (last - first content arrival in ms, verify steps); None without streaming or a step."""
    report, span = record.acceptance, _span_ms(record)
    return None if report is None or span is None or not report.num_spec_steps else (span, report.num_spec_steps)


def _span_ms(record: RequestRecord) -> float | None:
    if record.first_content_ns is None or record.last_content_ns is None:
        return None
    return (record.last_content_ns - record.first_content_ns) / NS_PER_MS


def token_times(record: RequestRecord) -> Terms | None:
    """Return (last - first content arrival in ms, output tokens - 1); None below 2 tokens or without streaming."""
    span = _span_ms(record)
    return None if span is None or (record.output_tokens or 0) < 2 else (span, (record.output_tokens or 0) - 1)


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
    length, per_step, kept = _parts(records, base_ms)
    requests = None if theirs is None else sum(1 for record in baseline or () if token_times(record) is not None)
    return SpeedUp(base_ms, requests, _measured(itl, base), length, per_step, kept)


def _measured(itl: Ratio, base: Ratio | float) -> Estimate:
    both = [itl, base] if isinstance(base, Ratio) else [itl]
    value = (base.value if isinstance(base, Ratio) else base) / itl.value
    error = math.hypot(*(scatter(array("d", map(each.log_term, each.terms))) for each in both))
    given = estimate(math.log(value), error, min(each.n for each in both), min(each.df for each in both), size=1)
    if given.low is None or given.high is None:
        return replace(given, value=value)
    return Estimate(value, math.exp(given.low), math.exp(given.high), given.n, value * error)


def _parts(records: Sequence[RequestRecord], base: float) -> tuple[float | None, float | None, float | None]:
    span, tokens, emitted, steps = 0.0, 0.0, 0, 0
    for record in records:
        report, times = record.acceptance, token_times(record)
        if report is None or times is None or not report.num_spec_steps:
            continue
        span, tokens = span + times[0], tokens + times[1]
        emitted, steps = emitted + _emitted(report), steps + report.num_spec_steps
    if not steps or not span:
        return None, None, None
    return emitted / steps, base * steps / span, tokens / emitted
