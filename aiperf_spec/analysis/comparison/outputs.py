"""Whether two runs gave the same answers: how many are identical, where others part, what a control run says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import median

from aiperf_spec.analysis.clusters import Terms, measured, sums_by_key
from aiperf_spec.analysis.comparison.compare import ALPHA
from aiperf_spec.analysis.comparison.mismatches import Run, same_prompts
from aiperf_spec.analysis.comparison.near_ties import Place, Untold, place_of
from aiperf_spec.analysis.comparison.pairing import Key, Pairing, pair_up
from aiperf_spec.analysis.comparison.preconditions import expect_comparable
from aiperf_spec.analysis.intervals import Estimate, share_interval
from aiperf_spec.analysis.statistics import holm_adjusted, sign_test
from aiperf_spec.errors import SpecProfileError
from aiperf_spec.models.run import RequestRecord

IDENTICAL = "identical_outputs"
"""The name of the share of identical answers, in gates."""
CONTINUATION = 60
"""Characters that are kept of how an answer goes on from where it parts from the other."""


class OutputVerdict(StrEnum):
    """What the answers of a candidate say of it."""

    IDENTICAL = "identical"
    """All answers are those of the base."""
    NOT_LOSSLESS = "not lossless"
    """More answers differ from the base's than in the control."""
    NONE_SHOWN = "no difference from the control shown"
    NO_CONTROL = "not judged without a control"
    OTHER_MODEL = "not judged, for the models' names differ"


@dataclass(slots=True, frozen=True)
class Identical:
    """How many pairs of answers are identical. `share` is between 0 and 1; its interval is over prompts."""

    same: int
    pairs: int
    share: Estimate


@dataclass(slots=True, frozen=True)
class Parting:
    """A pair of answers that differ.

    Both begin with the same `shared` characters; `base` and `candidate` are how they go on, "" where one ends. They are
    None where a run did not keep its texts, or where the texts differ in a secret alone.
    """

    prompt_id: str
    turn: int
    category: str | None
    base_index: int
    candidate_index: int
    shared: int | None = None
    base: str | None = None
    candidate: str | None = None
    place: Place | None = None
    """None where `shared` is."""


@dataclass(slots=True, frozen=True)
class NearTies:
    """How many answers part at a near-tie, how many do not, and of how many it is not known, by the reason."""

    near_ties: int
    elsewhere: int
    unknown: dict[Untold, int]


@dataclass(slots=True, frozen=True)
class Control:
    """The base run once more against the base.

    `fewer` is the number of prompts with fewer identical answers in the candidate than here, `more` that of prompts
    with more; `p` is the sign test's, two-sided, after Holm's correction over all candidates.
    """

    name: str
    identical: Identical
    fewer: int
    more: int
    p: float


@dataclass(slots=True, frozen=True)
class OutputComparison:
    """The answers of a candidate against those of the base."""

    base: str
    candidate: str
    identical: Identical
    categories: dict[str, Identical]
    partings: tuple[Parting, ...]
    """In the order of the base's requests."""
    later_turns: int
    """Pairs that are left out, because an answer to an earlier turn differed: other words were asked."""
    unknown: int
    """Successful requests of both runs whose answer is not known: those with several answers."""
    sampled: bool
    """Whether answers were sampled, with a seed."""
    other_model: bool
    """Whether the runs name different models."""
    control: Control | None
    verdict: OutputVerdict

    @property
    def median_shared(self) -> float | None:
        """The median of the characters that answers share before they part; None where no place is known."""
        known = [parting.shared for parting in self.partings if parting.shared is not None]
        return median(known) if known else None

    @property
    def near_ties(self) -> NearTies:
        """Where the answers part whose place is known."""
        places = [parting.place for parting in self.partings if parting.place is not None]
        untold = Counter(place.untold for place in places if place.untold is not None)
        told = Counter(place.near_tie for place in places)
        return NearTies(told[True], told[False], dict(sorted(untold.items())))

    @property
    def shares(self) -> dict[str | None, Estimate]:
        """The share of identical answers of each category, and under None of all."""
        return {None: self.identical.share, **{name: each.share for name, each in self.categories.items()}}


@dataclass(slots=True, frozen=True)
class _Pair:
    key: Key
    base: RequestRecord
    candidate: RequestRecord
    same: bool


def parted(base: Run, candidates: Sequence[Run]) -> list[RequestRecord]:
    """Return the records of both sides whose answers differ; `compare_outputs` looks at their tokens, if they have any.

    Raises `SpecProfileError` as that does.
    """
    expect_comparable(base, candidates)
    pairs = [pair for candidate in candidates for pair in _pairs(base, candidate)[0] if not pair.same]
    return [record for pair in pairs for record in (pair.base, pair.candidate)]


def compare_outputs(base: Run, candidates: Sequence[Run], control: Run | None = None) -> list[OutputComparison]:
    """Return each candidate's answers against the base's; `control` is the base run once more.

    Raises `SpecProfileError` naming a run whose answers say nothing of this: they were not recorded, or are sampled, or
    the requests asked for other answers.
    """
    expect_comparable(base, [*candidates, *([] if control is None else [control])])
    noise = None if control is None else _pairs(base, control)[0]
    found = []
    for candidate in candidates:
        pairs, later_turns = _pairs(base, candidate)
        told = None if control is None or noise is None else _control(control.name, pairs, noise)
        found.append(_comparison(base, candidate, pairs, later_turns, told))
    if control is not None:
        corrected = holm_adjusted([each.control.p for each in found if each.control is not None])
        found = [
            replace(each, control=replace(each.control, p=p)) if each.control is not None else each
            for each, p in zip(found, corrected, strict=True)
        ]
    return [replace(each, verdict=_verdict(each)) for each in found]


def _pairs(base: Run, candidate: Run) -> tuple[list[_Pair], int]:
    """Return the pairs of answers to the same words, and the number of pairs of later turns that are left out."""
    records = measured(base.records), measured(candidate.records)
    pairing = pair_up(*records, same_prompts=same_prompts(base.settings, candidate.settings))
    before, after = (dict(_by_repeat(each, pairing)) for each in records)
    both = [(key, before[key], after[key]) for key in before if key in after]
    pairs = [_Pair(key[:2], mine, theirs, _hash(mine) == _hash(theirs)) for key, mine, theirs in both]
    if not pairs:
        raise SpecProfileError(
            f"{base.name!r} and {candidate.name!r} share no answered prompt", "give both runs the same prompts"
        )
    parted: dict[str, int] = {}
    for pair in pairs:
        prompt, turn = pair.key
        if not pair.same:
            parted[prompt] = min(turn, parted.get(prompt, turn))
    kept = [pair for pair in pairs if pair.key[1] <= parted.get(pair.key[0], pair.key[1])]
    return kept, len(pairs) - len(kept)


def _by_repeat(
    records: Sequence[RequestRecord], pairing: Pairing
) -> Iterator[tuple[tuple[str, int, int], RequestRecord]]:
    repeats: Counter[Key] = Counter()
    for record in records:
        key = pairing.key(record)
        if record.answer is not None and key in pairing.pairs:
            yield (*key, repeats[key]), record
            repeats[key] += 1


def _hash(record: RequestRecord) -> str:
    return "" if record.answer is None else record.answer.hash


def _by_prompt(pairs: Sequence[_Pair]) -> dict[str, Terms]:
    return sums_by_key((pair.key[0] for pair in pairs), ((pair.same, 1) for pair in pairs))


def _identical(pairs: Sequence[_Pair]) -> Identical:
    return Identical(sum(pair.same for pair in pairs), len(pairs), share_interval(_by_prompt(pairs).values()))


def _control(name: str, pairs: Sequence[_Pair], noise: Sequence[_Pair]) -> Control:
    mine, theirs = ({prompt: a / b for prompt, (a, b) in _by_prompt(each).items()} for each in (pairs, noise))
    both = [(mine[prompt], theirs[prompt]) for prompt in mine if prompt in theirs]
    fewer, more = (sum(1 for a, b in both if a < b), sum(1 for a, b in both if a > b))
    return Control(name, _identical(noise), fewer, more, sign_test(fewer, more))


def _comparison(
    base: Run, candidate: Run, pairs: Sequence[_Pair], later_turns: int, control: Control | None
) -> OutputComparison:
    names = sorted({pair.base.category for pair in pairs if pair.base.category})
    answered = [*measured(base.records), *measured(candidate.records)]
    models = {base.settings.model, candidate.settings.model}
    return OutputComparison(
        base.name,
        candidate.name,
        _identical(pairs),
        {name: _identical([pair for pair in pairs if pair.base.category == name]) for name in names},
        tuple(_parting(pair) for pair in pairs if not pair.same),
        later_turns,
        unknown=sum(record.answer is None for record in answered),
        sampled=any(bool(pair.base.answer and pair.base.answer.temperature) for pair in pairs),
        other_model=None not in models and len(models) > 1,
        control=control,
        verdict=OutputVerdict.NO_CONTROL,
    )


def _parting(pair: _Pair) -> Parting:
    mine, theirs = pair.base, pair.candidate
    parting = Parting(mine.prompt_id, mine.turn_index, mine.category, mine.index, theirs.index)
    before, after = mine.answer, theirs.answer
    if before is None or after is None or before.text is None or after.text is None or before.text == after.text:
        return parting
    texts = before.text, after.text
    places = enumerate(zip(*texts, strict=False))
    shared = next((place for place, (a, b) in places if a != b), min(map(len, texts)))
    one, other = (text[shared : shared + CONTINUATION] for text in texts)
    place = place_of(before, after, before.text[:shared])
    return replace(parting, shared=shared, base=one, candidate=other, place=place)


def _verdict(found: OutputComparison) -> OutputVerdict:
    if found.identical.same == found.identical.pairs:
        return OutputVerdict.IDENTICAL
    if found.other_model:
        return OutputVerdict.OTHER_MODEL
    if (control := found.control) is None:
        return OutputVerdict.NO_CONTROL
    worse = control.fewer > control.more and control.p < ALPHA
    return OutputVerdict.NOT_LOSSLESS if worse else OutputVerdict.NONE_SHOWN
