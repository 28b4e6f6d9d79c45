"""What a server counted during a run, and how it compares with what its responses reported."""

from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(slots=True)
class SeriesFigures:
    """One time series over the profiled interval.

    `stats` has AIPerf's keys: a counter's `total` (the growth) and `rate` (a second); a gauge's `avg`, `min`, `max`,
    `std` and percentiles, weighted by time; a histogram's `count`, `sum` and estimates, with `buckets` (upper bound ->
    cumulative growth). A figure is None where the counter was reset in between, or was no number.
    """

    endpoint_url: str
    labels: dict[str, str]
    stats: dict[str, float | None]
    buckets: dict[str, int] | None = None
    reset: bool = False
    """Whether the counter fell, so that its growth is unknown."""


@dataclass(slots=True)
class MetricFigures:
    """One metric of a server: `type` is counter, gauge or histogram."""

    type: str
    description: str
    unit: str | None
    series: list[SeriesFigures] = field(default_factory=list)

    def total(self) -> float | None:
        """Return a counter's growth over all series; None where one of them was reset."""
        totals = [series.stats.get("total") for series in self.series]
        known = [total for total in totals if total is not None]
        return sum(known) if len(known) == len(totals) else None


@dataclass(slots=True)
class EndpointScrapes:
    """How one metrics endpoint was read. Times are the wall clock's, in ns; the latency is a fetch's mean, in ms."""

    url: str
    """As shown and written: without credentials and query."""
    fetches: int
    failed_fetches: int
    first_ns: int
    last_ns: int
    latency_ms: float
    settled: bool
    """Whether its counters stood still when the first and the last figures were taken."""


@dataclass(slots=True)
class ServerMetrics:
    """All metrics of a run's servers over the profiled interval, which is in ns of the wall clock."""

    endpoints: list[EndpointScrapes]
    start_ns: int
    end_ns: int
    metrics: dict[str, MetricFigures]


class Agreement(StrEnum):
    """Say how the server's counters and the requests' own figures stand to each other."""

    EXACT = "exact"
    SERVER_MORE = "server_more"
    """The server counted more verify steps than the requests reported."""
    SERVER_FEWER = "server_fewer"
    MIXED = "mixed"
    """The steps agree, and other counts do not."""
    RESET = "reset"
    """A counter was reset during the run, so there is nothing to compare with."""
    NO_NUMBER = "no_number"
    """A counter was NaN, infinite or absurdly large, so there is nothing to compare with."""

    @property
    def known(self) -> bool:
        """Whether there was something to compare with."""
        return self not in (Agreement.RESET, Agreement.NO_NUMBER)


class CountName(StrEnum):
    """Name the counts of a reconciliation, as tables and files have them."""

    VERIFY_STEPS = "verify steps"
    PROPOSED = "proposed drafts"
    ACCEPTED = "accepted drafts"

    @staticmethod
    def at_position(position: int) -> str:
        """Return the name of the verify steps that accepted so many draft tokens or more."""
        return f"accepted at position {position}"


@dataclass(slots=True, frozen=True)
class ReconciledCount:
    """One count from both sides.

    `requests` is None where some of ours reported other counts and not this one; `server` where a counter was reset, or
    was no number.
    """

    name: str
    metric: str
    requests: int | None
    server: int | None

    @property
    def difference(self) -> int | None:
        """Return server - requests."""
        return None if self.server is None or self.requests is None else self.server - self.requests


@dataclass(slots=True, frozen=True)
class Reconciliation:
    """The sums of the requests' own figures beside the server's counters.

    `requests_reported` brought figures (a verified zero steps among them); `requests_silent` says how many of ours
    brought none, by reason: whatever the server verified for them is on its side alone. `server_requests` is how many
    requests the server says that it finished in the interval, None where it does not say. Of the `prompt_tokens` that
    it looked up in its prefix cache it found `cached_tokens`. Files hold it field by field.
    """

    agreement: Agreement
    requests_reported: int
    requests_silent: dict[str, int]
    server_requests: int | None
    settled: bool
    counts: tuple[ReconciledCount, ...]
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    accepted_bounds: tuple[int, int] | None = None
    """Between what the accepted draft tokens of all traffic lie, where they are not counted and follow from tokens; two
    equal ones where the counters leave no doubt."""
    requests_ours: int | None = None
    """How many requests the server counts for ours at the most; None in files of earlier versions."""
    engine: str | None = None
    """The adapter's name of the engine whose counters these are; None in files of earlier versions."""

    @property
    def others(self) -> int:
        """Return how many requests the server finished that cannot have been ours, at the least."""
        sent = self.requests_reported + sum(self.requests_silent.values())
        ours = sent if self.requests_ours is None else self.requests_ours
        return 0 if self.server_requests is None else max(self.server_requests - ours, 0)

    @property
    def cached_share(self) -> float | None:
        """Return the share of prompt tokens that the prefix cache held; None where the server does not say."""
        if self.cached_tokens is None or not self.prompt_tokens:
            return None
        return self.cached_tokens / self.prompt_tokens

    @property
    def steps(self) -> ReconciledCount:
        """Return the verify steps of both sides."""
        return self.counts[0]
