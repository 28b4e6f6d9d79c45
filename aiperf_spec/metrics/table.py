"""The one table of metrics: tables, CSV rows and JSON keys all read it.

Tags, headers and units are AIPerf's (0.13.0), so that its tools read our files.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from aiperf_spec.metrics import latency
from aiperf_spec.metrics.pooled import PooledAcceptance, accepted_per_verified
from aiperf_spec.metrics.pooled_totals import PooledTotals
from aiperf_spec.models.acceptance import SpecDecodeAcceptanceRecord
from aiperf_spec.models.run import OutputTiming, RequestRecord, ServerTiming


class Group(StrEnum):
    """The table on screen in which a metric stands; NONE: in files only."""

    LATENCY = "latency"
    RUN = "run"
    SERVER = "server"
    ACCEPTANCE = "acceptance"
    TOTALS = "totals"
    NONE = "none"


@dataclass(slots=True, frozen=True)
class _Metric:
    tag: str
    label: str
    """Its name on screen."""
    header: str = field(default="", kw_only=True)
    """Its name in files: the words of its tag behind "spec_decode", where the row does not give it."""

    def __post_init__(self) -> None:
        words = self.tag.removeprefix("spec_decode_").replace("_", " ").title()
        object.__setattr__(self, "header", self.header or words)


@dataclass(slots=True, frozen=True)
class RecordMetric(_Metric):
    """A metric of one request. `value` is None where the request has none; a list joins the run's values."""

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
    mean_itl_ms: float | None
    """Mean of the requests' inter-token latencies."""
    input_tokens: int | None
    output_tokens: int | None
    acceptance: PooledAcceptance
    draft_totals: PooledTotals
    zero_step_requests: int
    unsent: int | None = None
    """Requests that were due and never went out; None where that is not known."""
    good: int | None = None
    """Requests that met every objective; None where none is set."""
    outage_s: float | None = None
    """How long outages took; None where there was none."""
    duration_with_outage_s: float | None = None
    """The same duration, from the start of the first outage and to the end of the last, where it leaves them out."""

    @property
    def good_share(self) -> float | None:
        """good / (succeeded + failed); None without an objective, or without a request."""
        ended = self.succeeded + self.failed
        return self.good / ended if self.good is not None and ended else None

    def per_second(self, number: int | None) -> float | None:
        """Return a number of the run by its duration; None where either is not known."""
        return number / self.duration_s if number is not None and self.duration_s else None


@dataclass(slots=True, frozen=True)
class RunMetric(_Metric):
    """A metric of the whole run."""

    value: Callable[[Totals], float | None]
    unit: str
    group: Group = Group.RUN

    @property
    def is_timed(self) -> bool:
        """Whether it is made of the run's duration."""
        return self.unit.endswith("sec")


def _acceptance(
    tag: str, label: str, read: Callable[[SpecDecodeAcceptanceRecord], float | None], unit: str, header: str = ""
) -> RecordMetric:
    def value(record: RequestRecord) -> float | None:
        return None if record.acceptance is None else read(record.acceptance)

    return RecordMetric(tag, label, value, unit, Group.ACCEPTANCE, header=header)


def _server(
    tag: str, label: str, read: Callable[[ServerTiming], float | None], unit: str = "ms", header: str = ""
) -> RecordMetric:
    def value(record: RequestRecord) -> float | None:
        return None if record.server_timing is None else read(record.server_timing)

    return RecordMetric(tag, label, value, unit, Group.SERVER, optional=True, header=header)


def _output(tag: str, label: str, read: Callable[[OutputTiming], float | None], unit: str = "ms") -> RecordMetric:
    return _server(tag, label, lambda timing: None if timing.output is None else read(timing.output), unit)


def _pooled(
    tag: str, label: str, read: Callable[[PooledAcceptance], float | None], unit: str, header: str = ""
) -> RunMetric:
    def value(totals: Totals) -> float | None:
        return read(totals.acceptance) if totals.acceptance.requests else None

    return RunMetric(tag, label, value, unit, Group.ACCEPTANCE, header=header)


def _totals(
    tag: str, label: str, read: Callable[[PooledTotals], float | None], unit: str, group: Group = Group.TOTALS
) -> RunMetric:
    def value(totals: Totals) -> float | None:
        return read(totals.draft_totals) if totals.draft_totals.requests else None

    return RunMetric(tag, label, value, unit, group)


LOOP_LAG = "client_event_loop_lag"
"""The tag of how late the program's own event loop was, in ms: of the run, and no metric of its requests."""

RECORD_METRICS: tuple[RecordMetric, ...] = (
    RecordMetric("time_to_first_token", "TTFT", latency.time_to_first_token, header="Time to First Token"),
    RecordMetric("request_latency", "Request latency", latency.request_latency),
    RecordMetric("inter_token_latency", "ITL", latency.inter_token_latency),
    RecordMetric("inter_chunk_latency", "Inter-chunk gap", latency.inter_chunk_latency),
    RecordMetric("scheduled_latency", "Scheduled latency", latency.scheduled_latency, optional=True),
    RecordMetric("schedule_lag", "Schedule lag", latency.schedule_lag, optional=True),
    # The few requests that open a connection are no row of a table of all: a notice says where it matters.
    RecordMetric(
        "http_connect", "Connect", latency.http_connect, group=Group.NONE, optional=True, header="HTTP Connect"
    ),
    RecordMetric(
        "output_token_throughput_per_user",
        "Tokens/s per user",
        latency.output_token_throughput_per_user,
        "tokens/sec/user",
    ),
    RecordMetric("output_sequence_length", "Output tokens", lambda r: r.output_tokens, "tokens"),
    RecordMetric("input_sequence_length", "Input tokens", lambda r: r.input_tokens, "tokens"),
    RecordMetric(
        "usage_prompt_cache_read_tokens", "Input, from cache", lambda r: r.cached_tokens, "tokens", optional=True
    ),
    _acceptance("spec_decode_acceptance_length", "Length per request", lambda a: a.length, "ratio"),
    _acceptance("spec_decode_sent_acceptance_length", "Length, as sent", lambda a: a.other_length, "ratio"),
    _acceptance(
        "spec_decode_draft_acceptance_rate",
        "Rate per request",
        lambda a: None if a.rate is None else a.rate * 100,
        "%",
    ),
    _acceptance(
        "spec_decode_accepted_per_verified",
        "Accepted/verified",
        accepted_per_verified,
        "ratio",
        "Accepted per Verified",
    ),
    _acceptance("spec_decode_steps", "Verify steps", lambda a: a.num_spec_steps, "count", "Spec Decode Steps"),
    _acceptance(
        "spec_decode_accepted_draft_tokens", "Accepted drafts", lambda a: a.num_accepted_draft_tokens, "tokens"
    ),
    _acceptance("spec_decode_draft_tokens", "Proposed drafts", lambda a: a.proposed, "tokens"),
    _server("server_queue_time", "Queue", lambda t: t.queue_time_ms),
    _server(
        "server_time_to_first_token", "TTFT", lambda t: t.time_to_first_token_ms, header="Server Time to First Token"
    ),
    _server("server_generation_time", "First to last token", lambda t: t.generation_time_ms),
    _server("server_inter_token_latency", "ITL", lambda t: t.mean_itl_ms),
    _server("server_output_token_throughput_per_user", "Tokens/s", lambda t: t.tokens_per_second, "tokens/sec/user"),
    _output("server_reasoning_tokens", "Reasoning tokens", lambda o: o.reasoning_tokens, "tokens"),
    _output("server_time_to_first_reasoning_token", "TTFT of reasoning", lambda o: o.time_to_first_reasoning_ms),
    _output("server_reasoning_generation_time", "First to last of reasoning", lambda o: o.reasoning_time_ms),
    _output("server_reasoning_inter_token_latency", "ITL of reasoning", lambda o: o.reasoning_itl_ms),
    _output("server_content_tokens", "Content tokens", lambda o: o.content_tokens, "tokens"),
    _output("server_time_to_first_content_token", "TTFT of content", lambda o: o.time_to_first_content_ms),
    _output("server_content_generation_time", "First to last of content", lambda o: o.content_time_ms),
    _output("server_content_inter_token_latency", "ITL of content", lambda o: o.content_itl_ms),
    _output("server_unclassified_tokens", "Unclassified tokens", lambda o: o.unclassified_tokens, "tokens"),
)

RUN_METRICS: tuple[RunMetric, ...] = (
    RunMetric("request_count", "Requests", lambda t: t.succeeded, "requests"),
    RunMetric("error_request_count", "Failed requests", lambda t: t.failed, "requests"),
    RunMetric("unsent_request_count", "Never sent", lambda t: t.unsent, "requests"),
    RunMetric("benchmark_duration", "Duration", lambda t: t.duration_s, "sec"),
    RunMetric("outage_duration", "Outage", lambda t: t.outage_s, "sec"),
    RunMetric("duration_with_outage", "Duration with outage", lambda t: t.duration_with_outage_s, "sec", Group.NONE),
    RunMetric("request_throughput", "Requests/s", lambda t: t.per_second(t.succeeded), "requests/sec"),
    RunMetric("good_request_count", "Good requests", lambda t: t.good, "requests"),
    RunMetric(
        "good_request_fraction", "Good share of requests", lambda t: t.good_share, "ratio", header="GoodRequestFraction"
    ),
    RunMetric("goodput", "Goodput", lambda t: t.per_second(t.good), "requests/sec"),
    RunMetric("output_token_throughput", "Output tokens/s", lambda t: t.per_second(t.output_tokens), "tokens/sec"),
    # The mean of each request's own throughput is drawn up by the few that came fastest; this one is not.
    RunMetric(
        "output_token_throughput_per_user_at_mean_itl",
        "Tokens/s at mean ITL",
        lambda t: 1000 / t.mean_itl_ms if t.mean_itl_ms else None,
        "tokens/sec/user",
        Group.LATENCY,
        header="Output Token Throughput Per User at Mean ITL",
    ),
    RunMetric(
        "total_osl",
        "Output tokens",
        lambda t: t.output_tokens,
        "tokens",
        Group.NONE,
        header="Total Output Sequence Length",
    ),
    RunMetric(
        "total_isl",
        "Input tokens",
        lambda t: t.input_tokens,
        "tokens",
        Group.NONE,
        header="Total Input Sequence Length",
    ),
    _pooled(
        "spec_decode_token_weighted_acceptance_length",
        "Acceptance length",
        lambda p: p.length,
        "ratio",
        "Token-Weighted Acceptance Length",
    ),
    _pooled("spec_decode_overall_draft_acceptance_rate", "Draft accept. rate", lambda p: p.rate_percent, "%"),
    _pooled("tokens_per_decode_step", "Tokens per decode step", lambda p: p.tokens_per_decode_step, "ratio"),
    _pooled("drafted_share", "Drafted share of steps", lambda p: p.drafted_share, "ratio"),
    RunMetric(
        "spec_decode_zero_step_requests",
        "Zero-step requests",
        lambda t: t.zero_step_requests or None,
        "requests",
        Group.NONE,
        header="Zero-Step Requests",
    ),
    _pooled("total_spec_decode_steps", "Verify steps, total", lambda p: p.steps, "count"),
    _pooled("total_accepted_draft_tokens", "Accepted, total", lambda p: p.accepted, "tokens"),
    _pooled("total_draft_tokens", "Proposed, total", lambda p: p.proposed, "tokens"),
    # Of requests without verify steps, and of these alone.
    _totals("draft_totals_draft_acceptance_rate", "Draft acceptance rate", lambda t: t.rate_percent, "%"),
    _totals("draft_totals_least_acceptance_length", "Acceptance length, at least", lambda t: t.least_length, "ratio"),
    _totals("draft_totals_greatest_acceptance_length", "at most", lambda t: t.greatest_length, "ratio"),
    _totals("draft_totals_accepted_draft_tokens", "Accepted drafts", lambda t: t.accepted, "tokens"),
    _totals("draft_totals_draft_tokens", "Proposed drafts", lambda t: t.proposed, "tokens"),
    _totals("draft_totals_requests", "Requests with totals", lambda t: t.requests, "requests", Group.NONE),
    RunMetric(
        "draft_totals_left_out_requests",
        "Left out",
        lambda t: t.draft_totals.left_out or None,
        "requests",
        Group.NONE,
    ),
)

RECORD_BY_TAG = {metric.tag: metric for metric in RECORD_METRICS}
RUN_BY_TAG = {metric.tag: metric for metric in RUN_METRICS}
