"""Add up the acceptance of a run's records by category, in constant memory."""

import os
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path

from aiperf_spec.analysis.clusters import measured, prompt_of
from aiperf_spec.artifacts import names
from aiperf_spec.artifacts.read.files import UNREADABLE, existing, unreadable
from aiperf_spec.artifacts.read.record_lines import RecordTotals, ignore_interrupt, read_part
from aiperf_spec.artifacts.read.records import LoadedRecords
from aiperf_spec.metrics.pooled import pool
from aiperf_spec.models.prompt_sums import PromptSums

_SHARE = 128 << 20
"""Bytes for which another process is worth its start."""
_MAX_PROCESSES = 8


def read_totals(folder: Path) -> RecordTotals:
    """Return the totals of a folder's records, in constant memory.

    Raises `SpecProfileError` naming a file that cannot be read.
    """
    path = existing(folder, names.RECORDS_JSONL) or folder / names.RECORDS_JSONL
    try:
        return _in_processes(path)
    except UNREADABLE as error:
        raise unreadable(path, error) from None


def _in_processes(path: Path) -> RecordTotals:
    size = path.stat().st_size
    processes = 1 if path.suffix == ".gz" else max(min(size // _SHARE, os.cpu_count() or 1, _MAX_PROCESSES), 1)
    if processes == 1:
        return read_part(path, 0, None)
    # One part is read here. A copy of this process needs no start of its own; of several threads it would be torn.
    edges = [size * i // processes for i in range(processes + 1)]
    copied = threading.active_count() == 1 and "fork" in get_all_start_methods()
    context = get_context("fork" if copied else "spawn")
    with ProcessPoolExecutor(processes - 1, mp_context=context, initializer=ignore_interrupt) as executor:
        others = executor.map(read_part, [path] * (processes - 1), edges[1:-1], edges[2:])
        totals = read_part(path, 0, edges[1])
        for part in others:
            totals.take(part)
    return totals


def add_up(loaded: LoadedRecords) -> RecordTotals:
    """Return the totals of records that are at hand; the same as `read_totals` returns of their file."""
    totals = RecordTotals(unreadable=len(loaded.unreadable))
    records = measured(loaded.records)
    totals.undrafted = pool(records).undrafted
    for record in records:
        totals.succeeded += 1
        if (found := record.acceptance) is not None:
            category = totals.categories.setdefault(record.category, PromptSums())
            counts = found.num_accepted_draft_tokens, found.num_spec_steps, found.proposed
            category.add(prompt_of(record), 1, *counts)
    return totals
