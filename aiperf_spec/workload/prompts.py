"""Prompts, and the order in which a run sends them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aiperf_spec.choices import SamplingStrategy


@dataclass(slots=True, frozen=True)
class Prompt:
    """One prompt, for either endpoint: a text, or the messages of a chat as the file gave them."""

    id: str
    text: str | None = None
    messages: tuple[dict[str, Any], ...] | None = None
    category: str | None = None

    def as_messages(self) -> list[dict[str, Any]]:
        """Return the messages for the chat endpoint; a text becomes one user message."""
        if self.messages is not None:
            return list(self.messages)
        return [{"role": "user", "content": self.text}]

    def as_text(self) -> str:
        """Return the prompt for the completions endpoint: texts of several messages joined by a blank line."""
        if self.text is not None:
            return self.text
        return "\n\n".join(text for message in self.messages or () if (text := _message_text(message)))


def _message_text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = (part.get("text") for part in content if isinstance(part, dict))
    return "\n".join(part for part in parts if isinstance(part, str))


def order(prompts: tuple[Prompt, ...], strategy: SamplingStrategy, seed: int) -> Iterator[Prompt]:
    """Yield prompts without end; the same arguments give the same order.

    `sequential` cycles through them, `shuffle` goes through all of them in a new order each pass, `random` draws each
    one from all of them.
    """
    generator = random.Random(seed)
    while True:
        if strategy is SamplingStrategy.RANDOM:
            yield generator.choice(prompts)
            continue
        one_pass = list(prompts)
        if strategy is SamplingStrategy.SHUFFLE:
            generator.shuffle(one_pass)
        yield from one_pass
