"""Find what a run has to say beside its figures."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import Any

from aiperf_spec.adapters.description import recognised
from aiperf_spec.adapters.engines import known_engines
from aiperf_spec.analysis.server_acceptance import ServerAcceptance, server_acceptance
from aiperf_spec.config.choices import EndpointType
from aiperf_spec.config.server_url import without_secrets
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.metrics.buffering import came_in_clumps, came_in_one_read, came_token_by_token
from aiperf_spec.metrics.latency import http_connect, request_latency, schedule_lag, time_to_first_token
from aiperf_spec.metrics.prompt_cache import APART, cached_share, firsts_and_repeats
from aiperf_spec.metrics.stats import loop_lag, percentile
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.run import ONE_TOKEN, DatasetInfo, ErrorKind, Notice, NoticeKind, RequestRecord, RunResult
from aiperf_spec.models.units import NS_PER_MS
from aiperf_spec.workload.row_settings import MAX_TOKENS_KEYS

_ABOUT_SIZE = re.compile(r"too (large|long|big|many)|context|exceed|maximum|at (least|most)|greater|\bless\b", re.I)
"""A refusal of the number, which another name for it would not mend: vLLM names both names in that one too."""

_DISCREPANCY = 0.1
"""The share by which the two counts of tokens may differ without a word."""
_SATURATED, _SATURATED_MS = 0.05, 5.0
"""The share of a latency, and the time, from which on the event loop's own lag is told: what it adds to latencies."""
_LATE_MS = 50.0
"""Lateness from which on a request did not go out when it was due."""
_MISARRIVED = 0.05
"""The share of streams that may arrive otherwise than token by token without a word."""
_CONNECTING = 0.05
"""The share by which opening connections may move the time to first token without a word."""

_LISTED = 4
"""Unknown fields that are named: a server may send a new one with every response."""
_NAME_LIMIT = 60


def run_notices(
    result: RunResult, *, proxy: str | None, adapter_warnings: Sequence[str], handover_ns: Sequence[int] = ()
) -> Iterator[Notice]:
    """Yield the notices of a run, in the order in which they are to be read.

    `handover_ns` is how long after its request's end each record came from the worker process that made it.
    """
    config = result.config
    profiled = result.profiled()
    good = [record for record in profiled if record.succeeded]
    for text in adapter_warnings:
        yield Notice(NoticeKind.ADAPTER, {"text": text})
    yield from _acceptance(result, good)
    if totals := [record.draft_totals for record in good if record.draft_totals is not None]:
        engine = known_engines().get(totals[0].engine)
        asked = engine is not None and engine.is_asked_by(config.extra_inputs)
        values = {"engine": totals[0].engine, "asked": asked, "streaming": config.streaming}
        yield Notice(NoticeKind.TOTALS_ONLY, {"count": len(totals), "of": len(good), **values})
    yield from _counters(result, good)
    reports = [record.acceptance for record in good if record.acceptance is not None]
    other = [(sent, report.length or 1.0) for report in reports if (sent := report.other_length) is not None]
    if other:
        sent, counted = (fmean(lengths) for lengths in zip(*other, strict=True))
        yield Notice(
            NoticeKind.OTHER_LENGTH, {"count": len(other), "of": len(reports), "sent": sent, "counted": counted}
        )
    uncounted = sum(1 for report in reports if not report.proposed_counted)
    if uncounted:
        adaptive = result.drafter is not None and result.drafter.adaptive
        yield Notice(NoticeKind.PROPOSED_NOT_COUNTED, {"count": uncounted, "of": len(good), "adaptive": adaptive})
    if good and config.temperature is None and "temperature" not in config.extra_inputs:
        yield Notice(NoticeKind.UNPINNED_SAMPLING)
    yield from _prompts(result.dataset, profiled)
    unread = Counter(name for record in profiled for name in record.unread_fields)
    for name, count in unread.most_common(_LISTED):
        yield Notice(NoticeKind.UNREAD_FIELDS, {"name": name[:_NAME_LIMIT], "count": count, "of": len(profiled)})
    yield from _tokens(config, good)
    yield from _client(result, profiled)
    if late := [late_ms for handover in handover_ns if (late_ms := handover / NS_PER_MS) >= _LATE_MS]:
        yield Notice(NoticeKind.HANDOVER, {"count": len(late), "of": len(handover_ns), "max": max(late)})
    yield from _arrivals(good)
    yield from _connecting(good)
    yield from _cached_repeats(result)
    if retried := sum(1 for record in result.records if record.retried):
        yield Notice(NoticeKind.RETRIED, {"count": retried})
    if config.max_tokens is not None and config.endpoint_type is EndpointType.CHAT:
        yield from _max_tokens(config, profiled)
    if config.streaming and any(_is_refused(record, ("stream_options",)) for record in profiled):
        yield Notice(NoticeKind.STREAM_OPTIONS_REFUSED)
    if config.insecure:
        yield Notice(NoticeKind.INSECURE)
    if proxy is not None:
        yield Notice(NoticeKind.PROXY, {"proxy": without_secrets(proxy)})


def _counters(result: RunResult, good: list[RequestRecord]) -> Iterator[Notice]:
    """Yield that metrics were read in which the engine's counters of verify steps are not to be found."""
    if result.server_metrics is None or result.reconciliation is not None or result.config.client_share.count > 1:
        return
    engines = known_engines()
    reported = {record.acceptance.engine for record in good if record.acceptance is not None} & engines.keys()
    if names := sorted({name for engine in reported if (name := engines[engine].counters.verify_steps) is not None}):
        urls = ", ".join(endpoint.url for endpoint in result.server_metrics.endpoints)
        yield Notice(NoticeKind.NO_COUNTERS, {"url": urls, "names": ", ".join(names)})


def _acceptance(result: RunResult, good: list[RequestRecord]) -> Iterator[Notice]:
    config, compared = result.config, result.reconciliation
    absent = [record for record in good if record.drop_reason is DropReason.ABSENT]
    if not absent:
        return
    engine = None if compared is None else compared.engine
    engine = next((each.acceptance.engine for each in good if each.acceptance is not None), engine)
    engine = engine or recognised(result.owned_by, known_engines())
    silent = Counter(reason for record in absent if (reason := _reason_of_silence(record, engine)) is not None)
    if any(record.acceptance is not None for record in good):
        if silent:
            why: dict[str, Any] = {"silent": dict(silent), "engine": engine}
            yield Notice(NoticeKind.SILENT, {"count": silent.total(), "of": len(good), **why})
        return
    options = config.extra_inputs.get("stream_options", {})
    asked_for = options.get("include_usage", config.include_usage) if options is not None else False
    usage_off = config.streaming and not asked_for
    asked = {
        f"asked_{name}": engine.is_asked_by(config.extra_inputs)
        for name, engine in known_engines().items()
        if engine.request_inputs
    }
    drafts = result.drafter is not None and result.drafter.method is not None
    values = {
        "owned_by": result.owned_by,
        "engine": engine,
        "silent": dict(silent),
        "of": len(absent),
        "speculates": drafts or (compared is not None and bool(compared.steps.server)),
        "counted": isinstance(server_acceptance(compared), ServerAcceptance),
        "usage_off": usage_off,
    }
    yield Notice(NoticeKind.NO_ACCEPTANCE, values | asked)


def _reason_of_silence(record: RequestRecord, engine: str | None) -> str | None:
    """Return why an engine reports nothing of a request whatever its settings: `ONE_TOKEN`, or a field of its body."""
    if record.output_tokens is not None and record.output_tokens <= 1:
        return ONE_TOKEN
    described = known_engines().get(engine or "")
    chosen = known_engines().values() if described is None else (described,)
    known = {name for each in chosen for name in each.silent_for}
    found = (name for name in record.silencing_fields if name in known)
    return next((name for name in found if name != "stop" or record.finish_reason == "stop"), None)


def _prompts(dataset: DatasetInfo, profiled: list[RequestRecord]) -> Iterator[Notice]:
    if dataset.skipped_lines:
        yield Notice(NoticeKind.SKIPPED_LINES, {"count": dataset.skipped_lines, "name": dataset.name})
    if dataset.unsent_fields:
        yield Notice(NoticeKind.UNSENT_FIELDS, {"name": dataset.name, "fields": ", ".join(dataset.unsent_fields)})
    if dataset.repeated_ids:
        yield Notice(NoticeKind.REPEATED_IDS, {"count": dataset.repeated_ids})
    cut = [record for record in profiled if record.unsent_turns]
    failed = [r.error is not None and r.error.kind is not ErrorKind.CANCELLED for r in cut]
    for kind, chosen in ((NoticeKind.UNSENT_TURNS, True), (NoticeKind.TURNS_OUT_OF_TIME, False)):
        turns = [record.unsent_turns for record, has_failed in zip(cut, failed, strict=True) if has_failed is chosen]
        if turns:
            yield Notice(kind, {"turns": sum(turns), "conversations": len(turns)})


def _tokens(config: ProfileConfig, good: list[RequestRecord]) -> Iterator[Notice]:
    missing = sum(1 for record in good if record.output_tokens is None)
    if missing:
        yield Notice(NoticeKind.NO_TOKEN_COUNTS, {"count": missing, "of": len(good)})
    yield from _discrepancies(config, good)
    if zero := sum(1 for r in good if r.output_tokens == 0 and r.last_content_ns is not None):
        yield Notice(NoticeKind.ZERO_USAGE, {"count": zero, "of": len(good)})


def _discrepancies(config: ProfileConfig, good: list[RequestRecord]) -> Iterator[Notice]:
    both = [(r.both_counts.tokenizer, r.both_counts.server) for r in good if r.both_counts is not None]
    sides = {"output": [(ours.completion_tokens, theirs.completion_tokens) for ours, theirs in both if theirs]}
    # A chat template's own tokens are in usage and in no text: only a completions prompt can be compared.
    if config.endpoint_type is EndpointType.COMPLETIONS:
        sides["input"] = [(ours.prompt_tokens, theirs.prompt_tokens) for ours, theirs in both if theirs]
    for side, pairs in sides.items():
        known = [(ours, theirs) for ours, theirs in pairs if ours is not None and theirs is not None]
        ours, theirs = sum(pair[0] for pair in known), sum(pair[1] for pair in known)
        if abs(ours - theirs) > _DISCREPANCY * theirs:
            values = {"side": side, "counted": ours, "usage": theirs, "requests": len(known)}
            yield Notice(NoticeKind.TOKEN_DISCREPANCY, values)


def _client(result: RunResult, profiled: list[RequestRecord]) -> Iterator[Notice]:
    """Yield what the program itself was late with."""
    lag = loop_lag(result.loop_lags_ns)
    if lag is not None and lag.value("p99") >= _SATURATED_MS:
        latency, read = ("TTFT", time_to_first_token) if result.config.streaming else ("latency", request_latency)
        times = sorted(ms for record in profiled if (ms := read(record)))
        shares = [(lag.value(f"p{q}") / percentile(times, q), f"{latency} p{q}") for q in (50, 99) if times]
        share, figure = max(shares, default=(1.0, "all latencies"))
        if share >= _SATURATED:
            values = {"p50": lag.value("p50"), "p99": lag.value("p99"), "max": lag.max, "share": share}
            yield Notice(NoticeKind.SATURATED, {**values, "figure": figure, "workers": result.config.workers})
    if result.unsent:
        yield Notice(NoticeKind.UNSENT, {"count": result.unsent, "of": result.unsent + len(profiled)})
    if late := [
        late_ms for record in profiled if (late_ms := schedule_lag(record)) is not None and late_ms >= _LATE_MS
    ]:
        yield Notice(NoticeKind.SCHEDULE_LAG, {"count": len(late), "of": len(profiled), "max": max(late)})


def _arrivals(good: list[RequestRecord]) -> Iterator[Notice]:
    streams = sum(1 for record in good if record.first_content_ns is not None)
    for kind, is_so in (
        (NoticeKind.ONE_READ, came_in_one_read),
        (NoticeKind.CLUMPS, came_in_clumps),
        (NoticeKind.TOKEN_CHUNKS, came_token_by_token),
    ):
        if (found := sum(map(is_so, good))) >= _MISARRIVED * streams and found:
            yield Notice(kind, {"count": found, "of": streams})


def _connecting(good: list[RequestRecord]) -> Iterator[Notice]:
    count = sum(1 for record in good if record.connect_ns is not None and record.first_content_ns is not None)
    if not count:
        return
    # One list after the other: a run of a million requests should not need a million pairs at hand.
    of, whole = _first_tokens(good, lambda record: 0.0)
    _, without = _first_tokens(good, lambda record: http_connect(record) or 0.0)
    moved = {f"p{q}": pair for q, *pair in zip((50, 99), whole, without, strict=True)}
    moved = {name: pair for name, pair in moved.items() if pair[0] - pair[1] >= _CONNECTING * pair[1]}
    if moved:
        yield Notice(NoticeKind.CONNECTING, {"count": count, "of": of, "moved": moved})


def _first_tokens(good: list[RequestRecord], less: Callable[[RequestRecord], float]) -> tuple[int, list[float]]:
    """Return how many requests have a time to first token, and its p50 and p99 less a part of it, in ms."""
    times = sorted(ttft - less(record) for record in good if (ttft := time_to_first_token(record)) is not None)
    return len(times), [percentile(times, q) for q in (50, 99)] if times else []


def _cached_repeats(result: RunResult) -> Iterator[Notice]:
    by_usage = cached_share(result.records) is not None
    counted = None if result.reconciliation is None else result.reconciliation.cached_share
    if not by_usage and not counted:
        return
    firsts, repeats = firsts_and_repeats(result.records)
    again, before = (cached_share(repeats), cached_share(firsts)) if by_usage else (counted, None)
    if repeats and again is not None and again - (before or 0.0) >= APART:
        values = {"count": len(repeats), "of": len(firsts) + len(repeats), "share": again, "by_usage": by_usage}
        yield Notice(NoticeKind.CACHED_REPEATS, values)


def _max_tokens(config: ProfileConfig, profiled: list[RequestRecord]) -> Iterator[Notice]:
    if any(key in config.extra_inputs for key in MAX_TOKENS_KEYS):
        return  # the name sent is the user's own, and the option that chooses between them has no say
    sent = "max_tokens" if config.use_legacy_max_tokens else "max_completion_tokens"
    limited = [(usage.completion_tokens or 0, r.max_tokens) for r in profiled if (usage := r.usage) and r.max_tokens]
    if longer := sum(1 for tokens, limit in limited if tokens > limit):
        yield Notice(NoticeKind.MAX_TOKENS_IGNORED, {"count": longer, "of": len(limited), "sent": sent})
    for record in profiled:
        if _is_refused(record, MAX_TOKENS_KEYS):
            yield Notice(NoticeKind.MAX_TOKENS_REFUSED, {"sent": sent})
            return


def _is_refused(record: RequestRecord, keys: Sequence[str]) -> bool:
    """Say whether the server refused the request for one of these fields of its body, and not for the field's size."""
    error = record.error
    if error is None or error.kind is not ErrorKind.HTTP_STATUS or error.status not in (400, 422):
        return False
    return any(key in error.message for key in keys) and not _ABOUT_SIZE.search(error.message)
