"""Whether acceptance gets better or worse within a response; from figures of single steps only."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, zip_longest

from aiperf_spec.analysis.clusters import Read, Terms, clustered
from aiperf_spec.analysis.intervals import Estimate, as_length, estimate, linearised, missing, ratio, scatter
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.models.decoding import decoding, some_undrafted
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

    `tenths` are acceptance lengths by tenth of a response's verify steps; `change` is the length of the second half
    less that of the first, paired within responses. Both are of responses with at least 10 steps (`responses`).
    `buckets` go by tokens put out before the step; how many those are is not known where steps without a draft stand
    between the verify steps, and `buckets_reason` says so. `autocorrelation` is of a step's accepted count and the next
    one's, about each response's own mean, pooled: (sum((x_t - m)(x_t+1 - m)) + v) / sum((x_t - m)^2), where v is the
    mean of a response's (x_t - m)^2: without it, T steps that are independent give -1/T. `longest_rejection` counts
    verify steps in a row that accepted nothing; `longest_in` is the index of the request that had them.
    """

    responses: int = 0
    tenths: tuple[Estimate, ...] = ()
    change: Estimate | None = None
    buckets: tuple[Bucket, ...] = ()
    buckets_reason: Missing | None = None
    autocorrelation: Estimate | None = None
    longest_rejection: int | None = None
    longest_in: int | None = None
    reason: Missing | None = None


def drift(records: Sequence[RequestRecord]) -> Drift:
    """Return the drift of the records that have figures of single steps."""
    runs = [(longest_rejection(_steps(record)), -record.index) for record in records if _steps(record)]
    if not runs:
        return Drift(reason=Missing.NO_PER_STEP)
    longest, negative_index = max(runs)
    known = _positions_known(records)
    long = [record for record in records if len(_steps(record)) >= MIN_STEPS]
    tenths = [as_length(ratio(clustered(long, _part(tenth, PARTS)))) for tenth in range(PARTS)] if long else []
    return Drift(
        responses=len(long),
        tenths=tuple(tenths),
        change=_change(long),
        buckets=_buckets(records) if known else (),
        buckets_reason=None if known else Missing.POSITIONS_UNKNOWN,
        autocorrelation=_autocorrelation(long),
        longest_rejection=longest,
        longest_in=-negative_index if longest else None,
    )


def _steps(record: RequestRecord) -> tuple[int, ...]:
    report = record.acceptance
    return () if report is None or report.per_step_accepted is None else report.per_step_accepted


def longest_rejection(accepted: Sequence[int]) -> int:
    """Return the most steps in a row that accepted nothing."""
    return max((len(list(run)) for some, run in groupby(accepted, bool) if not some), default=0)


def _part(part: int, parts: int) -> Read:
    def read(record: RequestRecord) -> Terms:
        steps = _steps(record)
        chosen = steps[len(steps) * part // parts : len(steps) * (part + 1) // parts]
        return sum(chosen), len(chosen)

    return read


def _change(records: Sequence[RequestRecord]) -> Estimate:
    if not records:
        return missing(Missing.TOO_FEW)
    before, after = (linearised(clustered(records, _part(half, 2))) for half in (0, 1))
    terms = [late - early for early, late in zip(before.terms, after.terms, strict=True)]
    return estimate(after.value - before.value, scatter(terms), after.n, min(before.df, after.df), size=1 + after.value)


def _positions_known(records: Sequence[RequestRecord]) -> bool:
    found = [decoding(record) for record in records if _steps(record)]
    known = [each for each in found if each is not None]
    verified, steps = sum(each.verify_steps for each in known), sum(each.steps for each in known)
    return len(known) == len(found) and not (steps and some_undrafted(verified / steps))


def _buckets(records: Sequence[RequestRecord]) -> tuple[Bucket, ...]:
    # Powers of two, so that a run of 100 tokens and one of 100,000 both make a table that can be read.
    most = max(sum(_steps(record)) + len(_steps(record)) for record in records)
    starts, following = [0], _FIRST_BUCKET
    while most > following:
        starts.append(following)
        following *= 2
    sums = {id(record): _by_start(record, starts) for record in records}

    def bucket(start: int) -> Estimate:
        return as_length(ratio(clustered(records, lambda record: sums[id(record)].get(start))))

    return tuple(Bucket(start, end, bucket(start)) for start, end in zip_longest(starts, starts[1:]))


def _by_start(record: RequestRecord, starts: Sequence[int]) -> dict[int, Terms]:
    sums: dict[int, Terms] = {}
    position = 1  # the prefill's token stands before the first step
    for accepted in _steps(record):
        start = starts[bisect_right(starts, position) - 1]
        total, steps = sums.get(start, (0, 0))
        sums[start] = (total + accepted, steps + 1)
        position += accepted + 1
    return sums


def _autocorrelation(records: Sequence[RequestRecord]) -> Estimate:
    def read(record: RequestRecord) -> Terms:
        steps = _steps(record)
        mean = sum(steps) / len(steps)
        apart = [count - mean for count in steps]
        squares = sum(a * a for a in apart)
        return sum(a * b for a, b in pairwise(apart)) + squares / len(steps), squares

    return ratio(clustered(records, read)).within(-1, 1)
