from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_spec.simulator.text import CATEGORIES, count_tokens, guess_category, token_text
from aiperf_spec.workload.dataset import builtin_prompts
from aiperf_spec.workload.prompts import Prompt


@pytest.mark.parametrize("prompt", builtin_prompts(), ids=lambda prompt: str(prompt.id))
def test_builtin_prompts_are_recognised(prompt: Prompt) -> None:
    assert guess_category(prompt.as_text()) == prompt.category


def test_builtin_prompts_cover_every_category() -> None:
    prompts = builtin_prompts()
    counts = Counter(prompt.category for prompt in prompts)
    assert set(counts) == set(CATEGORIES)
    assert min(counts.values()) >= 3
    assert len({prompt.text for prompt in prompts}) == len(prompts)


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
