"""What scatters as one, a prompt with all its turns and repeats; and what each adds to a ratio."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from aiperf_spec.models.prompt_sums import prompt_key
from aiperf_spec.models.run import Phase, RequestRecord

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

Terms = tuple[float, float]
"""Numerator and denominator that one request, or cluster, adds to a ratio."""
Read = Callable[[RequestRecord], Terms | None]


def measured(records: Iterable[RequestRecord]) -> list[RequestRecord]:
    """Return the successful profiled records by index: the only ones that figures are made of."""
    good = (record for record in records if record.phase is Phase.PROFILING and record.succeeded)
    return sorted(good, key=lambda record: record.index)


def overlap(runs: Iterable[Sequence[RequestRecord]]) -> bool:
    """Say whether there is a time at which all runs that measured anything were under way."""
    good = [found for records in runs if (found := measured(records))]
    starts, ends = [min(r.start_ns for r in run) for run in good], [max(r.end_ns for r in run) for run in good]
    return not good or max(starts) < min(ends)


def prompt_of(record: RequestRecord) -> str:
    """Return what tells a record's prompt from others."""
    return prompt_key(record.prompt_hash, record.prompt_id, record.index)


def length_terms(record: RequestRecord) -> Terms | None:
    """Return (accepted, steps); None without acceptance or a verify step."""
    report = record.acceptance
    return (report.num_accepted_draft_tokens, report.num_spec_steps) if report and report.num_spec_steps else None


def rate_terms(record: RequestRecord) -> Terms | None:
    """Return (accepted, proposed); None without acceptance, a proposal, or a count of them."""
    report = record.acceptance
    return (report.num_accepted_draft_tokens, report.proposed) if report and report.proposed else None


def clustered(records: Sequence[RequestRecord], read: Read) -> Iterable[Terms]:
    """Return each prompt's (a, b), its requests' added up; requests without terms, and prompts of them, left out."""
    return added_up(map(prompt_of, records), map(read, records))


def added_up(keys: Iterable[Hashable], terms: Iterable[Terms | None]) -> Iterable[Terms]:
    """Return each cluster's (a, b) from those of its requests, clusters in the order in which they first appear."""
    return sums_by_key(keys, terms).values()


def sums_by_key(keys: Iterable[K], terms: Iterable[Terms | None]) -> dict[K, Terms]:
    """Return the sums of the (a, b) of each key, in the order in which keys with any first come."""
    sums: dict[K, Terms] = {}
    for key, each in zip(keys, terms, strict=True):
        if each is not None:
            before = sums.get(key)
            sums[key] = each if before is None else (before[0] + each[0], before[1] + each[1])
    return sums


def grouped(records: Sequence[RequestRecord], key: Callable[[RequestRecord], T | None]) -> dict[T, list[RequestRecord]]:
    """Return the records of each group; those whose key is None are in none."""
    groups: dict[T, list[RequestRecord]] = defaultdict(list)
    for record in records:
        if (name := key(record)) is not None:
            groups[name].append(record)
    return dict(groups)
