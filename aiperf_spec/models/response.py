"""What the parser makes of one event of a response."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, frozen=True)
class Usage:
    """Token counts as the server reports them; None where it does not."""

    prompt_tokens: int | None
    completion_tokens: int | None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    """Of the prompt, what the server had in its prefix cache."""


@dataclass(slots=True, frozen=True)
class PromptAndAnswer:
    """The last text that a request asked, and the text of its answer, reasoning included."""

    prompt: str
    answer: str


@dataclass(slots=True, frozen=True)
class TokenChoice:
    """One token of an answer, and what the model held of it and of others at its place.

    `logprob` is in nats. `others` are the tokens listed beside it with theirs. Without a `logprob` the server listed
    none here, and `token` is the text of an event, which may be several tokens.
    """

    token: bytes
    logprob: float | None = None
    others: tuple[tuple[bytes, float], ...] = ()


@dataclass(slots=True)
class Answer:
    """What tells a request's answer from others, and how it was asked for.

    The answer is its reasoning, its text and its tool calls without their ids, which are new each time.
    """

    hash: str
    characters: int
    temperature: float | None = None
    """What the request's body held; None where it left the temperature to the server."""
    seeded: bool = False
    """Whether the body held a seed."""
    text: str | None = None
    """The answer itself, without secrets; None where the run did not keep it."""
    choices: Sequence[TokenChoice] | None = None
    """Its tokens, where they were read back from the raw level; in no file."""


@dataclass(slots=True)
class ParsedResponse:
    """Hold an event of a streaming response, several that differ in text alone, or the whole body of another.

    `arrival_ns` is the monotonic time at which its last byte was read. `text` joins content and completion
    text of its choices, `reasoning` their reasoning text. `spec_decode_stats` is the object that an adapter's
    payload path found: a mapping, or a list where the engine sent one or several choices carried one; None where
    there is none or it is empty.
    """

    arrival_ns: int
    text: str = ""
    reasoning: str = ""
    is_content: bool = False
    choice_indices: tuple[int, ...] = ()
    arrivals_ns: array[int] | None = None
    """Arrivals of the events that this stands for: those in a row that differ in text alone are kept together."""
    finish_reasons: tuple[str, ...] = ()
    usage: Usage | None = None
    spec_decode_stats: Any = None
    engine_timings: dict[tuple[str, ...], dict[str, Any]] | None = None
    """The objects with an engine's own measurements of the request, by the path at which they were found."""
    unread_fields: tuple[str, ...] = ()
    """Fields of its deltas that carry text and are not known; looked for where there is no content."""
    tool_calls: tuple[dict[str, Any], ...] = ()
    """Tool calls, or the pieces of them that a stream brings, as they came."""
    error: str | None = None
    """The server's message, where the event reports a failure."""
    malformed: bool = False
    """Whether `error` is ours, because the event could not be read."""
    is_done: bool = False
    """Whether this is the end mark `[DONE]`."""


def last_usage(responses: list[ParsedResponse]) -> Usage | None:
    """Return the last usage reported: running usage counts up, so it is never summed."""
    for response in reversed(responses):
        if response.usage is not None:
            return response.usage
    return None
