"""A course of candidates, such as the checkpoints of a drafter: each against the base, and against the best of them.

All runs are compared over the prompts and turns that every one of them answered with acceptance, paired by prompt. The
best is the candidate with the greatest acceptance length there. It is chosen by the data that it is then compared by,
and the greatest of several equal lengths is great by chance. Therefore Holm's correction covers every pair of the runs,
the base among them: whichever of them comes out as the best, its comparisons are among those.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations
from typing import Any

from aiperf_spec.analysis.clusters import Terms, added_up, length_terms, measured, prompt_of, sums_by_key
from aiperf_spec.analysis.comparison.compare import Better, Verdict, verdict_of
from aiperf_spec.analysis.comparison.mismatches import Mismatch, MismatchKind, Run, mismatches, same_prompts
from aiperf_spec.analysis.comparison.pairing import Difference, Key, between, pair_up
from aiperf_spec.analysis.intervals import MIN_CLUSTERS, Estimate, as_length, ratio
from aiperf_spec.analysis.statistics import holm_adjusted
from aiperf_spec.errors import SpecProfileError

_APART = frozenset({MismatchKind.ENGINE, MismatchKind.ENDPOINT, MismatchKind.SAMPLING, MismatchKind.DRAFT_LENGTH})
"""What moves the acceptance length by itself, whatever the drafter."""
_CAUTIONS = frozenset(
    {
        *(MismatchKind.MODEL, MismatchKind.DRAFTER_SHAPE, MismatchKind.PROMPT_TOKENS, MismatchKind.FAILURES),
        MismatchKind.CONFIGURATION_UNKNOWN,
    }
)
"""What may mislead about lengths; of the others, some bear on times alone."""


class Obstacle(StrEnum):
    """Why a run is not in the course, where no mismatch is the reason."""

    UNREADABLE = "unreadable"
    NO_PLACE = "no_place"
    NO_DATE = "no_date"
    NO_ACCEPTANCE = "no_acceptance"
    OTHER_PROMPTS = "other_prompts"


@dataclass(slots=True, frozen=True)
class LeftOut:
    """A run that is not in the course, why, and the values of which the words for it are made."""

    name: str
    reason: Obstacle | MismatchKind
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Candidate:
    """A run, and its place in the course: the value of a tag, or when it was made."""

    run: Run
    place: str


@dataclass(slots=True, frozen=True)
class Against:
    """A candidate's length less another run's, and what that comes to after the correction over all pairs."""

    difference: Difference
    adjusted_p: float | None
    verdict: Verdict


@dataclass(slots=True, frozen=True)
class Checkpoint:
    """A candidate of the course; `against_best` is None of the best itself."""

    name: str
    place: str
    length: Estimate
    against_base: Against
    against_best: Against | None
    mismatches: tuple[Mismatch, ...]

    @property
    def is_tied(self) -> bool:
        """Whether no difference from the best is shown."""
        return self.against_best is not None and self.against_best.verdict is not Verdict.WORSE


@dataclass(slots=True, frozen=True)
class Course:
    """The candidates in order. `best` is the position of the one with the greatest length, None where none is left.

    `ordered_by` names the tag of which places are the values, or says "date". `prompts` counts those over which all
    were compared, `base_prompts` those of the base; `tests` is the number of pairs that Holm's correction covers.
    """

    ordered_by: str
    base: str
    base_length: Estimate
    checkpoints: tuple[Checkpoint, ...]
    best: int | None
    prompts: int
    base_prompts: int
    tests: int
    left_out: tuple[LeftOut, ...]


def place_order(place: str) -> tuple[bool, float, str]:
    """Return what places are sorted by: numbers as numbers, and behind them texts as text."""
    value = place_value(place)
    return (value is None, value or 0.0, place)


def place_value(place: str) -> float | None:
    """Return the number that a place is; None of a text."""
    try:
        value = float(place)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in place else None


def course(
    base: Run, candidates: Iterable[Candidate], ordered_by: str = "", left_out: Sequence[LeftOut] = ()
) -> Course:
    """Return the course, candidates in the order of their places; `left_out` holds those that could not be read.

    Left out are also candidates of another engine, endpoint or draft length, with other request parameters, without
    acceptance, or with fewer than half of the base's prompts. Raises `SpecProfileError` where the base reports no
    acceptance.
    """
    of_base = _sums(base)
    if not of_base:
        raise SpecProfileError(f"{base.name!r} reports no acceptance, so there is nothing to compare with")
    out, kept = list(left_out), []
    for candidate in sorted(candidates, key=lambda each: place_order(each.place)):
        sums, found, obstacle = _compared(base, of_base, candidate.run)
        if obstacle is None:
            kept.append((candidate, sums, tuple(each for each in found if each.kind in _CAUTIONS)))
        else:
            out.append(obstacle)
    runs = [of_base, *(sums for _, sums, _ in kept)]
    shared = [key for key in of_base if all(key in sums for sums in runs)]
    terms = [list(added_up([prompt for prompt, _ in shared], [sums[key] for key in shared])) for sums in runs]
    pairs = _Pairs(terms)
    lengths = [as_length(ratio(each)) for each in terms]
    known = [(length.value, -i) for i, length in enumerate(lengths) if i and length.value is not None]
    best = -max(known)[1] if known else None
    checkpoints = tuple(
        Checkpoint(
            name=candidate.run.name,
            place=candidate.place,
            length=lengths[i],
            against_base=pairs.against(i, 0),
            against_best=None if best is None or i == best else pairs.against(i, best),
            mismatches=found,
        )
        for i, (candidate, _, found) in enumerate(kept, 1)
    )
    return Course(
        ordered_by=ordered_by,
        base=base.name,
        base_length=lengths[0],
        checkpoints=checkpoints,
        best=None if best is None else best - 1,
        prompts=len(terms[0]),
        base_prompts=_prompts(of_base),
        tests=pairs.tests,
        left_out=tuple(out),
    )


_Sums = dict[Key, Terms]
"""The (accepted, steps) of each prompt and turn, its repeats added up; keys are those of the base's records."""


def _sums(run: Run) -> _Sums:
    records = measured(run.records)
    return sums_by_key(((prompt_of(record), record.turn_index) for record in records), map(length_terms, records))


def _prompts(keys: Iterable[Key]) -> int:
    return len({prompt for prompt, _ in keys})


def _compared(base: Run, of_base: _Sums, run: Run) -> tuple[_Sums, Sequence[Mismatch], LeftOut | None]:
    """Return a candidate's sums, what differs from the base, and why it is left out, where it is."""
    mine, theirs = measured(base.records), measured(run.records)
    pairing = pair_up(mine, theirs, same_prompts=same_prompts(base.settings, run.settings))
    found = mismatches(base, run, pairing)
    # Pairs may be told by id; the base's own records say which prompt that is.
    names = {pairing.key(record): (prompt_of(record), record.turn_index) for record in mine}
    paired = [record for record in theirs if pairing.key(record) in pairing.pairs]
    sums = sums_by_key((names[pairing.key(record)] for record in paired), map(length_terms, paired))
    if not any(length_terms(record) for record in theirs):
        return sums, found, LeftOut(run.name, Obstacle.NO_ACCEPTANCE)
    if apart := next((each for each in found if each.kind in _APART), None):
        return sums, found, LeftOut(run.name, apart.kind, {"base": apart.base, "candidate": apart.candidate})
    shared, needed = _prompts(sums.keys() & of_base.keys()), _prompts(of_base)
    if 2 * shared < needed or shared < min(MIN_CLUSTERS, needed):
        return sums, found, LeftOut(run.name, Obstacle.OTHER_PROMPTS, {"shared": shared, "prompts": needed})
    return sums, found, None


class _Pairs:
    """The differences between all runs, whose clusters belong together, and their p after Holm's correction."""

    def __init__(self, terms: Sequence[Sequence[Terms]]) -> None:
        self._terms = terms
        found = {pair: self._difference(*pair) for pair in combinations(range(len(terms)), 2)}
        tests = {pair: each.p for pair, each in found.items() if each.p is not None and each.is_test}
        self.tests = len(tests)
        self._adjusted = dict(zip(tests, holm_adjusted(list(tests.values())), strict=True))

    def _difference(self, mine: int, other: int) -> Difference:
        return between(self._terms[other], self._terms[mine], offset=1, paired=True)

    def against(self, mine: int, other: int) -> Against:
        """Return a run's length less another one's."""
        found = self._difference(mine, other)
        if found.p is None:
            return Against(found, None, Verdict.NOT_JUDGED)
        p = self._adjusted.get((min(mine, other), max(mine, other)), 1.0)
        return Against(found, p, verdict_of(found, Better.HIGHER, p))
