"""Spoil responses in the ways real servers, and the proxies before them, do."""

from collections.abc import Mapping
from itertools import accumulate

from ..config import SimulatorConfig
from ..drafter import uniform
from ..writer import ResponseWriter
from . import breaking, harmless

__all__ = ["fault_for", "writer_for"]

_WRITERS: Mapping[str, type[ResponseWriter]] = {
    "connection_refused": breaking.ConnectionRefused,
    "reset_before_headers": breaking.ResetBeforeHeaders,
    "reset_mid_event": breaking.ResetMidEvent,
    "stall": breaking.Stall,
    "slow_first_byte": harmless.SlowFirstByte,
    "ok_with_error_object": breaking.OkWithErrorObject,
    "truncated_json": breaking.TruncatedJson,
    "wrong_content_type": harmless.WrongContentType,
    "endless_line": breaking.EndlessLine,
    "duplicate_stats": harmless.DuplicateStats,
    "stats_on_every_chunk": harmless.StatsOnEveryChunk,
    "missing_usage": harmless.MissingUsage,
    "gzip": harmless.Gzip,
    "keepalive_comments": harmless.KeepaliveComments,
    "crlf": harmless.Crlf,
    "split_utf8": harmless.SplitUtf8,
    **dict.fromkeys(breaking.ERROR_ANSWERS, breaking.HttpStatus),
}


def fault_for(config: SimulatorConfig, sequence: int) -> str | None:
    """Choose the fault of the request that arrived as number `sequence`, None for most."""
    value = uniform("fault", config.seed, sequence)
    for (name, _), bound in zip(config.faults, accumulate(share for _, share in config.faults), strict=True):
        if value < bound:
            return name
    return None


def writer_for(fault: str | None) -> type[ResponseWriter]:
    """Return what writes a response that suffers a fault, or none."""
    return _WRITERS[fault] if fault else ResponseWriter
