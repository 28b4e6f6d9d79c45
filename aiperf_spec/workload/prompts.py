"""Prompts, and the order in which a run sends them."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from aiperf_spec.config.choices import SamplingStrategy

Messages = tuple[dict[str, Any], ...]


@dataclass(slots=True, frozen=True)
class Prompt:
    """One prompt, for either endpoint: a text, or the messages of a chat as the file gave them.

    With `later` turns it opens a conversation: each entry is the messages that the user adds after an answer.
    """

    id: str
    text: str | None = None
    messages: Messages | None = None
    category: str | None = None
    output_length: int | None = None
    """Tokens that its answers may have, where its row says so."""
    extra: Mapping[str, Any] | None = None
    """Fields of the request body that its row sets."""
    payload: Mapping[str, Any] | None = None
    """The request body itself, where the row is one."""
    later: tuple[Messages, ...] = ()

    def after(self, answer: dict[str, Any]) -> Self:
        """Return the prompt of the next turn: what was said so far, the server's answer, the user's next messages."""
        return replace(self, text=None, messages=(*self.as_messages(), answer, *self.later[0]), later=self.later[1:])

    def cut(self, later_turns: int) -> Self:
        """Return the prompt with at most this many turns after its first."""
        return self if len(self.later) <= later_turns else replace(self, later=self.later[:later_turns])

    def as_messages(self) -> list[dict[str, Any]]:
        """Return the messages for the chat endpoint; a text becomes one user message."""
        if self.messages is not None:
            return list(self.messages)
        return [{"role": "user", "content": self.text}]

    def as_text(self) -> str:
        """Return the prompt for the completions endpoint: texts of several messages joined by a blank line."""
        if self.text is not None:
            return self.text
        return "\n\n".join(text for message in self.messages or () if (text := message_text(message)))


def message_text(message: dict[str, Any]) -> str:
    """Return the text of a message's content, of its text parts where it has parts."""
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
