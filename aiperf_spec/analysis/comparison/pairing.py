"""Two runs over the same prompts: which requests belong together, and the difference of a figure between them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from aiperf_spec.analysis.clusters import Read, Terms, added_up, clustered, prompt_of, sums_by_key
from aiperf_spec.analysis.intervals import MIN_CLUSTERS, NOISE, Estimate, estimate, linearised, missing, scatter
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.statistics import t_two_sided_p
from aiperf_spec.models.prompt_sums import prompt_key
from aiperf_spec.models.run import RequestRecord

Key = tuple[str, int]
"""A prompt and its turn."""


@dataclass(slots=True, frozen=True)
class Pairing:
    """Which prompts (and turns) two runs share.

    `pairs` are told by the hash of what was sent where all records have it (`by_content`), else by id where both runs
    read the same prompts. `base_only` and
    `candidate_only` list the ids of what has no partner and is then in no difference.
    """

    pairs: frozenset[Key]
    base_only: tuple[Key, ...] = ()
    candidate_only: tuple[Key, ...] = ()
    by_content: bool = True

    @property
    def paired(self) -> bool:
        """Whether figures are compared pair by pair: where at least 5 prompts are in both runs."""
        return len({prompt for prompt, _ in self.pairs}) >= MIN_CLUSTERS

    def key(self, record: RequestRecord) -> Key:
        """Return what a record is paired by."""
        prompt = prompt_of(record) if self.by_content else prompt_key(None, record.prompt_id)
        return prompt, record.turn_index


@dataclass(slots=True, frozen=True)
class Difference:
    """A figure in both runs, candidate less base, and how likely so large a difference is where there is none.

    `p` is two-sided, None where no interval can be given.
    """

    base: float | None
    candidate: float | None
    estimate: Estimate
    p: float | None
    paired: bool

    @property
    def relative(self) -> float | None:
        """Difference / base, a fraction; None where there is no base."""
        value = self.estimate.value
        return value / abs(self.base) if value is not None and self.base else None

    @property
    def is_test(self) -> bool:
        """Whether it could have been found to differ: not where every pair is the same (tokens under a limit)."""
        return self.p is not None and bool(self.estimate.value or self.estimate.standard_error)


def pair_up(
    base: Sequence[RequestRecord], candidate: Sequence[RequestRecord], *, same_prompts: bool | None = None
) -> Pairing:
    """Return the pairs of two runs' successful requests, by what was sent and turn.

    Records that do not say what was sent (AIPerf's) pair by prompt id, where `same_prompts` says that both runs read
    the same prompts: ids are often mere numbers of lines.
    """
    by_content = all(record.prompt_hash for records in (base, candidate) for record in records)
    told = Pairing(frozenset(), by_content=by_content)
    mine, theirs = ({told.key(r): (r.prompt_id, r.turn_index) for r in records} for records in (base, candidate))
    pairs = mine.keys() & theirs.keys() if by_content or same_prompts else set()
    base_only, candidate_only = (
        tuple(sorted(ids for key, ids in keys.items() if key not in pairs)) for keys in (mine, theirs)
    )
    return Pairing(frozenset(pairs), base_only, candidate_only, by_content)


def difference(
    base: Sequence[RequestRecord],
    candidate: Sequence[RequestRecord],
    read: Read,
    pairing: Pairing,
    *,
    factor: float = 1.0,
    offset: float = 0.0,
) -> Difference:
    """Return R(candidate) - factor * R(base), R = offset + sum(a) / sum(b), where `read` gives a request's (a, b).

    Paired: over the prompts that have the figure in both runs, each with its turns and repeats added up. Otherwise the
    runs are independent.
    """
    if pairing.paired:
        mine, theirs = (sums_by_key(map(pairing.key, records), map(read, records)) for records in (base, candidate))
        keys = [key for key in mine if key in theirs and key in pairing.pairs]
        sides = [added_up([prompt for prompt, _ in keys], [sums[key] for key in keys]) for sums in (mine, theirs)]
        before, after = map(list, sides)
        if len(before) >= MIN_CLUSTERS:
            return between(before, after, factor=factor, offset=offset, paired=True)
    return between(clustered(base, read), clustered(candidate, read), factor=factor, offset=offset)


def between(
    base: Iterable[Terms],
    candidate: Iterable[Terms],
    *,
    factor: float = 1.0,
    offset: float = 0.0,
    paired: bool = False,
    fewest: int = MIN_CLUSTERS,
) -> Difference:
    """Return the difference of two ratios from their clusters' (a, b), which belong together in order where `paired`.

    The s.e. of paired ones is that of the differences of the jackknife's terms; independent ones have Welch's df, and
    each has to scatter. Below `fewest` clusters a side there is neither interval nor p.
    """
    sides = [terms if paired else [(a, b) for a, b in terms if a or b] for terms in map(list, (base, candidate))]
    known = [linearised(terms) if any(b for _, b in terms) else None for terms in sides]
    one, other = (None if each is None else each.value + offset for each in known)
    before, after = known
    if before is None or after is None or one is None or other is None:
        reason = Missing.NO_RECORDS if one is None and other is None else Missing.NOT_IN_BOTH
        return Difference(one, other, missing(reason), None, paired)
    if paired:
        error = scatter([late - factor * early for early, late in zip(before.terms, after.terms, strict=True)])
        df = min(before.df, after.df)
    else:
        errors = factor * before.standard_error, after.standard_error
        error, df = math.hypot(*errors), _welch(errors, (before.df, after.df))
    apart, size = other - factor * one, max(abs(one), abs(other))
    # Differences of the last bit are the arithmetic's, not the runs'.
    apart = 0.0 if abs(apart) <= NOISE * size else apart
    given = estimate(apart, error, min(before.n, after.n), df, size=size, fewest=fewest)
    if not paired and given.has_interval and min(before.standard_error, after.standard_error) <= NOISE * size:
        given = missing(Missing.NO_SPREAD, apart, given.n)
    same = given.reason is Missing.NO_SPREAD and not apart
    p = t_two_sided_p(apart / error, df) if given.has_interval else 1.0 if same else None
    return Difference(one, other, given, p, paired)


def _welch(errors: tuple[float, float], freedom: tuple[float, float]) -> float:
    squares = [error * error for error in errors]
    parts = sum(square * square / df for square, df in zip(squares, freedom, strict=True) if square and df > 0)
    return sum(squares) ** 2 / parts if parts else 0.0


def unjudged(found: Difference, reason: Missing) -> Difference:
    """Return the same difference, of which nothing is to be concluded."""
    return replace(found, estimate=replace(found.estimate, reason=reason), p=None)
