"""Records of requests, and the run that they make."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from aiperf_spec.models.acceptance import DropReason, SpecDecodeAcceptanceRecord
from aiperf_spec.models.response import Usage

if TYPE_CHECKING:
    from pathlib import Path


class Phase(StrEnum):
    """Tell warm-up requests, which are in no figure, from profiled ones."""

    WARMUP = "warmup"
    PROFILING = "profiling"


class ErrorKind(StrEnum):
    """Name how a request failed."""

    CONNECT = "connect"
    """No connection: refused, unreachable, unresolved, or TLS failed."""
    TIMEOUT = "timeout"
    DISCONNECTED = "disconnected"
    """The connection broke before or within the response."""
    HTTP_STATUS = "http_status"
    """The status was not 2xx."""
    SERVER_ERROR = "server_error"
    """An error object or event, with status 200 or within the stream."""
    ABORTED = "aborted"
    INCOMPLETE = "incomplete"
    EMPTY = "empty"
    """A response without a single token."""
    MALFORMED = "malformed_response"
    PROTOCOL = "protocol"
    """What came was not HTTP, could not be decoded, or was larger than allowed."""
    CANCELLED = "cancelled"
    """Ours: the run was stopped while the request was in flight."""


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
    request_id: str = ""
    ack_ns: int | None = None
    first_content_ns: int | None = None
    last_content_ns: int | None = None
    chunk_gaps_ns: array[int] | None = None
    streaming: bool = True
    input_tokens: int | None = None
    output_tokens: int | None = None
    usage: Usage | None = None
    acceptance: SpecDecodeAcceptanceRecord | None = None
    drop_reason: DropReason | None = None
    error: RequestError | None = None
    status: int | None = None
    retried: bool = False
    raw: RawExchange | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the request's figures count."""
        return self.error is None


class NoticeKind(StrEnum):
    """Name what a run has to say beside its figures; `render` words it."""

    NO_ACCEPTANCE = "no_acceptance"
    UNPINNED_SAMPLING = "unpinned_sampling"
    RETRIED = "retried"
    ADAPTER = "adapter"
    TOKENS_FROM_USAGE = "tokens_from_usage"
    NO_TOKEN_COUNTS = "no_token_counts"
    ZERO_USAGE = "zero_usage"
    MAX_TOKENS_REFUSED = "max_tokens_refused"
    PROXY = "proxy"
    INSECURE = "insecure"


@dataclass(slots=True, frozen=True)
class Notice:
    """A notice and the values that its wording needs."""

    kind: NoticeKind
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class RunResult:
    """A run: what was asked, every record in the order in which requests ended, and what is to be said of it.

    `wall_offset_ns` turns a monotonic stamp of a record into the wall clock's. `stopped_by` names the signal that
    ended the run early ("SIGINT", "SIGTERM"), or is None.
    """

    config: Any
    url: str
    model: str
    owned_by: str | None
    dataset: DatasetInfo
    wall_offset_ns: int
    records: list[RequestRecord] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    stopped_by: str | None = None
    artifact_dir: Path | None = None
    run_id: str = ""

    def profiled(self) -> list[RequestRecord]:
        """Return the records that are no warm-up, by index."""
        return sorted((r for r in self.records if r.phase is Phase.PROFILING), key=lambda r: r.index)


@dataclass(slots=True, frozen=True)
class DatasetInfo:
    """Say which prompts a run used: `path` is None for the built-in set, `entries` their number."""

    name: str
    path: str | None
    entries: int
    has_categories: bool
