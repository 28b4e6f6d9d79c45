"""Two runs over the same prompts: which requests belong together, and the difference of a figure between them."""

import math
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

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
    mine, theirs = (_by_key(records, read, pairing.pairs) for records in (base, candidate))
    keys = [key for key in mine if key in theirs]
    paired = pairing.paired and len({prompt for prompt, _ in keys}) >= MIN_CLUSTERS
    if paired:
        sides = [[sums[key] for key in keys] for sums in (mine, theirs)]
    else:
        sides = [list(clustered(records, read)) for records in (base, candidate)]
    before, after = (linearised(terms) if any(b for _, b in terms) else None for terms in sides)
    if before is None or after is None:
        one, two = (None if paired or side is None else side[0] + offset for side in (before, after))
        reason = Missing.NO_RECORDS if one is None and two is None else Missing.NOT_IN_BOTH
        return Difference(one, two, missing(reason), None, paired)
    of_base, of_candidate = before[0] + offset, after[0] + offset
    apart, n = of_candidate - factor * of_base, min(map(len, sides))
    if n < MIN_CLUSTERS:
        return Difference(of_base, of_candidate, missing(Missing.TOO_FEW, apart, n), None, paired)
    if paired:
        by_prompt = has_turns(base) or has_turns(candidate)
        clusters: dict[Hashable, float] = {}
        for key, early, late in zip(keys, before[1], after[1], strict=True):
            cluster = key[0] if by_prompt else key
            clusters[cluster] = clusters.get(cluster, 0.0) + late - factor * early
        n = len(clusters)
        error, df = scatter(list(clusters.values())), n - 1
    else:
        errors = factor * scatter(before[1]), scatter(after[1])
        error, df = math.hypot(*errors), _welch(errors, (len(sides[0]), len(sides[1])))
    # Differences of the last bit are the arithmetic's, not the runs'.
    if abs(apart) <= 1e-12 * max(abs(of_base), abs(of_candidate)):
        apart = 0.0
    reach = t_quantile(df) * error
    p = t_two_sided_p(apart / error, df) if error else float(not apart)
    return Difference(of_base, of_candidate, Estimate(apart, apart - reach, apart + reach, n, error), p, paired)


def _by_key(records: Iterable[RequestRecord], read: Read, keys: frozenset[Key]) -> dict[Key, Terms]:
    chosen = [record for record in records if _key(record) in keys]
    return sums_by_key(map(_key, chosen), map(read, chosen))


def _welch(errors: tuple[float, float], sizes: tuple[int, int]) -> int:
    squares = [error * error for error in errors]
    parts = sum(square * square / (n - 1) for square, n in zip(squares, sizes, strict=True))
    # Rounded down: a whole number of degrees of freedom, never a narrower interval.
    return int(sum(squares) ** 2 / parts) if parts else min(sizes) - 1
