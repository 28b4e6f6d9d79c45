"""What each of several clients of one run is told: its share of the requests, and when to start."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Self, TypeVar

T = TypeVar("T")

MAX_CLIENTS = 10_000
_SHARE = re.compile(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", re.ASCII)
_SECONDS = re.compile(r"\d{9,10}(\.\d{1,9})?", re.ASCII)


@dataclass(slots=True, frozen=True, order=True)
class Share:
    """Client `index`, from 0, of `count`: of everything that they send together, it sends each count-th from its own.

    The default is the share of a run's only client.
    """

    index: int = 0
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read "I/N"; raise `ValueError` for anything else."""
        found = _SHARE.fullmatch(text)
        if found is None:
            raise ValueError(f"expected I/N, such as 0/3 for the first of three clients, got {text!r}")
        index, count = int(found[1]), int(found[2])
        if not 1 <= count <= MAX_CLIENTS:
            raise ValueError(f"there may be 1 to {MAX_CLIENTS:,} clients, got {count:,}")
        if index >= count:
            last = f"0/{count}" if count == 1 else f"0/{count} to {count - 1}/{count}"
            raise ValueError(f"clients count from 0: {last}, got {text!r}")
        return cls(index, count)

    def __str__(self) -> str:
        """Return it as the option takes it."""
        return f"{self.index}/{self.count}"

    def of(self, items: Iterator[T]) -> Iterator[T]:
        """Yield the client's own items of what all clients have together."""
        return islice(items, self.index, None, self.count)

    def number_of(self, total: int) -> int:
        """Return how many of `total` items are the client's own."""
        return len(range(self.index, total, self.count))


def start_time(text: str) -> datetime:
    """Read a time in ISO 8601 with its zone, or in seconds since 1970, as UTC; raise `ValueError` for anything else."""
    expected = "expected a time such as 2026-12-01T12:00:00Z, or seconds since 1970"
    if _SECONDS.fullmatch(text.strip()):
        return datetime.fromtimestamp(float(text), UTC)
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{expected}, got {text!r}") from None
    if found.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone, and clients may be in several: add Z for UTC, or +01:00")
    return found.astimezone(UTC)


def start_time_ns(start: datetime) -> int:
    """Return a time in ns since 1970."""
    return math.floor(start.timestamp()) * 1_000_000_000 + start.microsecond * 1000
