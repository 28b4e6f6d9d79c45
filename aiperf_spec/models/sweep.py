"""The cells of a sweep: which draft length, at which load, and what came of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from aiperf_spec.models.drafter import ServerDrafter
from aiperf_spec.models.run import RequestRecord
from aiperf_spec.models.server_metrics import ServerMetrics


class LoadKind(StrEnum):
    """Tell what a level of load sets: requests in flight, or requests a second."""

    CONCURRENCY = "concurrency"
    REQUEST_RATE = "request_rate"


@dataclass(slots=True, frozen=True, order=True)
class Load:
    """One level of load."""

    kind: LoadKind
    value: float

    @property
    def name(self) -> str:
        """Short form for names of folders and tables: "c8", "r2.5"."""
        return f"{self.kind.value[0]}{self.value:g}"


@dataclass(slots=True, frozen=True)
class Cell:
    """One run of a sweep. `k` is the draft length that was asked for: 0 without speculation, None where none was."""

    k: int | None
    load: Load
    repeat: int = 1

    @property
    def name(self) -> str:
        """Name of its folder: "k4-c8-1"."""
        start = "" if self.k is None else f"k{self.k}-"
        return f"{start}{self.load.name}-{self.repeat}"


@dataclass(slots=True, frozen=True, kw_only=True)
class CellRun:
    """A cell that was run, read back from its folder.

    `records` are the profiled ones. `reason` says why the cell has none, where its server or its run failed.
    """

    cell: Cell
    folder: Path | None = None
    engine: str | None = None
    """Adapter's name of the engine; None where nothing said it."""
    reported_k: int | None = None
    """Draft length that the engine reported; None where it did not."""
    records: Sequence[RequestRecord] = ()
    server_metrics: ServerMetrics | None = None
    drafter: ServerDrafter | None = None
    """How the server says that it drafts; None where it does not."""
    reason: str | None = None


@dataclass(slots=True, frozen=True)
class CellEnd:
    """How a cell ended: what it took, and why its folder is not whole, where it is not."""

    seconds: float
    reason: str | None = None
