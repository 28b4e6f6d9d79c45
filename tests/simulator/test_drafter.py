from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_spec.simulator.drafter import (
    Draw,
    acceptance_curve,
    digest,
    draw_sequence,
    easy_places,
    natural_length,
    uniform,
)
from aiperf_spec.simulator.text import CATEGORIES, CATEGORY_ACCEPTANCE

draws = st.builds(
    draw_sequence,
    st.integers(0, 2**128 - 1),
    first_acceptance=st.floats(0, 1),
    draft_length=st.integers(1, 9),
    max_tokens=st.integers(1, 300),
    min_tokens=st.integers(0, 50),
    ignore_eos=st.booleans(),
    short_drafts=st.booleans(),
    stretch_tokens=st.none() | st.integers(1, 50),
    undrafted_share=st.sampled_from((0.0, 0.5, 1.0)),
    pads_drafts=st.booleans(),
)


@given(draws)
def test_identities(draw: Draw) -> None:
    assert len(draw.accepted) == len(draw.drafted) == draw.steps == draw.decode_steps - len(draw.undrafted)
    assert all(0 <= a <= d for a, d in zip(draw.accepted, draw.drafted, strict=True))
    assert draw.chunks[0] == 1
    assert all(draw.chunks[step] == 1 for step in draw.undrafted)
    verified = [draw.chunks[step] for step in range(1, len(draw.chunks)) if step not in draw.undrafted]
    assert all(c == a + 1 for c, a in zip(verified[:-1], draw.accepted[:-1], strict=True))
    if draw.steps:
        assert 1 <= verified[-1] <= draw.accepted[-1] + 1
    histogram = draw.dense_histogram(4)
    assert sum(histogram) == draw.steps
    assert sum(j * steps for j, steps in enumerate(histogram)) == draw.num_accepted
    assert len(histogram) == 4 or (len(histogram) > 4 and histogram[-1])
    assert draw.completion_tokens <= draw.num_accepted + draw.decode_steps + 1


@given(draws, st.integers(0, 400))
def test_head_is_a_prefix(draw: Draw, steps: int) -> None:
    head = draw.head(steps)
    assert head.decode_steps == min(steps, draw.decode_steps)
    assert head.steps == head.decode_steps - len(head.undrafted)
    assert draw.accepted[: head.steps] == head.accepted
    assert head.completion_tokens <= draw.completion_tokens


@given(st.integers(0, 2**128 - 1), st.integers(1, 200), st.integers(1, 200))
def test_a_limit_only_cuts(seed: int, one: int, other: int) -> None:
    settings: dict[str, Any] = {"first_acceptance": 0.7, "draft_length": 5, "short_drafts": True}
    short = draw_sequence(seed, max_tokens=min(one, other), **settings)
    long = draw_sequence(seed, max_tokens=max(one, other), **settings)
    assert long.accepted[: short.steps] == short.accepted
    assert long.drafted[: short.steps] == short.drafted


@given(st.integers(0, 2**128 - 1), st.integers(1, 400), st.integers(0, 400))
def test_length(seed: int, limit: int, least: int) -> None:
    settings: dict[str, Any] = {"first_acceptance": 0.7, "draft_length": 5}
    forced = draw_sequence(seed, max_tokens=limit, ignore_eos=True, **settings)
    assert (forced.completion_tokens, forced.finish_reason) == (limit, "length")
    free = draw_sequence(seed, max_tokens=limit, min_tokens=least, **settings)
    natural = max(natural_length(seed), least)
    assert free.completion_tokens == min(limit, natural)
    assert free.finish_reason == ("stop" if natural <= limit else "length")


def test_one_token_needs_no_verify_step() -> None:
    draw = draw_sequence(1, first_acceptance=0.9, draft_length=5, max_tokens=1)
    assert (draw.steps, draw.chunks, draw.finish_reason) == (0, (1,), "length")


def test_acceptance_follows_the_curve() -> None:
    draw = draw_sequence(7, first_acceptance=0.8, draft_length=4, max_tokens=60_000, ignore_eos=True)
    survivors = draw.steps
    for position, probability in enumerate(acceptance_curve(0.8, 4), start=1):
        reached = sum(a >= position for a in draw.accepted)
        assert abs(reached / survivors - probability) < 0.02
        survivors = reached


def test_short_drafts_happen_only_where_asked_for() -> None:
    settings: dict[str, Any] = {"first_acceptance": 0.7, "draft_length": 5, "max_tokens": 4000}
    settings["ignore_eos"] = True
    assert set(draw_sequence(3, **settings).drafted) == {5}
    short = draw_sequence(3, short_drafts=True, **settings)
    assert set(short.drafted) > {5}
    assert short.num_drafted < 5 * short.steps


@pytest.mark.parametrize("pads", [False, True])
def test_a_drafter_often_finds_nothing(pads: bool) -> None:
    settings: dict[str, Any] = {"first_acceptance": 0.7, "draft_length": 5, "max_tokens": 20_000, "ignore_eos": True}
    draw = draw_sequence(5, undrafted_share=0.6, pads_drafts=pads, **settings)
    whole = draw_sequence(5, **settings)
    if pads:
        assert draw.undrafted == ()
        assert draw.num_drafted == 5 * draw.steps == 5 * draw.decode_steps
        assert abs(1 + draw.num_accepted / draw.steps - (1 + 0.4 * whole.num_accepted / whole.steps)) < 0.05
    else:
        assert abs(len(draw.undrafted) / draw.decode_steps - 0.6) < 0.02
        assert draw.accepted == whole.accepted[: draw.steps]


def test_easy_text_is_accepted_better_wherever_it_stands() -> None:
    settings: dict[str, Any] = {"first_acceptance": 0.5, "max_tokens": 20_000, "ignore_eos": True}
    for k in (1, 4):
        draw = draw_sequence(5, draft_length=k, stretch_tokens=30, **settings)
        easy = easy_places(5, 20_000 + k, 30)
        starts = list(accumulate(draw.chunks))[:-1]
        for wanted, chance in ((True, 0.8), (False, 0.2)):
            first = [a > 0 for a, start in zip(draw.accepted, starts, strict=True) if easy[start] is wanted]
            assert abs(sum(first) / len(first) - chance) < 0.03
        changes = sum(one != other for one, other in pairwise(easy))
        assert abs(len(easy) / (changes + 1) - 30) < 4


def test_digest_is_stable_and_unambiguous() -> None:
    assert digest(0, "m", "hello", 0) == 0x69EB98CE838E8C957CABC18D986BC3F9
    assert digest("ab", "c") != digest("a", "bc")
    assert 0 <= uniform("x") < 1


def test_every_category_has_an_acceptance() -> None:
    assert set(CATEGORY_ACCEPTANCE) == set(CATEGORIES)
