"""Record what the simulator drew for each request, so that a measurement can be held against it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from .config import Outcome
from .drafter import Draw


@dataclass(slots=True)
class LedgerEntry:
    """Hold one request attempt, in order of arrival.

    The acceptance figures are totals over the sequences, `per_step_accepted` and `per_step_drafted` in
    the order of the choices and `steps_per_choice` says where one ends; `undrafted` steps are in neither.
    `outcome` is what the response was meant to be, `stats_sent` whether a statistics object really left,
    `finished` whether the whole response did; `in_flight` counts the requests in progress at arrival,
    this one included; `samples` is how many choices each prompt was to have.
    """

    sequence: int
    endpoint: str
    in_flight: int
    request_id: str | None = None
    stream: bool = False
    category: str | None = None
    fault: str | None = None
    outcome: Outcome = "ok"
    status: int = 200
    stats_sent: bool = False
    finished: bool = False
    steps: int = 0
    proposed: int = 0
    accepted: int = 0
    histogram: dict[int, int] = field(default_factory=dict)
    per_step_accepted: list[int] = field(default_factory=list)
    per_step_drafted: list[int] = field(default_factory=list)
    steps_per_choice: list[int] = field(default_factory=list)
    undrafted: int = 0
    samples: int = 1
    completion_tokens: int = 0
    prompt_tokens: int = 0
    changed_at: int | None = None
    """Characters of the first choice's text that are those of the right answer, where it has others behind them."""
    near_tie: bool = False
    """Whether the two tokens at that place are nearly as likely."""

    def record(self, draws: Sequence[Draw]) -> None:
        """Add up what was drawn for the sequences of this request."""
        for draw in draws:
            self.per_step_accepted += draw.accepted
            self.per_step_drafted += draw.drafted
            self.steps_per_choice.append(draw.steps)
            self.undrafted += len(draw.undrafted)
            self.completion_tokens += draw.completion_tokens
        self.histogram = dict(sorted(Counter(self.per_step_accepted).items()))
        self.steps = len(self.per_step_accepted)
        self.accepted = sum(self.per_step_accepted)
        self.proposed = sum(self.per_step_drafted)


class Ledger:
    """Keep the entries of a server and how many requests it had in flight."""

    def __init__(self) -> None:
        self.entries: list[LedgerEntry] = []
        self.in_flight = 0
        self.peak_in_flight = 0

    def open(self, endpoint: str, request_id: str | None) -> LedgerEntry:
        """Begin the entry of a request that has arrived."""
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        entry = LedgerEntry(len(self.entries), endpoint, self.in_flight, request_id)
        self.entries.append(entry)
        return entry

    def close(self) -> None:
        """Count a request as no longer in flight."""
        self.in_flight -= 1

    def reset(self) -> None:
        """Forget every entry and number arrivals from zero again, so that faults repeat as well."""
        self.entries = []
        self.peak_in_flight = self.in_flight
