"""The one table of metrics: tables, CSV rows and JSON keys all read it.

Tags, headers and units are AIPerf's (0.13.0), so that its tools read our files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from aiperf_spec.metrics import latency
from aiperf_spec.metrics.pooled import PooledAcceptance, accepted_per_verified
from aiperf_spec.models.acceptance import SpecDecodeAcceptanceRecord
from aiperf_spec.models.run import RequestRecord, ServerTiming


class Group(StrEnum):
    """The table on screen in which a metric stands; NONE: in files only."""

    LATENCY = "latency"
    RUN = "run"
    SERVER = "server"
    ACCEPTANCE = "acceptance"
    NONE = "none"


@dataclass(slots=True, frozen=True)
class RecordMetric:
    """A metric of one request. `value` is None where the request has none; a list joins the run's values."""

    tag: str
    label: str
    """Its name on screen."""
    header: str
    """Its name in files."""
    unit: str
    group: Group
    value: Callable[[RequestRecord], float | list[float] | None]
    optional: bool = False
    """Whether tables leave it out where no request has it."""


@dataclass(slots=True, frozen=True)
class Totals:
    """What run metrics are made of. Sums of tokens are None where a successful request does not say."""

    succeeded: int
    failed: int
    duration_s: float | None
    """First start to last content of successful requests."""
    input_tokens: int | None
    output_tokens: int | None
    acceptance: PooledAcceptance
    zero_step_requests: int


@dataclass(slots=True, frozen=True)
class RunMetric:
    """A metric of the whole run."""

    tag: str
    label: str
    """Its name on screen."""
    header: str
    """Its name in files."""
    unit: str
    group: Group
    value: Callable[[Totals], float | None]


def _acceptance(
    read: Callable[[SpecDecodeAcceptanceRecord], float | None],
) -> Callable[[RequestRecord], float | None]:
    return lambda record: None if record.acceptance is None else read(record.acceptance)


def _timed(read: Callable[[ServerTiming], float | None]) -> Callable[[RequestRecord], float | None]:
    return lambda record: None if record.server_timing is None else read(record.server_timing)


def _per_second(count: Callable[[Totals], int | None]) -> Callable[[Totals], float | None]:
    def value(totals: Totals) -> float | None:
        number = count(totals)
        return number / totals.duration_s if number is not None and totals.duration_s else None

    return value


def _percent(fraction: float | None) -> float | None:
    return None if fraction is None else fraction * 100


def _pooled(read: Callable[[PooledAcceptance], float | None]) -> Callable[[Totals], float | None]:
    return lambda totals: read(totals.acceptance) if totals.acceptance.requests else None


RECORD_METRICS: tuple[RecordMetric, ...] = (
    RecordMetric(
        "time_to_first_token", "TTFT", "Time to First Token", "ms", Group.LATENCY, latency.time_to_first_token
    ),
    RecordMetric("request_latency", "Request latency", "Request Latency", "ms", Group.LATENCY, latency.request_latency),
    RecordMetric(
        "inter_token_latency",
        "ITL",
        "Inter Token Latency",
        "ms",
        Group.LATENCY,
        latency.inter_token_latency,
    ),
    RecordMetric(
        "inter_chunk_latency",
        "Inter-chunk gap",
        "Inter Chunk Latency",
        "ms",
        Group.LATENCY,
        latency.inter_chunk_latency,
    ),
    RecordMetric(
        "scheduled_latency",
        "Scheduled latency",
        "Scheduled Latency",
        "ms",
        Group.LATENCY,
        latency.scheduled_latency,
        optional=True,
    ),
    RecordMetric(
        "schedule_lag", "Schedule lag", "Schedule Lag", "ms", Group.LATENCY, latency.schedule_lag, optional=True
    ),
    RecordMetric(
        "output_token_throughput_per_user",
        "Tokens/s per user",
        "Output Token Throughput Per User",
        "tokens/sec/user",
        Group.LATENCY,
        latency.output_token_throughput_per_user,
    ),
    RecordMetric(
        "output_sequence_length",
        "Output tokens",
        "Output Sequence Length",
        "tokens",
        Group.LATENCY,
        lambda record: record.output_tokens,
    ),
    RecordMetric(
        "input_sequence_length",
        "Input tokens",
        "Input Sequence Length",
        "tokens",
        Group.LATENCY,
        lambda record: record.input_tokens,
    ),
    RecordMetric(
        "spec_decode_acceptance_length",
        "Acceptance length",
        "Acceptance Length",
        "ratio",
        Group.ACCEPTANCE,
        _acceptance(lambda record: record.mean_acceptance_length),
    ),
    RecordMetric(
        "spec_decode_draft_acceptance_rate",
        "Draft accept. rate",
        "Draft Acceptance Rate",
        "%",
        Group.ACCEPTANCE,
        _acceptance(lambda record: record.draft_acceptance_rate * 100),
    ),
    RecordMetric(
        "spec_decode_accepted_per_verified",
        "Accepted/verified",
        "Accepted per Verified",
        "ratio",
        Group.ACCEPTANCE,
        _acceptance(accepted_per_verified),
    ),
    RecordMetric(
        "spec_decode_steps",
        "Verify steps",
        "Spec Decode Steps",
        "count",
        Group.ACCEPTANCE,
        _acceptance(lambda record: record.num_spec_steps),
    ),
    RecordMetric(
        "spec_decode_accepted_draft_tokens",
        "Accepted drafts",
        "Accepted Draft Tokens",
        "tokens",
        Group.ACCEPTANCE,
        _acceptance(lambda record: record.num_accepted_draft_tokens),
    ),
    RecordMetric(
        "spec_decode_draft_tokens",
        "Proposed drafts",
        "Draft Tokens",
        "tokens",
        Group.ACCEPTANCE,
        _acceptance(lambda record: record.num_draft_tokens),
    ),
    RecordMetric(
        "server_queue_time",
        "Queue",
        "Server Queue Time",
        "ms",
        Group.SERVER,
        _timed(lambda timing: timing.queue_time_ms),
        optional=True,
    ),
    RecordMetric(
        "server_time_to_first_token",
        "TTFT",
        "Server Time to First Token",
        "ms",
        Group.SERVER,
        _timed(lambda timing: timing.time_to_first_token_ms),
        optional=True,
    ),
    RecordMetric(
        "server_generation_time",
        "First to last token",
        "Server Generation Time",
        "ms",
        Group.SERVER,
        _timed(lambda timing: timing.generation_time_ms),
        optional=True,
    ),
    RecordMetric(
        "server_inter_token_latency",
        "ITL",
        "Server Inter Token Latency",
        "ms",
        Group.SERVER,
        _timed(lambda timing: timing.mean_itl_ms),
        optional=True,
    ),
    RecordMetric(
        "server_output_token_throughput_per_user",
        "Tokens/s",
        "Server Output Token Throughput Per User",
        "tokens/sec/user",
        Group.SERVER,
        _timed(lambda timing: timing.tokens_per_second),
        optional=True,
    ),
)

RUN_METRICS: tuple[RunMetric, ...] = (
    RunMetric("request_count", "Requests", "Request Count", "requests", Group.RUN, lambda totals: totals.succeeded),
    RunMetric(
        "error_request_count",
        "Failed requests",
        "Error Request Count",
        "requests",
        Group.RUN,
        lambda totals: totals.failed,
    ),
    RunMetric(
        "benchmark_duration", "Duration", "Benchmark Duration", "sec", Group.RUN, lambda totals: totals.duration_s
    ),
    RunMetric(
        "request_throughput",
        "Requests/s",
        "Request Throughput",
        "requests/sec",
        Group.RUN,
        _per_second(lambda totals: totals.succeeded),
    ),
    RunMetric(
        "output_token_throughput",
        "Output tokens/s",
        "Output Token Throughput",
        "tokens/sec",
        Group.RUN,
        _per_second(lambda totals: totals.output_tokens),
    ),
    RunMetric(
        "total_osl",
        "Output tokens",
        "Total Output Sequence Length",
        "tokens",
        Group.NONE,
        lambda totals: totals.output_tokens,
    ),
    RunMetric(
        "total_isl",
        "Input tokens",
        "Total Input Sequence Length",
        "tokens",
        Group.NONE,
        lambda totals: totals.input_tokens,
    ),
    RunMetric(
        "spec_decode_token_weighted_acceptance_length",
        "Length, pooled",
        "Token-Weighted Acceptance Length",
        "ratio",
        Group.ACCEPTANCE,
        _pooled(lambda pooled: pooled.length),
    ),
    RunMetric(
        "spec_decode_overall_draft_acceptance_rate",
        "Rate, pooled",
        "Overall Draft Acceptance Rate",
        "%",
        Group.ACCEPTANCE,
        _pooled(lambda pooled: _percent(pooled.rate)),
    ),
    RunMetric(
        "spec_decode_zero_step_requests",
        "Zero-step requests",
        "Zero-Step Requests",
        "requests",
        Group.NONE,
        lambda totals: totals.zero_step_requests or None,
    ),
    RunMetric(
        "total_spec_decode_steps",
        "Verify steps, total",
        "Total Spec Decode Steps",
        "count",
        Group.ACCEPTANCE,
        _pooled(lambda pooled: pooled.steps),
    ),
    RunMetric(
        "total_accepted_draft_tokens",
        "Accepted, total",
        "Total Accepted Draft Tokens",
        "tokens",
        Group.ACCEPTANCE,
        _pooled(lambda pooled: pooled.accepted),
    ),
    RunMetric(
        "total_draft_tokens",
        "Proposed, total",
        "Total Draft Tokens",
        "tokens",
        Group.ACCEPTANCE,
        _pooled(lambda pooled: pooled.proposed),
    ),
)
