"""Whether acceptance gets better or worse within a response; from figures of single steps only."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from aiperf_spec.analysis.clusters import Terms, clustered
from aiperf_spec.analysis.intervals import Estimate, as_length, estimate, linearised, missing, ratio, scatter
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.models.run import RequestRecord

PARTS = 10
MIN_STEPS = 10
"""Steps that a response needs to be cut into tenths or correlated with itself."""
_FIRST_BUCKET = 64


@dataclass(slots=True, frozen=True)
class Bucket:
    """Acceptance length where the output had from `start` to `end` (excluded) tokens; `end` None: no end."""

    start: int
    end: int | None
    length: Estimate


@dataclass(slots=True, frozen=True)
class Drift:
    """How acceptance goes on within responses, or the reason why it cannot be said.

    `tenths` are acceptance lengths by tenth of a response's steps; `change` is the length of the second half less that
    of the first, paired within responses. Both are of responses with at least 10 steps (`responses`). `buckets` go by
    tokens put out before the step. `autocorrelation` is of a step's accepted count and the next one's, about each
    response's own mean, pooled: sum((x_t - m)(x_t+1 - m)) / sum((x_t - m)^2). `longest_rejection` counts steps in a
    row that accepted nothing; `longest_in` is the index of the request that had them.
    """

    responses: int = 0
    tenths: tuple[Estimate, ...] = ()
    change: Estimate | None = None
    buckets: tuple[Bucket, ...] = ()
    autocorrelation: Estimate | None = None
    longest_rejection: int | None = None
    longest_in: int | None = None
    reason: Missing | None = None


def drift(records: Sequence[RequestRecord]) -> Drift:
    """Return the drift of the records that have figures of single steps."""
    if not any(_steps(record) for record in records):
        return Drift(reason=Missing.NO_PER_STEP)
    long = [record for record in records if len(_steps(record)) >= MIN_STEPS]
    runs = [(longest_rejection(_steps(record)), -record.index) for record in records if _steps(record)]
    longest, negative_index = max(runs)
    return Drift(
        responses=len(long),
        tenths=tuple(_tenth(long, part) for part in range(PARTS)) if long else (),
        change=_change(long),
        buckets=_buckets(records),
        autocorrelation=_autocorrelation(long),
        longest_rejection=longest,
        longest_in=-negative_index if longest else None,
    )


def _steps(record: RequestRecord) -> tuple[int, ...]:
    report = record.acceptance
    return () if report is None or report.per_step_accepted is None else report.per_step_accepted


def longest_rejection(accepted: Sequence[int]) -> int:
    """Return the most steps in a row that accepted nothing."""
    longest = current = 0
    for count in accepted:
        current = 0 if count else current + 1
        longest = max(longest, current)
    return longest


def _tenth(records: Sequence[RequestRecord], part: int) -> Estimate:
    def read(record: RequestRecord) -> Terms:
        steps = _steps(record)
        chosen = steps[len(steps) * part // PARTS : len(steps) * (part + 1) // PARTS]
        return sum(chosen), len(chosen)

    return as_length(ratio(clustered(records, read)))


def _change(records: Sequence[RequestRecord]) -> Estimate:
    if not records:
        return missing(Missing.TOO_FEW)

    def half(second: bool) -> tuple[float, array[float]]:
        def read(record: RequestRecord) -> Terms:
            steps = _steps(record)
            middle = len(steps) // 2
            chosen = steps[middle:] if second else steps[:middle]
            return sum(chosen), len(chosen)

        return linearised(clustered(records, read))

    (before, terms_before), (after, terms_after) = half(second=False), half(second=True)
    terms = [late - early for early, late in zip(terms_before, terms_after, strict=True)]
    return estimate(after - before, scatter(terms), len(terms))


def _buckets(records: Sequence[RequestRecord]) -> tuple[Bucket, ...]:
    # Powers of two, so that a run of 100 tokens and one of 100,000 both make a table that can be read.
    starts = [0]
    while any(_emitted(record) > _next(starts[-1]) for record in records):
        starts.append(_next(starts[-1]))
    sums = [dict(_by_bucket(record, starts)) for record in records]
    index = {id(record): position for position, record in enumerate(records)}

    def bucket(start: int) -> Estimate:
        return as_length(ratio(clustered(records, lambda record: sums[index[id(record)]].get(start))))

    ends: list[int | None] = [*starts[1:], None]
    return tuple(Bucket(start, end, bucket(start)) for start, end in zip(starts, ends, strict=True))


def _next(start: int) -> int:
    return start * 2 or _FIRST_BUCKET


def _emitted(record: RequestRecord) -> int:
    steps = _steps(record)
    return sum(steps) + len(steps)


def _by_bucket(record: RequestRecord, starts: Sequence[int]) -> Iterator[tuple[int, Terms]]:
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    position, bucket = 1, 0  # the prefill's token stands before the first step
    for accepted in _steps(record):
        while bucket + 1 < len(starts) and position >= starts[bucket + 1]:
            bucket += 1
        sums[starts[bucket]][0] += accepted
        sums[starts[bucket]][1] += 1
        position += accepted + 1
    for start, (accepted, steps) in sums.items():
        yield start, (accepted, steps)


def _autocorrelation(records: Sequence[RequestRecord]) -> Estimate:
    def read(record: RequestRecord) -> Terms:
        steps = _steps(record)
        mean = sum(steps) / len(steps)
        apart = [count - mean for count in steps]
        return sum(a * b for a, b in pairwise(apart)), sum(a * a for a in apart)

    return ratio(clustered(records, read)).within(-1, 1)
