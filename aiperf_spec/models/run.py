"""Records of requests, and the run that they make."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from aiperf_spec.errors import SpecProfileError
from aiperf_spec.models.acceptance import DropReason, SpecDecodeAcceptanceRecord
from aiperf_spec.models.draft_totals import DraftTotals
from aiperf_spec.models.response import Answer, Usage

if TYPE_CHECKING:
    from pathlib import Path

    from aiperf_spec.config.settings import ProfileConfig
    from aiperf_spec.models.clients import Clients, ClockOffset
    from aiperf_spec.models.drafter import ServerDrafter
    from aiperf_spec.models.server_metrics import Reconciliation, ServerMetrics


class Phase(StrEnum):
    """Tell warm-up requests, which are in no figure, from profiled ones."""

    WARMUP = "warmup"
    PROFILING = "profiling"


class ErrorKind(StrEnum):
    """Name how a request failed: as httpx names its exceptions, or what is wrong with the response that came."""

    CONNECT_ERROR = "ConnectError"
    """No connection: refused, unreachable, unresolved, or TLS failed."""
    CONNECT_TIMEOUT = "ConnectTimeout"
    PROXY_ERROR = "ProxyError"
    """The proxy made no connection to the server."""
    READ_ERROR = "ReadError"
    """The connection broke before or within the response."""
    READ_TIMEOUT = "ReadTimeout"
    """The response was not whole in time, or nothing came for too long."""
    WRITE_ERROR = "WriteError"
    WRITE_TIMEOUT = "WriteTimeout"
    """The server took too long to take the request."""
    REMOTE_PROTOCOL_ERROR = "RemoteProtocolError"
    """What came was not HTTP, or the server closed the connection before its response was whole."""
    DECODING_ERROR = "DecodingError"
    """The body was not in the encoding that its header names, or in one that was not asked for."""
    TRANSPORT_ERROR = "TransportError"
    """Any other of httpx's errors."""
    HTTP_STATUS = "http_status"
    """The status was not 2xx."""
    SERVER_ERROR = "server_error"
    """An error object or event, with status 200 or within the stream."""
    ABORTED = "aborted"
    INCOMPLETE = "incomplete"
    EMPTY = "empty"
    """A response without a single token."""
    MALFORMED = "malformed_response"
    """What came was no response of such a server, or larger than allowed."""
    CANCELLED = "cancelled"
    """Ours: the run was stopped while the request was in flight."""
    WORKER_LOST = "worker_lost"
    """Ours: the worker process that had sent the request ended, or was stuck."""

    @classmethod
    def _missing_(cls, value: object) -> ErrorKind | None:
        # The names in files that were written by version 0.1.
        former = {
            "connect": cls.CONNECT_ERROR,
            "timeout": cls.READ_TIMEOUT,
            "disconnected": cls.READ_ERROR,
            "protocol": cls.REMOTE_PROTOCOL_ERROR,
        }
        return former.get(value) if isinstance(value, str) else None

    @classmethod
    def read(cls, name: Any) -> ErrorKind:
        """Return the kind that a file names; `server_error` for a name that is not known, which AIPerf has many of."""
        try:
            return cls(name)
        except ValueError:
            return cls.SERVER_ERROR


@dataclass(slots=True, frozen=True)
class RequestError:
    """Say how a request failed. `message` is server text where the server said something: data, never markup."""

    kind: ErrorKind
    message: str
    status: int | None = None
    cause_chain: tuple[str, ...] = ()


@dataclass(slots=True)
class RawExchange:
    """Everything that went over the wire for one request; kept at `--export-level raw` only."""

    payload: dict[str, Any]
    request_headers: dict[str, str]
    is_stream: bool
    events: list[tuple[int, list[tuple[str, str]]]]
    """(arrival_ns, [(field name, text), ...]) of each event; a body is one event with a field "data"."""


@dataclass(slots=True, frozen=True)
class OutputTiming:
    """What the engine itself measured of reasoning and of the answer's content apart; None where it does not say.

    Tokens that are neither, such as the marks between the two, are unclassified.
    """

    reasoning_tokens: int | None = None
    content_tokens: int | None = None
    unclassified_tokens: int | None = None
    time_to_first_reasoning_ms: float | None = None
    """Scheduled to the first token of reasoning; that of content counts from the same moment."""
    time_to_first_content_ms: float | None = None
    reasoning_time_ms: float | None = None
    """First to last token of reasoning, and what came in between."""
    content_time_ms: float | None = None
    reasoning_itl_ms: float | None = None
    """Time / (tokens - 1)."""
    content_itl_ms: float | None = None


@dataclass(slots=True, frozen=True)
class ServerTiming:
    """What the engine itself measured of one request, by its own clock; None where it does not say."""

    time_to_first_token_ms: float | None = None
    """Scheduled to first token: time in the queue is apart."""
    queue_time_ms: float | None = None
    generation_time_ms: float | None = None
    """First to last token."""
    mean_itl_ms: float | None = None
    """Generation time / (tokens - 1)."""
    tokens_per_second: float | None = None
    """Tokens / (scheduled to last token)."""
    output: OutputTiming | None = None


@dataclass(slots=True, frozen=True)
class BothCounts:
    """Token counts of one request by `--tokenizer` and by the server, which may have sent none."""

    tokenizer: Usage
    server: Usage | None


@dataclass(slots=True)
class RequestRecord:
    """One finished request. Times are of the monotonic clock, in ns; None where the moment never came.

    `chunk_gaps_ns` holds the gaps between consecutive content responses, None where the response was no stream.
    """

    index: int
    phase: Phase
    prompt_id: str
    category: str | None
    start_ns: int
    end_ns: int
    turn_index: int = 0
    prompt_hash: str = ""
    """What `Prompt.content_hash` was; "" where the file that it was read from does not say."""
    id_start: str = ""
    """What `request_id` is without its last 12 digits; "" where the record was read from a file."""
    scheduled_ns: int | None = None
    """When an open loop's schedule had it due."""
    connect_ns: int | None = None
    """What opening a connection took (DNS, TCP, TLS); None where one was kept alive, the transport does not say, or the
    request failed."""
    ack_ns: int | None = None
    first_content_ns: int | None = None
    last_content_ns: int | None = None
    chunk_gaps_ns: array[int] | None = None
    streaming: bool = True
    input_tokens: int | None = None
    output_tokens: int | None = None
    both_counts: BothCounts | None = None
    """Both counts where `--tokenizer` counted too; `input_tokens` and `output_tokens` are one of them."""
    acceptance: SpecDecodeAcceptanceRecord | None = None
    drop_reason: DropReason | None = None
    draft_totals: DraftTotals | None = None
    """What the engine counted in all, where it reported no steps; the reason is then `totals_only`."""
    server_timing: ServerTiming | None = None
    """None where the engine sent no measurements of its own."""
    error: RequestError | None = None
    status: int | None = None
    retried: bool = False
    unsent_turns: int = 0
    """Turns of its conversation that were given up because this one failed, or `--benchmark-duration` was over."""
    cached_tokens: int | None = None
    """Tokens of the prompt that the server had in its prefix cache, by usage; None where it does not say."""
    max_tokens: int | None = None
    """The tokens that its body let the answer have; None where it did not say."""
    finish_reason: str | None = None
    """Why the answer ended, in the server's word ("stop", "length"); None where it did not say."""
    prompts: int = 1
    """Prompts that its body held."""
    samples: int = 1
    """Answers that it asked for to each (n or best_of)."""
    silencing_fields: tuple[str, ...] = ()
    """Fields of its body for which an engine may report nothing; see `EngineDescription.silent_for`."""
    unread_fields: tuple[str, ...] = ()
    """Unknown fields in which most of its chunks without content carried text."""
    answer: Answer | None = None
    """What was answered, of a successful request with one answer; None where it was not looked at, and after it was
    written: a run cannot hold it for every request."""
    raw: RawExchange | None = None

    @property
    def request_id(self) -> str:
        """The x-request-id that was sent, a UUID; "" where that is not known."""
        # Put together when it is asked for: a run keeps a record a request, and an id would be 85 bytes of each.
        return request_id(self.id_start, self.index) if self.id_start else ""

    @property
    def usage(self) -> Usage | None:
        """The server's own counts; None where it sent none."""
        if self.both_counts is not None:
            return self.both_counts.server
        if self.input_tokens is None and self.output_tokens is None:
            return None
        return Usage(self.input_tokens, self.output_tokens, cached_tokens=self.cached_tokens)

    @property
    def succeeded(self) -> bool:
        """Whether the request's figures count."""
        return self.error is None


def request_id(id_start: str, index: int) -> str:
    """Return a request's id, of which `id_start` is all but the last 12 digits."""
    return f"{id_start}{index:012x}"


class NoticeKind(StrEnum):
    """Name what a run has to say beside its figures; `render` words it."""

    NO_ACCEPTANCE = "no_acceptance"
    SILENT = "silent"
    TOTALS_ONLY = "totals_only"
    OTHER_LENGTH = "other_length"
    PROPOSED_NOT_COUNTED = "proposed_not_counted"
    UNPINNED_SAMPLING = "unpinned_sampling"
    RETRIED = "retried"
    ADAPTER = "adapter"
    NO_TOKEN_COUNTS = "no_token_counts"
    UNREAD_FIELDS = "unread_fields"
    ZERO_USAGE = "zero_usage"
    MAX_TOKENS_REFUSED = "max_tokens_refused"
    STREAM_OPTIONS_REFUSED = "stream_options_refused"
    MAX_TOKENS_IGNORED = "max_tokens_ignored"
    UNSENT_TURNS = "unsent_turns"
    TURNS_OUT_OF_TIME = "turns_out_of_time"
    UNSENT_FIELDS = "unsent_fields"
    SKIPPED_LINES = "skipped_lines"
    REPEATED_IDS = "repeated_ids"
    TOKEN_DISCREPANCY = "token_discrepancy"
    PROXY = "proxy"
    SATURATED = "saturated"
    SCHEDULE_LAG = "schedule_lag"
    UNSENT = "unsent"
    HANDOVER = "handover"
    NO_COMMON_TIME = "no_common_time"
    SHARES_MISSING = "shares_missing"
    CLIENTS_DIFFER = "clients_differ"
    CONNECTING = "connecting"
    BASELINE_MISLEADS = "baseline_misleads"
    CACHED_REPEATS = "cached_repeats"
    ONE_READ = "one_read"
    CLUMPS = "clumps"
    TOKEN_CHUNKS = "token_chunks"
    INSECURE = "insecure"
    NO_SERVER_METRICS = "no_server_metrics"
    SERVER_METRICS_LOST = "server_metrics_lost"
    NO_COUNTERS = "no_counters"
    SERVER_METRICS_GAPS = "server_metrics_gaps"
    ONE_PROMPT = "one_prompt"
    LONG_ACCEPTED_BETTER = "long_accepted_better"
    FEW_TOKENS = "few_tokens"


ONE_TOKEN = "one token"
"""Why a request says nothing of its acceptance whose answer had one token: prefill gave it, and no step followed."""


@dataclass(slots=True, frozen=True)
class Notice:
    """A notice and the values that its wording needs."""

    kind: NoticeKind
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class DatasetInfo:
    """Say which prompts a run used: `path` is None for the built-in set, `entries` their number.

    `entries` and `turns` are None where a file was too large to be counted beforehand.
    """

    name: str
    path: str | None
    entries: int | None
    has_categories: bool
    type: str | None = None
    """The shape that the file was read as; None for the built-in set."""
    selector: str | None = None
    """What `--custom-dataset-type` says."""
    turns: int | None = None
    """Requests that the prompts make, each sent once."""
    file_hashes: tuple[str, ...] = ()
    """Of the content of each file."""
    skipped_lines: int = 0
    repeated_ids: int = 0
    unsent_fields: tuple[str, ...] = ()
    """Fields of rows that other tools read as settings, and that are not sent."""

    @property
    def has_conversations(self) -> bool:
        """Whether some prompt is known to have more than one turn."""
        return self.entries is not None and self.turns is not None and self.turns > self.entries


@dataclass(slots=True, frozen=True, kw_only=True)
class RunInfo:
    """What is known of a run before its first request.

    `wall_offset_ns` turns a monotonic stamp of a record into the wall clock's.
    """

    config: ProfileConfig
    url: str
    model: str
    owned_by: str | None
    dataset: DatasetInfo
    wall_offset_ns: int
    run_id: str = ""
    drafter: ServerDrafter | None = None
    """How the server says that it drafts; None where it does not."""
    server_version: str | None = None
    """The engine's version, by the server's own word."""
    clock: ClockOffset | None = None
    """How the server's clock stands to this machine's, of one of several clients; `wall_offset_ns` is corrected so."""


@dataclass(slots=True, frozen=True, kw_only=True)
class RunResult(RunInfo):
    """A run that has ended: every record in the order in which requests ended, and what is to be said of them.

    `stopped_by` names the signal that ended the run early ("SIGINT", "SIGTERM", "SIGHUP"), or is None.
    """

    records: Sequence[RequestRecord] = ()
    notices: Sequence[Notice] = ()
    unsent: int | None = None
    """Profiled requests that were due and never went out; None where that is not known."""
    loop_lags_ns: array[int] = field(default_factory=lambda: array("q"))
    """How late the program's own event loop was, beat by beat."""
    stopped_by: str | None = None
    failure: SpecProfileError | None = None
    """What ended the run before its last request, where that was neither a signal nor a server."""
    faults: Sequence[SpecProfileError] = ()
    """Why figures beside the records are missing, where some could not be made."""
    artifact_dir: Path | None = None
    """Where its records are on disk; None where they are not."""
    server_metrics: ServerMetrics | None = None
    """What the servers counted over the profiled interval."""
    clients: Clients | None = None
    """What it was put together from, where it is a pooled run of several clients."""
    reconciliation: Reconciliation | None = None
    """Their counters beside the requests' own figures; None where one side is missing."""

    def profiled(self) -> list[RequestRecord]:
        """Return the records that are no warm-up, by index."""
        return sorted((r for r in self.records if r.phase is Phase.PROFILING), key=lambda r: r.index)
