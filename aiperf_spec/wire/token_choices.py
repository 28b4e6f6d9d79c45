"""The tokens of an answer with the log-probabilities that the server listed.

Chat lists them under `choices[].logprobs.content[]` (`token`, `bytes`, `logprob`, `top_logprobs[]` of the same),
completions under `choices[].logprobs` in parallel lists (`tokens`, `token_logprobs`, `top_logprobs[]` by token), as
vLLM 0.32.0 and SGLang 0.5.23 send them. llama.cpp b11434 has the form of chat for both. With a drafter it lists none
for the tokens of a draft: a stream leaves them out, a body has a `logprob` of 0 without others.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from aiperf_spec.models.response import TokenChoice
from aiperf_spec.wire.chunk import parse_event
from aiperf_spec.wire.sse import SSEEvent


def token_choices(events: Iterable[bytes]) -> list[TokenChoice]:
    """Return the tokens of an answer from the data of its events; text without listed tokens is one choice an event."""
    return [choice for data in events for choice in _of_event(data)]


def _of_event(data: bytes) -> Iterator[TokenChoice]:
    listed = list(_listed(data))
    if listed:
        yield from listed
    elif (said := parse_event(SSEEvent(data), 0, ())) is not None and (text := said.reasoning + said.text):
        yield TokenChoice(_bytes(text))


def _listed(data: bytes) -> Iterator[TokenChoice]:
    try:
        found = orjson.loads(data)["choices"][0]["logprobs"]
        if isinstance(content := found.get("content"), list):
            yield from map(_of_chat, content)
        else:
            yield from map(_of_completions, found["tokens"], found["token_logprobs"], found["top_logprobs"])
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return  # none, or in a form that nobody sends


def _of_chat(found: dict[str, Any]) -> TokenChoice:
    others = tuple((_token(other), float(other["logprob"])) for other in found.get("top_logprobs") or ())
    return _choice(_token(found), found["logprob"], others)


def _of_completions(token: str, logprob: float | None, top: dict[str, float] | None) -> TokenChoice:
    return _choice(_bytes(token), logprob, tuple((_bytes(other), float(of)) for other, of in (top or {}).items()))


def _choice(token: bytes, logprob: float | None, listed: tuple[tuple[bytes, float], ...]) -> TokenChoice:
    others = tuple(each for each in listed if each[0] != token)
    # Beside nothing, the figure says nothing of a choice, and llama.cpp's 0 is none.
    return TokenChoice(token, float(logprob), others) if others and logprob is not None else TokenChoice(token)


def _token(found: dict[str, Any]) -> bytes:
    # A token may be a part of a character, of which only the bytes tell.
    known = found.get("bytes")
    return bytes(known) if known and isinstance(known, list) else _bytes(found["token"])


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
