"""Guess the category of a prompt, count its tokens and make up the text of an answer."""

import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

import orjson

_TEXT: dict[str, Any] = orjson.loads(resources.files(__package__).joinpath("text.json").read_bytes())
_CATEGORIES: dict[str, Any] = _TEXT["categories"]
CATEGORIES: tuple[str, ...] = tuple(_CATEGORIES)
# Code and mathematics repeat themselves, prose does not: the order is what published runs agree on.
CATEGORY_ACCEPTANCE: Mapping[str, float] = {name: told["acceptance"] for name, told in _CATEGORIES.items()}
"""The probability that a first draft token is accepted."""

# (weight, pattern). What tells one category apart weighs more than what merely suits it, and the frame
# of a prompt ("summarize", "using only the context") more than its subject.
_CLUES = {
    name: [(weight, re.compile(pattern, re.IGNORECASE | re.MULTILINE)) for weight, pattern in told["clues"]]
    for name, told in _CATEGORIES.items()
}
_WORDS: dict[str, list[str]] = {name: told.get("words", _TEXT["words"]).split() for name, told in _CATEGORIES.items()}
# Of a long prompt the beginning and the end say what is wanted; the rest is material.
_EDGE = 4000


def guess_category(prompt: str) -> str:
    """Guess which of the eleven categories a prompt belongs to, "qa" when nothing tells."""
    text = prompt if len(prompt) <= 2 * _EDGE else prompt[:_EDGE] + "\n" + prompt[-_EDGE:]
    best, best_score = "qa", 0.0
    for category, clues in _CLUES.items():
        score = sum(weight * min(3, len(found)) for weight, clue in clues if (found := clue.findall(text)))
        if score > best_score:
            best, best_score = category, score
    return best


def count_tokens(text: str) -> int:
    """Estimate the number of tokens of a prompt: its words, or a quarter of its bytes if that is more."""
    return max(1, len(text.split()), len(text.encode("utf-8", "surrogatepass")) // 4)


def token_text(category: str, seed: int, position: int, *, changed: bool = False) -> str:
    """Return the text of the token at a position of an answer, or of one that begins with another sign; never empty."""
    words = _WORDS[category]
    # A multiplicative walk is enough: the text has to be stable and varied, not meaningful.
    word = words[((seed >> 7) + (position + 1) * 2654435761 + (position * position * 40503)) % len(words)]
    word = "~" + word if changed else word
    return word if position == 0 else " " + word
