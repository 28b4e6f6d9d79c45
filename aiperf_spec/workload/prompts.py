"""Prompts, and the order in which a run sends them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, NamedTuple, Self

from aiperf_spec.config.choices import SamplingStrategy

Messages = tuple[dict[str, Any], ...]


class TurnSettings(NamedTuple):
    """What one turn of a conversation asks for: settings as a prompt has them, and when it is sent."""

    output_length: int | None
    extra: Mapping[str, Any] | None
    delay_ms: float = 0.0
    due_ms: float | None = None


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
    later_settings: tuple[TurnSettings, ...] = ()
    """One for each later turn; empty where they ask for what the first one does, at once."""
    delay_ms: float = 0.0
    """How long the user takes before this turn, from the end of the answer before."""
    due_ms: float | None = None
    """When this turn is due, after the start of the trace; None without `--fixed-schedule`."""
    content_hash: str = field(default="", compare=False, repr=False)
    """Of what the model reads, whatever id and settings its row has; all turns of a conversation have their first's."""

    def __post_init__(self) -> None:
        """Make the hash, once for every copy of the prompt: a run sends each many times."""
        if not self.content_hash:
            object.__setattr__(self, "content_hash", _content_hash(self))

    def after(self, answer: dict[str, Any]) -> Self:
        """Return the prompt of the next turn: what was said so far, the server's answer, the user's next messages."""
        settings = self.later_settings[0] if self.later_settings else TurnSettings(self.output_length, self.extra)
        return replace(
            self,
            text=None,
            messages=(*self.as_messages(), answer, *self.later[0]),
            output_length=settings.output_length,
            extra=settings.extra,
            delay_ms=settings.delay_ms,
            due_ms=settings.due_ms,
            later=self.later[1:],
            later_settings=self.later_settings[1:],
        )

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


_READ_BY_THE_MODEL = ("messages", "prompt", "suffix", "tools", "functions")


def _content_hash(prompt: Prompt) -> str:
    payload = prompt.payload
    if payload is not None:
        content: Any = {key: payload[key] for key in _READ_BY_THE_MODEL if key in payload} or payload
    else:
        content = {"messages": prompt.as_messages(), **({"later": prompt.later} if prompt.later else {})}
        content |= {key: value for key, value in (prompt.extra or {}).items() if key in _READ_BY_THE_MODEL}
    # ASCII, so that a lone surrogate has bytes too.
    return hashed(json.dumps(content, sort_keys=True, default=str).encode())


def hashed(data: bytes) -> str:
    """Return 16 hexadecimal digits: of a million prompts, no two share them but once in 30 million times."""
    return blake2b(data, digest_size=8).hexdigest()


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
