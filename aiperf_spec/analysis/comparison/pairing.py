"""Two runs over the same prompts: which requests belong together, and the difference of a figure between them."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from aiperf_spec.analysis.clusters import Read, Terms, clustered, has_turns, sums_by_key
from aiperf_spec.analysis.intervals import MIN_CLUSTERS, Estimate, linearised, missing, scatter
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.statistics import t_quantile, t_two_sided_p
from aiperf_spec.models.run import RequestRecord

Key = tuple[str, int]
"""Prompt id and turn."""

_BY_LINE = re.compile(r"line-\d+")
"""The id of a prompt to which its file gives none; with several files, theirs stand before it."""


@dataclass(slots=True, frozen=True)
class Pairing:
    """Which prompts (and turns) two runs share.

    `paired` says whether figures are compared pair by pair: where at least 5 pairs are. `base_only` and
    `candidate_only` list what has no partner and is then in no difference.
    """

    pairs: frozenset[Key]
    base_only: tuple[Key, ...]
    candidate_only: tuple[Key, ...]

    @property
    def paired(self) -> bool:
        """Whether there are enough pairs."""
        return len(self.pairs) >= MIN_CLUSTERS


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
    """Return the pairs of two runs' successful requests, by prompt id and turn.

    `same_prompts` says whether both read the same file, None where that is not known. Ids that are mere line numbers
    pair only where the files are not known to differ.
    """
    mine, theirs = ({_key(record) for record in records} for records in (base, candidate))
    pairs = mine & theirs
    if same_prompts is False:
        pairs = {key for key in pairs if not _BY_LINE.fullmatch(key[0])}
    return Pairing(frozenset(pairs), tuple(sorted(mine - pairs)), tuple(sorted(theirs - pairs)))


def _key(record: RequestRecord) -> Key:
    return record.prompt_id, record.turn_index


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

    Paired: over the prompts that have the figure in both runs, with repeats of a prompt (and its turns) added up, so
    that a prompt counts once; s.e. from the differences of the linearised terms. Otherwise the runs are independent,
    with Welch's degrees of freedom.
    """
    if pairing.paired:
        mine, theirs = _by_key(base, read, pairing.pairs), _by_key(candidate, read, pairing.pairs)
        keys = [key for key in mine if key in theirs]
        if len({prompt for prompt, _ in keys}) >= MIN_CLUSTERS:
            turns = has_turns(base) or has_turns(candidate)
            return _paired(keys, mine, theirs, factor=factor, offset=offset, by_prompt=turns)
    return _independent(list(clustered(base, read)), list(clustered(candidate, read)), factor=factor, offset=offset)


def _by_key(records: Iterable[RequestRecord], read: Read, keys: frozenset[Key]) -> dict[Key, Terms]:
    chosen = [record for record in records if _key(record) in keys]
    return sums_by_key(map(_key, chosen), map(read, chosen))


def _paired(
    keys: Sequence[Key],
    mine: dict[Key, Terms],
    theirs: dict[Key, Terms],
    *,
    factor: float,
    offset: float,
    by_prompt: bool,
) -> Difference:
    base_pairs, candidate_pairs = [mine[key] for key in keys], [theirs[key] for key in keys]
    if not any(b for _, b in base_pairs) or not any(b for _, b in candidate_pairs):
        return Difference(None, None, missing(Missing.NO_RECORDS), None, paired=True)
    base, base_terms = linearised(base_pairs)
    candidate, candidate_terms = linearised(candidate_pairs)
    sums: dict[Hashable, float] = {}
    for key, before, after in zip(keys, base_terms, candidate_terms, strict=True):
        cluster = key[0] if by_prompt else key
        sums[cluster] = sums.get(cluster, 0.0) + after - factor * before
    apart = candidate + offset - factor * (base + offset)
    return _judged(base + offset, candidate + offset, apart, scatter(list(sums.values())), len(sums), paired=True)


def _independent(base: list[Terms], candidate: list[Terms], *, factor: float, offset: float) -> Difference:
    if not any(b for _, b in base) or not any(b for _, b in candidate):
        one = _value(base, offset), _value(candidate, offset)
        reason = Missing.NO_RECORDS if one == (None, None) else Missing.NOT_IN_BOTH
        return Difference(*one, missing(reason), None, paired=False)
    before, base_terms = linearised(base)
    after, candidate_terms = linearised(candidate)
    apart = after + offset - factor * (before + offset)
    smaller = min(len(base), len(candidate))
    if smaller < MIN_CLUSTERS:
        given = missing(Missing.TOO_FEW, apart, smaller)
        return Difference(before + offset, after + offset, given, None, paired=False)
    errors = factor * scatter(base_terms), scatter(candidate_terms)
    df = _welch(errors, (len(base), len(candidate)))
    judged = _judged(before + offset, after + offset, apart, math.hypot(*errors), df + 1, paired=False)
    return replace(judged, estimate=replace(judged.estimate, n=smaller))


def _value(terms: list[Terms], offset: float) -> float | None:
    return linearised(terms)[0] + offset if any(b for _, b in terms) else None


def _welch(errors: tuple[float, float], sizes: tuple[int, int]) -> int:
    squares = [error * error for error in errors]
    parts = sum(square * square / (n - 1) for square, n in zip(squares, sizes, strict=True))
    # Rounded down: a whole number of degrees of freedom, never a narrower interval.
    return int(sum(squares) ** 2 / parts) if parts else min(sizes) - 1


def _judged(base: float, candidate: float, apart: float, error: float, n: int, *, paired: bool) -> Difference:
    # Differences of the last bit are the arithmetic's, not the runs'.
    if abs(apart) <= 1e-12 * max(abs(base), abs(candidate)):
        apart = 0.0
    df = max(n - 1, 1)
    reach = t_quantile(df) * error
    p = t_two_sided_p(apart / error, df) if error else float(not apart)
    return Difference(base, candidate, Estimate(apart, apart - reach, apart + reach, n, error), p, paired)
