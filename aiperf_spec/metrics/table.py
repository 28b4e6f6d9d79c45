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
    value: Callable[[RequestRecord], float | list[float] | None]
    unit: str = "ms"
    group: Group = Group.LATENCY
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

    def per_second(self, number: int | None) -> float | None:
        """Return a number of the run by its duration; None where either is not known."""
        return number / self.duration_s if number is not None and self.duration_s else None


@dataclass(slots=True, frozen=True)
class RunMetric:
    """A metric of the whole run."""

    tag: str
    label: str
    """Its name on screen."""
    header: str
    """Its name in files."""
    value: Callable[[Totals], float | None]
    unit: str
    group: Group = Group.RUN


def _acceptance(
    tag: str, label: str, header: str, unit: str, read: Callable[[SpecDecodeAcceptanceRecord], float | None]
) -> RecordMetric:
    def value(record: RequestRecord) -> float | None:
        return None if record.acceptance is None else read(record.acceptance)

    return RecordMetric(tag, label, header, value, unit, Group.ACCEPTANCE)


def _server(
    tag: str, label: str, header: str, read: Callable[[ServerTiming], float | None], unit: str = "ms"
) -> RecordMetric:
    def value(record: RequestRecord) -> float | None:
        return None if record.server_timing is None else read(record.server_timing)

    return RecordMetric(tag, label, header, value, unit, Group.SERVER, optional=True)


def _pooled(
    tag: str, label: str, header: str, unit: str, read: Callable[[PooledAcceptance], float | None]
) -> RunMetric:
    def value(totals: Totals) -> float | None:
        return read(totals.acceptance) if totals.acceptance.requests else None

    return RunMetric(tag, label, header, value, unit, Group.ACCEPTANCE)


RECORD_METRICS: tuple[RecordMetric, ...] = (
    RecordMetric("time_to_first_token", "TTFT", "Time to First Token", latency.time_to_first_token),
    RecordMetric("request_latency", "Request latency", "Request Latency", latency.request_latency),
    RecordMetric("inter_token_latency", "ITL", "Inter Token Latency", latency.inter_token_latency),
    RecordMetric("inter_chunk_latency", "Inter-chunk gap", "Inter Chunk Latency", latency.inter_chunk_latency),
    RecordMetric(
        "scheduled_latency", "Scheduled latency", "Scheduled Latency", latency.scheduled_latency, optional=True
    ),
    RecordMetric("schedule_lag", "Schedule lag", "Schedule Lag", latency.schedule_lag, optional=True),
    # The few requests that open a connection are no row of a table of all: a notice says where it matters.
    RecordMetric("http_connect", "Connect", "HTTP Connect", latency.http_connect, group=Group.NONE, optional=True),
    RecordMetric(
        "output_token_throughput_per_user",
        "Tokens/s per user",
        "Output Token Throughput Per User",
        latency.output_token_throughput_per_user,
        "tokens/sec/user",
    ),
    RecordMetric(
        "output_sequence_length", "Output tokens", "Output Sequence Length", lambda r: r.output_tokens, "tokens"
    ),
    RecordMetric("input_sequence_length", "Input tokens", "Input Sequence Length", lambda r: r.input_tokens, "tokens"),
    _acceptance(
        "spec_decode_acceptance_length",
        "Acceptance length",
        "Acceptance Length",
        "ratio",
        lambda a: a.mean_acceptance_length,
    ),
    _acceptance(
        "spec_decode_draft_acceptance_rate",
        "Draft accept. rate",
        "Draft Acceptance Rate",
        "%",
        lambda a: a.draft_acceptance_rate * 100,
    ),
    _acceptance(
        "spec_decode_accepted_per_verified",
        "Accepted/verified",
        "Accepted per Verified",
        "ratio",
        accepted_per_verified,
    ),
    _acceptance("spec_decode_steps", "Verify steps", "Spec Decode Steps", "count", lambda a: a.num_spec_steps),
    _acceptance(
        "spec_decode_accepted_draft_tokens",
        "Accepted drafts",
        "Accepted Draft Tokens",
        "tokens",
        lambda a: a.num_accepted_draft_tokens,
    ),
    _acceptance("spec_decode_draft_tokens", "Proposed drafts", "Draft Tokens", "tokens", lambda a: a.num_draft_tokens),
    _server("server_queue_time", "Queue", "Server Queue Time", lambda t: t.queue_time_ms),
    _server("server_time_to_first_token", "TTFT", "Server Time to First Token", lambda t: t.time_to_first_token_ms),
    _server("server_generation_time", "First to last token", "Server Generation Time", lambda t: t.generation_time_ms),
    _server("server_inter_token_latency", "ITL", "Server Inter Token Latency", lambda t: t.mean_itl_ms),
    _server(
        "server_output_token_throughput_per_user",
        "Tokens/s",
        "Server Output Token Throughput Per User",
        lambda t: t.tokens_per_second,
        "tokens/sec/user",
    ),
)

RUN_METRICS: tuple[RunMetric, ...] = (
    RunMetric("request_count", "Requests", "Request Count", lambda t: t.succeeded, "requests"),
    RunMetric("error_request_count", "Failed requests", "Error Request Count", lambda t: t.failed, "requests"),
    RunMetric("benchmark_duration", "Duration", "Benchmark Duration", lambda t: t.duration_s, "sec"),
    RunMetric(
        "request_throughput", "Requests/s", "Request Throughput", lambda t: t.per_second(t.succeeded), "requests/sec"
    ),
    RunMetric(
        "output_token_throughput",
        "Output tokens/s",
        "Output Token Throughput",
        lambda t: t.per_second(t.output_tokens),
        "tokens/sec",
    ),
    RunMetric(
        "total_osl", "Output tokens", "Total Output Sequence Length", lambda t: t.output_tokens, "tokens", Group.NONE
    ),
    RunMetric(
        "total_isl", "Input tokens", "Total Input Sequence Length", lambda t: t.input_tokens, "tokens", Group.NONE
    ),
    _pooled(
        "spec_decode_token_weighted_acceptance_length",
        "Length, pooled",
        "Token-Weighted Acceptance Length",
        "ratio",
        lambda p: p.length,
    ),
    _pooled(
        "spec_decode_overall_draft_acceptance_rate",
        "Rate, pooled",
        "Overall Draft Acceptance Rate",
        "%",
        lambda p: p.rate_percent,
    ),
    RunMetric(
        "spec_decode_zero_step_requests",
        "Zero-step requests",
        "Zero-Step Requests",
        lambda t: t.zero_step_requests or None,
        "requests",
        Group.NONE,
    ),
    _pooled("total_spec_decode_steps", "Verify steps, total", "Total Spec Decode Steps", "count", lambda p: p.steps),
    _pooled(
        "total_accepted_draft_tokens",
        "Accepted, total",
        "Total Accepted Draft Tokens",
        "tokens",
        lambda p: p.accepted,
    ),
    _pooled("total_draft_tokens", "Proposed, total", "Total Draft Tokens", "tokens", lambda p: p.proposed),
)
