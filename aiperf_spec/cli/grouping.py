"""Which runs are shown as one, and which from their summary alone."""

from __future__ import annotations

from collections.abc import Sequence

from aiperf_spec.export import names
from aiperf_spec.export.folders import RunFolder, existing

READABLE_BYTES = 256 << 20
"""Bytes of records up to which a run is shown from them; beyond, from its summary, in constant memory."""


def by_model(runs: Sequence[RunFolder]) -> list[list[RunFolder]]:
    """Return the runs of each model, models in the order in which they first appear."""
    groups: dict[str, list[RunFolder]] = {}
    for run in runs:
        groups.setdefault(run.model, []).append(run)
    return list(groups.values())


def from_summary(group: Sequence[RunFolder]) -> bool:
    """Return whether a group is one run that has a summary, and no records or too many to be read."""
    if len(group) > 1 or not group[0].summary:
        return False
    path = existing(group[0].path, names.RECORDS_JSONL)
    return path is None or path.stat().st_size > READABLE_BYTES
