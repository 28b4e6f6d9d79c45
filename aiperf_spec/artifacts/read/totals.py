"""Add up the acceptance of a run's records by category, in constant memory."""

import os
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from operator import add
from pathlib import Path

from aiperf_spec.analysis.category_totals import CategoryTotals
from aiperf_spec.analysis.clusters import cluster_keys, has_turns, measured
from aiperf_spec.artifacts import names
from aiperf_spec.artifacts.read.files import existing, unreadable
from aiperf_spec.artifacts.read.record_lines import Sums, Terms, ignore_interrupt, read_part
from aiperf_spec.artifacts.read.records import LoadedRecords, RecordStream
from aiperf_spec.models.run import Phase, RequestRecord

_SHARE = 128 << 20
"""Bytes for which another process is worth its start."""
_MAX_PROCESSES = 8


@dataclass(slots=True)
class RecordTotals:
    """What a run's records add up to: successful profiled requests with an acceptance record, by category.

    None is the category of records that have none. `succeeded` counts all that succeeded, `unreadable` the lines that
    are no record; `has_turns` says that conversations of several turns are among them.
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


def read_totals(folder: Path, *, clustered: bool = False) -> RecordTotals:
    """Return the totals of a folder's records, in constant memory; raises `SpecProfileError` naming an unreadable file.

    `clustered` makes intervals right for conversations, at the price of memory for each of their turns.
    """
    path = existing(folder, names.RECORDS_JSONL) or folder / names.RECORDS_JSONL
    try:
        totals = _in_processes(path)
        if clustered and totals.has_turns:
            totals.categories = _by_conversation(list(_turns(RecordStream(folder))))
    except (OSError, EOFError) as error:
        raise unreadable(path, error) from None
    return totals


def _in_processes(path: Path) -> RecordTotals:
    size = path.stat().st_size
    processes = 1 if path.suffix == ".gz" else max(min(size // _SHARE, os.cpu_count() or 1, _MAX_PROCESSES), 1)
    totals = RecordTotals()
    if processes == 1:
        totals.take(read_part(path, 0, None))
        return totals
    # One part is read here, and is larger by what can be read while the other processes start.
    head_start = _SHARE // 2
    edges = [0, *(head_start + (size - head_start) * i // processes for i in range(1, processes)), size]
    spawn = get_context("spawn")
    with ProcessPoolExecutor(processes - 1, mp_context=spawn, initializer=ignore_interrupt) as executor:
        others = executor.map(read_part, [path] * (processes - 1), edges[1:-1], edges[2:])
        totals.take(read_part(path, 0, edges[1]))
        for part in others:
            totals.take(part)
    return totals


def add_up(loaded: LoadedRecords, *, clustered: bool = False) -> RecordTotals:
    """Return the totals of records that are at hand; the same as `read_totals` returns of their file."""
    totals = RecordTotals(unreadable=len(loaded.unreadable))
    records = measured(loaded.records)
    totals.succeeded, totals.has_turns = len(records), has_turns(records)
    turns = list(_turns(records))
    for turn in turns:
        totals.categories.setdefault(turn.category, CategoryTotals()).add(*turn.terms)
    if clustered and totals.has_turns:
        totals.categories = _by_conversation(turns)
    return totals


@dataclass(slots=True)
class _Turn:
    index: int
    turn_index: int
    prompt_id: str
    category: str | None
    terms: Terms


def _turns(records: Iterable[RequestRecord]) -> Iterator[_Turn]:
    # Little of each, for there may be millions.
    for record in records:
        if record.phase is Phase.PROFILING and record.succeeded and (found := record.acceptance) is not None:
            terms = found.num_accepted_draft_tokens, found.num_spec_steps, found.num_draft_tokens
            yield _Turn(record.index, record.turn_index, record.prompt_id, record.category, terms)


def _by_conversation(turns: Sequence[_Turn]) -> dict[str | None, CategoryTotals]:
    # The squares that intervals need are those of whole conversations.
    requests = Counter(turn.category for turn in turns)
    clusters: dict[tuple[str | None, Hashable], list[int]] = {}
    for key, turn in zip(cluster_keys(turns), turns, strict=True):
        sums = clusters.setdefault((turn.category, key), [0, 0, 0])
        sums[:] = map(add, sums, turn.terms)
    totals: dict[str | None, CategoryTotals] = {}
    for (category, _), sums in clusters.items():
        totals.setdefault(category, CategoryTotals()).add(*sums)
    for category, total in totals.items():
        total.clusters, total.requests = total.requests, requests[category]
    return totals
