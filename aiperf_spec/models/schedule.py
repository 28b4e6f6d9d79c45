"""Draft lengths by the size of the batch, and the engine's configuration that says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, frozen=True)
class BatchRange:
    """A draft length for batches of `first` to `last` requests, both included."""

    first: int
    last: int
    k: int


@dataclass(slots=True, frozen=True, kw_only=True)
class Schedule:
    """Ranges from 1 on, without a gap and each with another draft length than the one before.

    `last` of the last range is the largest batch that was measured. `engines` run side by side (data parallel);
    `method` and `branches` say how the server drafts, None where it does not say.
    """

    ranges: tuple[BatchRange, ...]
    engines: int = 1
    method: str | None = None
    branches: int | None = None

    @property
    def longest(self) -> int:
        """The largest draft length."""
        return max(each.k for each in self.ranges)


@dataclass(slots=True, frozen=True, kw_only=True)
class Configuration:
    """A schedule as an engine takes it: the file's name and content, how to use it, and what is to be known of it."""

    file_name: str
    content: Any
    """Keys and values of the file."""
    text: str
    """The file's text, which says the same."""
    use: str
    limits: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class NoConfiguration:
    """Say why an engine cannot take a schedule."""

    reason: str
