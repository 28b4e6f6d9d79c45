"""What scatters as one: a request, or all turns of a conversation; and what each adds to a ratio."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from aiperf_spec.models.run import Phase, RequestRecord

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

Terms = tuple[float, float]
"""Numerator and denominator that one request, or cluster, adds to a ratio."""
Read = Callable[[RequestRecord], Terms | None]


class Turn(Protocol):
    """What says to which conversation a request belongs."""

    index: int
    """Its number in the run."""
    prompt_id: str
    """Its conversation's name."""
    turn_index: int
    """Its place in the conversation, from 0."""


def measured(records: Iterable[RequestRecord]) -> list[RequestRecord]:
    """Return the successful profiled records by index: the only ones that figures are made of."""
    good = (record for record in records if record.phase is Phase.PROFILING and record.succeeded)
    return sorted(good, key=lambda record: record.index)


def has_turns(records: Iterable[Turn]) -> bool:
    """Say whether the run holds conversations of more than one turn."""
    return any(record.turn_index > 0 for record in records)


def cluster_keys(records: Sequence[Turn]) -> list[Hashable]:
    """Return each record's cluster: itself, or its conversation where there are turns.

    Turns of a conversation have consecutive indexes, so their conversation is where they start; AIPerf's files give all
    turns one index. Counting passes by prompt id and turn instead would go wrong after a turn that failed.
    """
    if not has_turns(records):
        return [record.index for record in records]
    shared = len({record.index for record in records}) < len(records)
    return [(record.prompt_id, record.index if shared else record.index - record.turn_index) for record in records]


def length_terms(record: RequestRecord) -> Terms | None:
    """Return (accepted, steps); None without acceptance or a verify step."""
    report = record.acceptance
    return (report.num_accepted_draft_tokens, report.num_spec_steps) if report and report.num_spec_steps else None


def rate_terms(record: RequestRecord) -> Terms | None:
    """Return (accepted, proposed); None without acceptance or a proposal."""
    report = record.acceptance
    return (report.num_accepted_draft_tokens, report.num_draft_tokens) if report and report.num_draft_tokens else None


def clustered(records: Sequence[RequestRecord], read: Read) -> Iterator[Terms]:
    """Yield each cluster's (a, b), its requests' added up; requests without terms, and clusters of them, left out."""
    keys = cluster_keys(records) if has_turns(records) else None
    return added_up(keys, map(read, records))


def added_up(keys: Sequence[Hashable] | None, terms: Iterable[Terms | None]) -> Iterator[Terms]:
    """Yield each cluster's (a, b) from those of its requests; without keys, every request is a cluster.

    One after the other: a run of a million requests should not need a million pairs at hand.
    """
    if keys is None:
        return (each for each in terms if each is not None)
    return iter(sums_by_key(keys, terms).values())


def sums_by_key(keys: Iterable[K], terms: Iterable[Terms | None]) -> dict[K, Terms]:
    """Return the sums of the (a, b) of each key, in the order in which keys with any first come."""
    sums: dict[K, Terms] = {}
    for key, each in zip(keys, terms, strict=True):
        if each is not None:
            a, b = sums.get(key, (0, 0))
            sums[key] = (a + each[0], b + each[1])
    return sums


def grouped(records: Sequence[RequestRecord], key: Callable[[RequestRecord], T | None]) -> dict[T, list[RequestRecord]]:
    """Return the records of each group; those whose key is None are in none."""
    groups: dict[T, list[RequestRecord]] = defaultdict(list)
    for record in records:
        if (name := key(record)) is not None:
            groups[name].append(record)
    return dict(groups)
