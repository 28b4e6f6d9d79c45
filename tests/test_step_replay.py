"""Requests replayed with shorter drafts, held against drafts that were drawn at the shorter length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from statistics import stdev

import pytest

from aiperf_spec.analysis.chances import Chances, Evidence
from aiperf_spec.analysis.clusters import Terms
from aiperf_spec.analysis.positions import drafting, tally_all
from aiperf_spec.analysis.step_replay import Replay, Replays, coded, from_histogram
from aiperf_spec.analysis.whatif import what_if
from aiperf_spec.models.acceptance import SpecDecodeAcceptanceRecord
from aiperf_spec.models.run import RequestRecord
from tests.bench.what_if import SHORTER, TEXTS, drawn, errors, held, length
from tests.simulated_runs import request


def report_of(record: RequestRecord) -> SpecDecodeAcceptanceRecord:
    assert record.acceptance is not None
    return record.acceptance


def replays(records: Sequence[RequestRecord], chances: Chances | None = None) -> Replays:
    found = Replays(records, tally_all(records, drafting([report_of(record) for record in records])))
    found.chances = chances or found.chances
    return found


def steps_of(right: Sequence[bool], k: int, tokens: int | None = None) -> list[int]:
    """Draft for text in which a draft token is right at these places and no other, until it has so many tokens."""
    steps, place = [], 0
    while place < (len(right) if tokens is None else tokens):
        ends = (i for i in range(k) if place + i >= len(right) or not right[place + i])
        steps.append(next(ends, k))
        place += steps[-1] + 1
    return steps


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_a_text_whose_places_are_all_known_is_replayed_exactly(k: int) -> None:
    random = Random(3)
    # No more than 5 right places in a row: drafts of 6 are never accepted whole.
    right = [place for _ in range(400) for place in (*[True] * random.randint(0, 5), False)]
    replay = Replay(k, Chances((0.5,) * 6, 0.5))
    for tokens in range(1, 400):
        steps, shorter = steps_of(right, 6, tokens), steps_of(right, k, tokens)
        assert max(steps) < 6
        cut = sum(steps) + len(steps) - tokens
        assert replay.request(steps, cut) == (sum(shorter) + len(shorter), len(shorter))


@pytest.mark.parametrize("right", [True, False])
def test_the_place_after_a_full_draft_has_the_chance_that_it_is_given(right: bool) -> None:
    text = [True, True, True, right, True, False]
    replay = Replay(1, Chances((0.9,) * 3, 1.0 if right else 0.0))
    assert steps_of(text, 3) == [3, 1]
    assert replay.request([3, 1]) == (6, len(steps_of(text, 1)))
    half = Replay(1, Chances((0.9,) * 3, 0.5)).request([3, 1])
    assert half == (6, (len(steps_of([*text[:3], False, *text[4:]], 1)) + len(steps_of([*text[:3], True], 1)) + 1) / 2)


def test_a_step_that_the_end_cuts_is_counted_with_the_tokens_that_it_would_still_give() -> None:
    # Two tokens and the untried one: a step of 2 + 1 and nothing more, or, of drafts of 3, a third draft and a bonus.
    assert Replay(2, Chances((0.9,) * 2, 0.5)).request([2]) == (3, 1)
    chances = Chances((0.9,) * 4, 0.5)
    # After 4 right places drafts of 2 have given 3 and are in the next step with 1; the 5th is right or ends it.
    assert Replay(2, chances).request([4]) == (5 + 0.5, 2)


def test_drafts_that_ended_short_stay_short_or_go_on() -> None:
    record = request(0, (1, 0, 1, 2), drafted=(1, 2, 2, 2), k=2)
    steps = coded(report_of(record), 2)
    assert steps == bytes([4, 0, 1, 2])
    chances = Chances((0.75, 0.5), 0.5)
    assert Replay(2, chances, short_stay=True).request(steps) == (8, 4)
    # Where the token after the draft of 1 would have been right, the token that the next step rejected is the bonus.
    assert Replay(2, chances).request(steps) == (8, 3.5)


def test_a_drafter_that_gets_worse_with_the_position_is_better_from_nearer() -> None:
    chances = Chances((0.8, 0.6, 0.45), 0.45, 0.75)
    tokens, steps = Replay(1, chances).request([2])
    # Right, bonus; then the token that was wrong at position 3 is drafted for at position 1.
    chance = (0.75**-2 - 1) * 0.45 / 0.55
    assert (tokens, steps) == (3 + chance, 2)
    assert Replay(1, Chances((0.8, 0.6, 0.45), 0.45)).request([2]) == (3, 2)


def test_steps_of_other_draft_lengths_are_told_apart() -> None:
    assert coded(report_of(request(0, (0, 2), k=2)), 3) == bytes([0, 6])
    assert coded(report_of(request(0, (0, 3), k=3)), 3) == (0, 3)
    assert coded(report_of(request(0, (0, 0), k=0)), 3) == bytes([4, 4])
    assert coded(report_of(request(0, (0, 3), k=3, per_step=False)), 3) is None


def test_a_histogram_gives_the_tokens_of_its_request_in_more_steps() -> None:
    report = report_of(request(0, (0, 1, 4, 2), per_step=False))
    tokens, steps = from_histogram(report, 2, Chances((0.75, 0.5, 0.25, 0.25), 0.25))
    assert tokens == 11
    assert tokens / steps == pytest.approx(1 + 5 / 4)
    short = report_of(request(0, (0, 2), k=2, per_step=False))
    tokens, steps = from_histogram(short, 3, Chances((0.75, 0.5, 0.25), 0.25))
    assert tokens == 4
    assert tokens / steps == pytest.approx(1 + (2 + 0.25) / 2)


def test_decay_is_told_from_easy_text() -> None:
    for name, decay in (("the simulator's mix", 0.93), ("categories of 0.9 and 0.3", 0.93)):
        assert replays(drawn(TEXTS[name], 6, 3000, 9)).chances.decay == pytest.approx(decay, abs=0.015)
    random = Random(1)
    runs = [[random.random() < 0.9 for _ in range(40)] + [random.random() < 0.3 for _ in range(40)] for _ in range(600)]
    fixed = [request(i, tuple(steps_of(right, 4))) for i, right in enumerate(runs)]
    assert replays(fixed).chances.decay > 0.985


def test_evidence_leaves_the_full_draft_itself_out() -> None:
    # Of 3 drafts that came to the last token 2 accepted it: of the 2 others than a full one, 1 did.
    found = Evidence.of([4, 1, 4, 0, 3], 4)
    assert (found.first, found.last, found.followers) == (1, 2 * 1 / 2, 2)
    assert Evidence.of([4, 1], 4).followers == Evidence.of([0, 3, 3], 4).followers == 0


def test_evidence_counts_the_two_places_behind_right_tokens() -> None:
    # Behind one right token came a second in 4, 2, 4 and 3, and behind two a third in 4, 4 and 3. The places behind
    # those were right in 4, 4 and 3 and in 4 and 4, and at the step after the first 2.
    evidence = Evidence.of([4, 2, 1, 0, 4, 3, 2, 5, 2], 4)
    assert evidence.pairs == {(4, True): 2, (2, True): 1, (1, False): 1, (0, True): 1, (3, True): 1}
    assert evidence.behind(4, 1.0) == (4 + 3, 3 + 2 + 1)
    assert evidence.behind(4, 0.5) == (4 * 2 + 3 * 4, 3 * 4 + 2 * 8 + 1)


def test_what_requests_tell_of_the_chances_adds_up_to_nothing() -> None:
    records = drawn(TEXTS["the simulator's mix"], 6, 60, 4)
    found = replays(records)
    moves = found.chances.moved_by(Evidence.of(report_of(r).per_step_accepted or (), 6) for r in records)
    assert [sum(column) for column in zip(*moves, strict=True)] == pytest.approx([0, 0], abs=1e-12)
    nothing = Chances(found.chances.by_position, found.chances.after_full, found.chances.decay)
    moved, plain = (sum(steps for _, steps in each.at(2).values()) for each in (found, replays(records, nothing)))
    assert moved == pytest.approx(plain)


def test_a_bootstrap_that_learns_the_chances_anew_scatters_as_much() -> None:
    records, random = drawn(TEXTS["one category, 0.7"], 6, 60, 2), Random(2)

    def at_one(run: Sequence[RequestRecord]) -> tuple[float, list[Terms]]:
        each = [replace(record, prompt_id=f"drawn-{number}") for number, record in enumerate(run)]
        terms = list(replays(each).at(1).values())
        return sum(tokens for tokens, _ in terms) / sum(steps for _, steps in terms), terms

    def linearised(terms: Sequence[Terms]) -> float:
        return math.hypot(*(tokens - value * steps for tokens, steps in terms)) / sum(steps for _, steps in terms)

    spread = stdev(at_one(random.choices(records, k=60))[0] for _ in range(200))
    value, terms = at_one(records)
    assert linearised(terms) == pytest.approx(spread, rel=0.15)
    found = replays(records).chances
    certain = replays(records, Chances(found.by_position, found.after_full, found.decay))
    assert linearised(list(certain.at(1).values())) < 0.75 * spread


@pytest.mark.parametrize("name", TEXTS)
def test_a_replay_gives_what_shorter_drafts_give(name: str) -> None:
    for k, (_, replay, histogram) in errors(TEXTS[name], 1500).items():
        assert abs(replay) <= 0.01, (k, replay)
        if TEXTS[name].stretch_tokens and k == 1:
            assert histogram < -0.03, (k, histogram)


def test_intervals_of_replays_hold_what_shorter_drafts_give() -> None:
    text = TEXTS["one category, 0.7"]
    truths = {k: length(drawn(text, k, 3000, 1)) for k in SHORTER}
    for k, share in held(text, truths, 150, 30).items():
        assert 0.9 <= share <= 0.99, (k, share)


def test_the_best_draft_length_is_the_one_that_was_best() -> None:
    text = TEXTS["categories of 0.9 and 0.3"]
    lengths = {k: length(drawn(text, k, 1500, 1)) for k in range(1, 7)}
    records = drawn(text, 6, 1500, 1)
    known = drafting([report_of(record) for record in records])
    tallies = tally_all(records, known)
    for cost in (0.1, 0.25, 0.5):
        speeds = {k: lengths[k] / (1 + cost * k) for k in lengths}
        found = what_if(records, known, tallies, draft_cost=cost)
        assert found.best == max((0, *speeds), key=lambda k: speeds.get(k, 1.0))
        for each in found.lengths:
            assert each.speedup is not None
            assert each.speedup.value == pytest.approx(speeds[each.k], rel=0.01)
    # By the position alone, drafts of one token would be slower than none at the last cost; they are faster.
    assert (1 + sum(tallies.reached[0]) / sum(tallies.steps)) / 1.5 < 1 < speeds[1]
