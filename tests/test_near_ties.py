"""Whether answers part at a near-tie, or where the base was sure of its token."""

from __future__ import annotations

import pytest

from aiperf_spec.analysis.comparison.near_ties import Place, Untold, place_of
from aiperf_spec.models.response import Answer, TokenChoice


def choice(token: str, logprob: float | None = None, **others: float) -> TokenChoice:
    return TokenChoice(token.encode(), logprob, tuple((other.encode(), p) for other, p in others.items()))


def answer(*choices: TokenChoice, temperature: float = 0.0) -> Answer:
    text = b"".join(each.token for each in choices).decode()
    return Answer("", len(text), temperature, text=text, choices=choices)


def place(base: Answer, candidate: Answer, shared: str) -> Place:
    return place_of(base, candidate, shared)


BEGUN = choice("so", -0.1, no=-4.0)


@pytest.mark.parametrize(
    ("gap", "near_tie"), [(0.0, True), (0.09, True), (0.0999, True), (0.11, False), (5.0, False), (-0.05, True)]
)
def test_the_gap_to_the_candidates_token_decides(gap: float, near_tie: bool) -> None:
    base = answer(BEGUN, choice("me", -1.0, be=-1.0 - gap), choice("x", -0.5, y=-0.5))
    found = place(base, answer(BEGUN, choice("be", -1.0, me=-1.0)), "so")
    assert found.near_tie is near_tie
    assert found.gap == pytest.approx(gap)


def test_the_place_is_the_first_token_that_differs_and_not_the_character() -> None:
    base = answer(BEGUN, choice("mean", -1.0, meat=-1.05), choice("x", -0.5, y=-9.0))
    assert place(base, answer(BEGUN, choice("meat", -1.0)), "somea").near_tie is True
    # The same text from other tokens: they part before their texts do.
    base = answer(BEGUN, choice("m", -1.0, me=-1.05), choice("en", -0.1, ex=-9.0))
    assert place(base, answer(BEGUN, choice("me", -1.0, m=-1.1), choice("x", -0.1, n=-3)), "some").near_tie is True


def test_a_token_that_is_not_listed_is_judged_by_the_least_likely_that_is() -> None:
    base = answer(BEGUN, choice("me", -1.0, be=-1.05, he=-1.3))
    found = place(base, answer(BEGUN, choice("we", -1.0, me=-2.0)), "so")
    assert found.near_tie is False
    assert found.gap == pytest.approx(0.3)
    base = answer(BEGUN, choice("me", -1.0, be=-1.05))
    assert place(base, answer(BEGUN, choice("we", -1.0, me=-2.0)), "so").untold is Untold.UNLISTED
    # Nothing says what the candidate chose in order to end.
    assert place(base, answer(BEGUN), "so").untold is Untold.UNLISTED
    assert place(answer(BEGUN, choice("me", -1.0, be=-2.0)), answer(BEGUN), "so").near_tie is False


@pytest.mark.parametrize(
    ("base", "candidate", "untold"),
    [
        (Answer("", 1, 0.0, text="so"), answer(BEGUN), Untold.NO_EVENTS),
        (answer(BEGUN, choice("me", -1.0, be=-1.0)), Answer("", 1, 0.0), Untold.NO_EVENTS),
        (answer(choice("so"), choice("me")), answer(BEGUN, choice("be")), Untold.NO_LOGPROBS),
        (answer(BEGUN, choice("me")), answer(BEGUN, choice("be")), Untold.NOT_HERE),
        (answer(BEGUN), answer(BEGUN, choice("be")), Untold.NOT_HERE),
        (answer(BEGUN, choice("me", -1.0, be=-1.0)), answer(choice("some ice")), Untold.NO_TOKENS),
        (answer(BEGUN, choice("me", -1.0, be=-0.5)), answer(BEGUN, choice("be")), Untold.NOT_CHOSEN_BY),
        (answer(BEGUN, choice("me", -1.0, be=-1.0), temperature=0.5), answer(BEGUN), Untold.SAMPLED),
    ],
)
def test_what_is_not_known_is_said_with_its_reason(base: Answer, candidate: Answer, untold: Untold) -> None:
    assert place(base, candidate, "so") == Place(untold=untold)


def test_tokens_of_other_text_than_the_answer_say_nothing_of_it() -> None:
    # A mark of reasoning, or a token whose event was lost.
    base, candidate = (answer(choice("<think>", -0.1, a=-3.0), choice(t, -1.0, be=-1.0)) for t in ("me", "be"))
    assert place(base, candidate, "so").untold is Untold.OTHER_TEXT
    # Some servers strip the blank of the first token.
    base, candidate = (answer(choice(" so", -0.1, a=-3.0), choice(t, -1.0, be=-1.0)) for t in ("me", "be"))
    assert place(base, candidate, "so").near_tie is True


def test_a_place_within_a_character_is_found() -> None:
    begun = TokenChoice(b"\xc3", -0.1, ((b"x", -3.0),))
    base = Answer("", 1, 0.0, text="é", choices=(begun, TokenChoice(b"\xa9", -1.0, ((b"\xa8", -1.02),))))
    candidate = Answer("", 1, 0.0, text="è", choices=(begun, TokenChoice(b"\xa8", -1.0, ((b"\xa9", -1.02),))))
    assert place(base, candidate, "").near_tie is True
