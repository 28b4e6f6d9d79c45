from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_spec.simulator.text import CATEGORIES, count_tokens, guess_category, token_text
from aiperf_spec.workload.builtin import BUILTIN_PROMPTS


@pytest.mark.parametrize(("category", "prompt"), BUILTIN_PROMPTS, ids=lambda value: str(value)[:24])
def test_builtin_prompts_are_recognised(category: str, prompt: str) -> None:
    assert guess_category(prompt) == category


def test_builtin_prompts_cover_every_category() -> None:
    counts = Counter(category for category, _ in BUILTIN_PROMPTS)
    assert set(counts) == set(CATEGORIES)
    assert min(counts.values()) >= 3
    assert len({prompt for _, prompt in BUILTIN_PROMPTS}) == len(BUILTIN_PROMPTS)


@given(st.text(max_size=300))
def test_any_text_has_a_category_and_tokens(text: str) -> None:
    assert guess_category(text) in CATEGORIES
    assert count_tokens(text) >= 1


def test_a_huge_prompt_is_judged_by_its_edges() -> None:
    assert guess_category("word " * 400_000 + "Summarize the text above in two sentences.") == "summarization"


@pytest.mark.parametrize("category", CATEGORIES)
def test_answers_hold_characters_of_several_bytes(category: str) -> None:
    words = [token_text(category, 12345, position) for position in range(200)]
    assert all(words)
    assert any(ord(character) > 127 for word in words for character in word)
    assert words == [token_text(category, 12345, position) for position in range(200)]
