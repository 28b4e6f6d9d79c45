"""Add up the acceptance of a run's records by category, in constant memory."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import orjson

from aiperf_spec.analysis.category_totals import CategoryTotals
from aiperf_spec.artifacts import names
from aiperf_spec.artifacts.read.folders import existing, unreadable
from aiperf_spec.artifacts.read.scan import UNREADABLE, Sums, Terms, blocks, open_binary, read_part, terms

_SHARE = 128 << 20
"""Bytes for which another process is worth its start."""
_MAX_PROCESSES = 8


@dataclass(slots=True)
class RecordTotals:
    """What a run's records add up to: successful profiled requests with an acceptance record, by category.

    None is the category of records that have none. `succeeded` counts all that succeeded, `unreadable` the lines that
    are no record, or whose counts contradict each other; `has_turns` says that conversations of several turns are
    among them.
    """

    categories: dict[str | None, CategoryTotals] = field(default_factory=dict)
    succeeded: int = 0
    unreadable: int = 0
    has_turns: bool = False

    def take(self, part: Sums) -> None:
        """Add the records of a part of the file."""
        for category, row in part.rows.items():
            self.categories.setdefault(category, CategoryTotals()).merge(CategoryTotals(*row))
        self.succeeded += part.succeeded
        self.unreadable += part.unreadable
        self.has_turns |= part.has_turns

    def total(self) -> CategoryTotals:
        """Return all categories as one."""
        total = CategoryTotals()
        for pool in self.categories.values():
            total.merge(pool)
        return total


def read_totals(folder: Path, *, clustered: bool = False) -> RecordTotals:
    """Return the pools of a folder's records; raises `SpecProfileError` naming the file that cannot be read.

    `clustered` makes intervals right for conversations, at the price of memory for each of their turns.
    """
    path = existing(folder, names.RECORDS_JSONL) or folder / names.RECORDS_JSONL
    try:
        pools = _read(path)
        if clustered and pools.has_turns:
            _cluster(path, pools)
    except (OSError, EOFError) as error:
        raise unreadable(path, error) from None
    return pools


def _read(path: Path) -> RecordTotals:
    size = path.stat().st_size
    processes = 1 if path.suffix == ".gz" else max(min(size // _SHARE, os.cpu_count() or 1, _MAX_PROCESSES), 1)
    pools = RecordTotals()
    if processes == 1:
        pools.take(read_part(path, 0, None))
        return pools
    # One part is read here, while the other processes start.
    edges = [size * i // processes for i in range(processes + 1)]
    spawn = get_context("spawn")
    with ProcessPoolExecutor(processes - 1, mp_context=spawn, initializer=_ignore_interrupt) as executor:
        others = executor.map(read_part, [path] * (processes - 1), edges[1:-1], edges[2:])
        pools.take(read_part(path, 0, edges[1]))
        for part in others:
            pools.take(part)
    return pools


def _ignore_interrupt() -> None:
    # Ctrl-C reaches every process of a terminal; the first of them says what is to be said.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _cluster(path: Path, pools: RecordTotals) -> None:
    """Make conversations the clusters of the pools' squares, as `analysis.clusters` does."""
    rows: list[tuple[str | None, str, int, int, Terms]] = []
    with open_binary(path) as file:
        for block, first, last in blocks(file, 0, None):
            for line in block[first:last].split(b"\n"):
                try:
                    record = orjson.loads(line)
                    read = terms(record)
                except UNREADABLE:
                    continue
                if read is not None and read[2] is not None:
                    metadata = record["metadata"]
                    prompt = str(metadata.get("conversation_id"))
                    rows.append((read[0], prompt, metadata.get("session_num") or 0, read[1], read[2]))
    shared = len({row[2] for row in rows}) < len(rows)
    clusters: dict[tuple[str | None, str, int], list[int]] = {}
    for category, prompt, index, turn, figures in rows:
        sums = clusters.setdefault((category, prompt, index if shared else index - turn), [0, 0, 0])
        for i in range(3):
            sums[i] += figures[i]
    squares: dict[str | None, CategoryTotals] = {}
    for (category, _, _), (accepted, steps, proposed) in clusters.items():
        squares.setdefault(category, CategoryTotals()).add(accepted, steps, proposed)
    for category, square in squares.items():
        square.clusters, square.requests = square.requests, pools.categories[category].requests
    pools.categories = dict(squares)
