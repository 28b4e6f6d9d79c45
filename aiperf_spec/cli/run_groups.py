"""Which runs are shown as one, which from their summary alone, and what they had to say."""

from __future__ import annotations

from collections.abc import Sequence

from aiperf_spec.artifacts import names
from aiperf_spec.artifacts.read.files import existing
from aiperf_spec.artifacts.read.folders import RunFolder, dig
from aiperf_spec.models.run import Notice, NoticeKind
from aiperf_spec.render.notices import notice_text

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


def notices_of(group: Sequence[RunFolder]) -> list[Notice]:
    """Return the notices that the runs gave, from their summaries; one that no wording fits is left out."""
    notices = []
    for run in group:
        found = dig(run.summary, "spec_profile", "notices")
        for each in found if isinstance(found, list) else []:
            try:
                notice = Notice(NoticeKind(each["kind"]), {key: value for key, value in each.items() if key != "kind"})
                notice_text(notice)
            except (KeyError, TypeError, ValueError, AttributeError):
                continue
            notices.append(notice)
    return notices
