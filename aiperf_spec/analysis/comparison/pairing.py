"""Two runs over the same prompts: which requests belong together, and the difference of a figure between them."""

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from aiperf_spec.analysis.clusters import Read, Terms, clustered, prompt_of
from aiperf_spec.analysis.intervals import MIN_CLUSTERS, Estimate, Ratio, estimate, linearised, missing, scatter
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

    Paired: over the prompts that have the figure in both runs, each with its turns and repeats added up; s.e. from the
    differences of the jackknife's terms. Otherwise the runs are independent, see `independent`.
    """
    if pairing.paired:
        mine, theirs = _by_key(base, read, pairing), _by_key(candidate, read, pairing)
        keys = mine.keys() & theirs.keys()
        before, after = _by_prompt(mine, keys), _by_prompt(theirs, keys)
        if len(before) >= MIN_CLUSTERS:
            return _paired(before, [after[prompt] for prompt in before], factor=factor, offset=offset)
    return independent(clustered(base, read), clustered(candidate, read), factor=factor, offset=offset)


def _by_key(records: Iterable[RequestRecord], read: Read, pairing: Pairing) -> dict[Key, Terms]:
    sums: dict[Key, Terms] = {}
    for record in records:
        key = pairing.key(record)
        if key in pairing.pairs and (terms := read(record)) is not None:
            a, b = sums.get(key, (0, 0))
            sums[key] = (a + terms[0], b + terms[1])
    return sums


def _by_prompt(sums: dict[Key, Terms], keys: set[Key]) -> dict[str, Terms]:
    prompts: dict[str, Terms] = {}
    for key, (a, b) in sums.items():
        if key in keys:
            before = prompts.get(key[0], (0, 0))
            prompts[key[0]] = (before[0] + a, before[1] + b)
    return prompts


def _paired(before: dict[str, Terms], after: list[Terms], *, factor: float, offset: float) -> Difference:
    if not any(b for _, b in before.values()) or not any(b for _, b in after):
        return Difference(None, None, missing(Missing.NO_RECORDS), None, paired=True)
    base, candidate = linearised(before.values()), linearised(after)
    terms = array("d", (mine - factor * theirs for mine, theirs in zip(candidate.terms, base.terms, strict=True)))
    df = min(base.df, candidate.df)
    return _judged(base, candidate, scatter(terms), df, MIN_CLUSTERS, factor=factor, offset=offset, paired=True)


def independent(
    base: Iterable[Terms],
    candidate: Iterable[Terms],
    *,
    factor: float = 1.0,
    offset: float = 0.0,
    fewest: int = MIN_CLUSTERS,
) -> Difference:
    """Return the difference of two ratios whose clusters have nothing to do with each other, at Welch's df.

    Below `fewest` clusters a side there is neither interval nor p.
    """
    sides = [[(a, b) for a, b in terms if a or b] for terms in (base, candidate)]
    known = [linearised(terms) if any(b for _, b in terms) else None for terms in sides]
    before, after = known
    if before is None or after is None:
        one = [None if each is None else each.value + offset for each in known]
        reason = Missing.NO_RECORDS if one == [None, None] else Missing.NOT_IN_BOTH
        return Difference(one[0], one[1], missing(reason), None, paired=False)
    errors = factor * before.standard_error, after.standard_error
    df = _welch(errors, (before.df, after.df))
    return _judged(before, after, math.hypot(*errors), df, fewest, factor=factor, offset=offset, paired=False)


def _welch(errors: tuple[float, float], freedom: tuple[float, float]) -> float:
    squares = [error * error for error in errors]
    parts = sum(square * square / df for square, df in zip(squares, freedom, strict=True) if square and df > 0)
    return sum(squares) ** 2 / parts if parts else 0.0


def _judged(
    base: Ratio,
    candidate: Ratio,
    error: float,
    df: float,
    fewest: int,
    *,
    factor: float,
    offset: float,
    paired: bool,
) -> Difference:
    before, after = base.value + offset, candidate.value + offset
    apart, size = after - factor * before, max(abs(before), abs(after))
    # Differences of the last bit are the arithmetic's, not the runs'.
    if abs(apart) <= 1e-12 * size:
        apart = 0.0
    given = estimate(apart, error, min(base.n, candidate.n), df, size=size, fewest=fewest)
    p = None
    if given.has_interval:
        p = t_two_sided_p(apart / error, df)
    elif given.reason is Missing.NO_SPREAD and not apart:
        p = 1.0
    return Difference(before, after, given, p, paired)


def unjudged(found: Difference, reason: Missing) -> Difference:
    """Return the same difference, of which nothing is to be concluded."""
    return replace(found, estimate=replace(found.estimate, reason=reason), p=None)
