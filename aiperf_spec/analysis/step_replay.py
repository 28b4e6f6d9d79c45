"""A request's verify steps, replayed with shorter drafts.

A step says of the places in the output that it drafted for whether the draft token was right there: right where it was
accepted, wrong where the first one was rejected. Only the place after a draft that was accepted whole was not tried. So
the steps of a response are a sequence of right, wrong and untried places, and shorter drafts of a chain drafter would
have met the same text. Easy text stays together, and each request keeps its share of the output.

What the sequence does not say is taken from the run (`Chances`): whether an untried place would have been right, and
what changes where a replayed step drafts for a place from nearer or farther than the step did that tried it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from random import Random

from aiperf_spec.analysis.chances import Chances, Evidence
from aiperf_spec.analysis.clusters import Terms, prompt_of
from aiperf_spec.analysis.positions import Tallies
from aiperf_spec.models.acceptance import SpecDecodeAcceptanceRecord
from aiperf_spec.models.run import RequestRecord

_SAMPLE = 300
"""Requests that are enough to see what chances do to steps."""
_NUDGE = 1e-3


def coded(report: SpecDecodeAcceptanceRecord, k: int) -> Sequence[int] | None:
    """Return a request's steps as one number each; None without figures of single steps.

    A step that rejected a token is the number that it accepted, 0 to k - 1; one that accepted all of k is k; one that
    proposed fewer than k and accepted all of them is k + 1 + their number.
    """
    accepted = report.per_step_accepted
    if accepted is None:
        return None
    if report.num_draft_tokens == k * len(accepted):
        return accepted
    own = k if report.num_spec_tokens is None else report.num_spec_tokens
    drafted: Iterable[int] = report.per_step_drafted or repeat(own, len(accepted))
    steps = zip(accepted, drafted, strict=True)
    found = [min(right, k) if right < proposed or right >= k else k + 1 + right for right, proposed in steps]
    # A run has millions of steps: a byte each, where they fit.
    return bytes(found) if 2 * k + 1 < 256 else found


@dataclass(slots=True, frozen=True)
class Replay:
    """Replay requests with drafts of `length` tokens, at most k.

    `short_stay` leaves drafts that ended short of k as short as they were; otherwise they are taken to go on.
    """

    length: int
    chances: Chances
    short_stay: bool = False
    moves: dict[tuple[int, int], tuple[float, list[tuple[int, float]]]] = field(default_factory=dict)

    def request(self, steps: Sequence[int], cut: int = 0) -> Terms:
        """Return (tokens, steps) that are expected of a request with these coded steps.

        The last `cut` tokens of its last step were not part of the output. A replayed request ends with the step that
        reaches as far, whose tokens all count, as in the engine's own figures.
        """
        if max(steps) <= self.length:
            return float(self._tokens(steps)), float(len(steps))
        finished = 0.0
        # The chance of each number of tokens that the replayed step under way has so far.
        under_way = {0: 1.0}
        for step in steps[:-1]:
            if step <= self.length and len(under_way) == 1 and 0 in under_way:
                finished += 1
                continue
            after: dict[int, float] = {}
            for state, share in under_way.items():
                done, outcomes = self._move(step, state)
                finished += share * done
                for following, chance in outcomes:
                    after[following] = after.get(following, 0.0) + share * chance
            under_way = after
        tokens = float(self._tokens(steps[:-1]))
        for state, share in under_way.items():
            more, done = self._last(steps[-1], state, cut)
            tokens, finished = tokens + share * more, finished + share * done
        return tokens, finished

    def _tokens(self, steps: Sequence[int]) -> int:
        k = self.chances.k
        return sum(steps) + len(steps) - sum(k + 1 for step in steps if step > k)

    def _move(self, step: int, state: int) -> tuple[float, list[tuple[int, float]]]:
        """Return the steps that are finished when a step has passed, and the chances of what is then under way."""
        if (found := self.moves.get((step, state))) is None:
            found = self.moves[step, state] = self._moved(step, state)
        return found

    def _moved(self, step: int, state: int) -> tuple[float, list[tuple[int, float]]]:
        right, finished, outcomes = self._right(step), 0.0, dict[int, float]()
        for passed, start, share in self._paths(right, state):
            whole, rest = divmod(start + right - passed, self.length + 1)
            goes_on = share * self._chance(step, right, rest + 1)
            finished += share * ((passed > 0) + whole + 1) - goes_on
            outcomes[0] = outcomes.get(0, 0.0) + share - goes_on
            outcomes[rest + 1] = outcomes.get(rest + 1, 0.0) + goes_on
        return finished, [(following, chance) for following, chance in outcomes.items() if chance]

    def _last(self, step: int, state: int, cut: int) -> Terms:
        """Return (tokens, steps) from the beginning of a request's last step on."""
        right, tokens, finished = self._right(step), 0.0, 0.0
        needed = max(1, right + 1 - cut)
        for passed, start, share in self._paths(right, state):
            # Replayed steps end after these tokens, the first that reaches what is needed is the last.
            first, each = passed + self.length + 1 - start, self.length + 1
            end = passed if needed <= passed else first + max(0, -(-(needed - first) // each)) * each
            before = (passed > 0) + max(0, (end - passed + start) // each)
            if end <= right:
                tokens, finished = tokens + share * end, finished + share * before
                continue
            rest = (start + right - passed) % each
            goes_on = self._chance(step, right, rest + 1)
            tokens += share * (right + 1 + goes_on * self._rest(rest + 1))
            finished += share * ((passed > 0) + (start + right - passed) // each + 1)
        return tokens, finished

    def _right(self, step: int) -> int:
        return step if step <= self.chances.k else step - self.chances.k - 1

    def _paths(self, right: int, state: int) -> Iterator[tuple[int, int, float]]:
        """Yield (place, state from there, share) for each place where a step's right tokens may end what is under way.

        Tokens that are now drafted for from farther may be wrong, those from nearer are right as they were. Place 0 is
        for none of them wrong.
        """
        keep, farther = self.chances.decay**state, min(right, self.length - state)
        if keep < 1:
            for place in range(1, farther + 1):
                yield place, 0, keep ** (place - 1) * (1 - keep)
        yield 0, state, keep**farther

    def _chance(self, step: int, right: int, position: int) -> float:
        """Return the chance that the token which ended a step is right where it is drafted for at a position."""
        chances = self.chances
        if position > self.length or (step > chances.k and self.short_stay):
            return 0.0
        if step == chances.k:
            return min(1.0, chances.after_full * chances.decay ** (position - chances.k))
        was, nearer = chances.by_position[right], chances.decay ** (position - right - 1)
        if step > chances.k:
            return min(1.0, was * nearer)
        return min(1.0, (nearer - 1) * was / (1 - was)) if nearer > 1 else 0.0

    def _rest(self, state: int) -> float:
        chances, rest = self.chances, 1.0
        for position in range(self.length, state, -1):
            rest = 1 + rest * min(1.0, chances.after_full * chances.decay ** (position - chances.k))
        return rest


def from_histogram(report: SpecDecodeAcceptanceRecord, length: int, chances: Chances) -> Terms:
    """Return (tokens, steps) of a request with its tokens held, from its histogram: an estimate of a replay.

    It takes the steps of a response as independent of each other, so that a step that begins in the middle of a
    longer draft is like any other. Where the text has easy and hard stretches the length comes out too small.
    """
    steps, tokens = report.num_spec_steps, report.num_accepted_draft_tokens + report.num_spec_steps
    accepted = 0.0 + sum(min(count, length) * times for count, times in report.acceptance_histogram.items())
    own = chances.k if report.num_spec_tokens is None else report.num_spec_tokens
    beyond = float(report.acceptance_histogram.get(own, 0))
    for position in range(own, length):
        beyond *= chances.by_position[position]
        accepted += beyond
    return tokens, tokens * steps / (steps + accepted)


class Replays:
    """The requests of a run that have a verify step, to be replayed; `rough` says that histograms stand in for some."""

    def __init__(self, records: Sequence[RequestRecord], tallies: Tallies) -> None:
        k = len(tallies.reached)
        self._records = [record for record in records if record.acceptance and record.acceptance.num_spec_steps]
        self._steps = [coded(record.acceptance, k) for record in self._records if record.acceptance]
        sequences = [steps for steps in self._steps if steps is not None]
        self.rough = len(sequences) < len(self._steps)
        self._sample = sequences if len(sequences) <= _SAMPLE else Random(0).sample(sequences, _SAMPLE)
        self._evidence: dict[str, Evidence] = {}
        for record, steps in zip(self._records, self._steps, strict=True):
            given = Evidence() if steps is None else Evidence.of(steps, k)
            prompt = prompt_of(record)
            self._evidence[prompt] = self._evidence.get(prompt, Evidence()).plus(given)
        self.chances = Chances.of(tallies, self._evidence.values())
        self._tallies = tallies

    def at(self, length: int, *, short_stay: bool = False) -> dict[str, Terms]:
        """Return each prompt's (tokens, steps) with drafts of `length` tokens.

        The chances are taken from the run, and an interval has to know: what a prompt's evidence did to all steps is
        added to its own. It adds up to 0.
        """
        replay = Replay(length, self.chances, short_stay)
        sums = {prompt: [0.0, 0.0] for prompt in self._evidence}
        replayed = 0.0
        for record, steps in zip(self._records, self._steps, strict=True):
            if (report := record.acceptance) is None:
                continue
            if steps is None:
                given = from_histogram(report, length, self.chances)
            else:
                given = replay.request(steps, _cut(report))
                replayed += given[1]
            own = sums[prompt_of(record)]
            own[0] += given[0]
            own[1] += given[1]
        for prompt, moved in zip(self._evidence, self._moved(replay), strict=True):
            sums[prompt][1] += replayed * moved
        return {prompt: (tokens, finished) for prompt, (tokens, finished) in sums.items()}

    def _moved(self, replay: Replay) -> Iterator[float]:
        """Yield by what share each prompt's evidence moved the replayed steps of the run."""
        chances = self.chances
        if chances.learnt is None:
            return repeat(0.0, len(self._evidence))
        base = self._steps_per_token(replay)

        def slope(nudged: Chances) -> float:
            return (base - self._steps_per_token(replace(replay, chances=nudged, moves={}))) / (base * _NUDGE)

        by_after_full = slope(replace(chances, after_full=chances.after_full - _NUDGE))
        by_decay = slope(replace(chances, decay=chances.decay - _NUDGE))
        by_position = [slope(each) for each in chances.nudged_positions(_NUDGE)]
        positions = [0.0] * len(self._evidence)
        columns = zip(by_position, chances.by_position, self._tallies.reached, self._tallies.at_risk, strict=True)
        for by, chance, reached, at_risk in columns:
            if by:
                share = by / sum(at_risk)
                terms = zip(positions, reached, at_risk, strict=True)
                positions = [sofar + share * (right - chance * tried) for sofar, right, tried in terms]
        moves = chances.moved_by(self._evidence.values())
        return (
            by_after_full * after_full + by_decay * decay + more
            for (after_full, decay), more in zip(moves, positions, strict=True)
        )

    def _steps_per_token(self, replay: Replay) -> float:
        replayed = [replay.request(steps) for steps in self._sample]
        return sum(steps for _, steps in replayed) / sum(tokens for tokens, _ in replayed)


def _cut(report: SpecDecodeAcceptanceRecord) -> int:
    """Return how many tokens of a request's last step were not part of the output."""
    given = report.num_accepted_draft_tokens + report.num_spec_steps + 1
    return max(0, given - report.completion_tokens) if report.completion_tokens else 0
