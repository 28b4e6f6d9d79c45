"""Find what a run has to say beside its figures."""

from __future__ import annotations

import re
from collections.abc import Sequence

from aiperf_spec.choices import EndpointType
from aiperf_spec.config import ProfileConfig
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.run import ErrorKind, Notice, NoticeKind, RequestRecord, RunResult
from aiperf_spec.urls import without_credentials
from aiperf_spec.wire.body import MAX_TOKENS_KEYS

_ABOUT_SIZE = re.compile(r"too (large|long|big|many)|context|exceed|maximum|at (least|most)|greater|\bless\b", re.I)
"""A refusal of the number, which another name for it would not mend: vLLM names both names in that one too."""


def run_notices(result: RunResult, *, proxy: str | None, adapter_warnings: Sequence[str]) -> list[Notice]:
    """Return the notices of a run, in the order in which they are to be read."""
    config: ProfileConfig = result.config
    profiled = result.profiled()
    good = [record for record in profiled if record.succeeded]
    notices = [Notice(NoticeKind.ADAPTER, {"text": text}) for text in adapter_warnings]
    notices += _acceptance(result, config, good)
    if good and config.temperature is None and "temperature" not in config.extra_inputs:
        notices.append(Notice(NoticeKind.UNPINNED_SAMPLING))
    notices += _tokens(config, good)
    if retried := sum(1 for record in result.records if record.retried):
        notices.append(Notice(NoticeKind.RETRIED, {"count": retried}))
    notices += _refused_max_tokens(config, profiled)
    if config.insecure:
        notices.append(Notice(NoticeKind.INSECURE))
    if proxy is not None:
        notices.append(Notice(NoticeKind.PROXY, {"proxy": without_credentials(proxy)}))
    return notices


def _acceptance(result: RunResult, config: ProfileConfig, good: list[RequestRecord]) -> list[Notice]:
    if not good or any(record.acceptance is not None for record in good):
        return []
    reasons = {record.drop_reason for record in good}
    if DropReason.ABSENT not in reasons:
        return []
    options = config.extra_inputs.get("stream_options")
    usage_off = (
        config.streaming and isinstance(options, dict) and options.get("include_usage") in (False, None)
    ) and "include_usage" in (options or {})
    asked = config.extra_inputs.get("return_spec_tokens_details") is True
    values = {"owned_by": result.owned_by, "usage_off": usage_off, "asked_sglang": asked}
    return [Notice(NoticeKind.NO_ACCEPTANCE, values)]


def _tokens(config: ProfileConfig, good: list[RequestRecord]) -> list[Notice]:
    notices = []
    missing = sum(1 for record in good if record.output_tokens is None)
    if missing:
        notices.append(Notice(NoticeKind.NO_TOKEN_COUNTS, {"count": missing, "of": len(good)}))
    if missing < len(good) and not config.use_server_token_count:
        notices.append(Notice(NoticeKind.TOKENS_FROM_USAGE))
    if zero := sum(1 for r in good if r.output_tokens == 0 and r.last_content_ns is not None):
        notices.append(Notice(NoticeKind.ZERO_USAGE, {"count": zero, "of": len(good)}))
    return notices


def _refused_max_tokens(config: ProfileConfig, profiled: list[RequestRecord]) -> list[Notice]:
    if config.max_tokens is None or config.endpoint_type is not EndpointType.CHAT:
        return []
    if any(key in config.extra_inputs for key in MAX_TOKENS_KEYS):
        return []  # the name sent is the user's own, and the option that chooses between them has no say
    for record in profiled:
        error = record.error
        if error is None or error.kind is not ErrorKind.HTTP_STATUS or error.status not in (400, 422):
            continue
        if any(key in error.message for key in MAX_TOKENS_KEYS) and not _ABOUT_SIZE.search(error.message):
            sent = "max_tokens" if config.use_legacy_max_tokens else "max_completion_tokens"
            return [Notice(NoticeKind.MAX_TOKENS_REFUSED, {"sent": sent})]
    return []
