"""The tokens of answers with their log-probabilities, from what the engines really sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aiperf_spec.wire.token_choices import token_choices
from tests.derive_expected import events_of, logprobs_of, texts_of

WIRE = Path(__file__).parent / "wire"
LISTED_ALL = (
    "vllm/chat-stream-logprobs-usage.sse",
    "vllm/chat-nonstream-logprobs.json",
    "vllm/completions-stream-logprobs-usage.sse",
    "sglang/chat-stream-logprobs.sse",
    "sglang/nospec-server-chat-stream-toplogprobs-usage.sse",
    "sglang/completions-stream-logprobs.sse",
    "llama_cpp/nospec-completions-stream-logprobs-usage.sse",
)
ALONE = ("vllm/chat-stream-logprobs-usage.sse", "sglang/chat-stream-logprobs.sse")
"""Here nothing is listed beside the token itself: the requests asked for no two."""
DRAFTED = ("llama_cpp/chat-stream-logprobs-usage.sse", "llama_cpp/completions-nonstream-logprobs.json")


@pytest.mark.parametrize("name", LISTED_ALL + DRAFTED)
def test_tokens_are_those_of_the_answer(name: str) -> None:
    events = events_of(WIRE / name)
    choices = token_choices(json.dumps(event).encode() for event in events)
    assert b"".join(choice.token for choice in choices).decode() == "".join(texts_of(event)[0] for event in events)
    told = [choice for choice in choices if choice.others]
    beside = [row for row in logprobs_of(events) if len(row[2]) > 1]
    assert [(choice.token.decode(), choice.logprob) for choice in told] == [row[:2] for row in beside]
    assert [{t.decode(): p for t, p in choice.others} for choice in told] == [
        {token: logprob for token, logprob in top.items() if token != own} for own, _, top in beside
    ]
    assert bool(told) is (name not in ALONE)
    if name in LISTED_ALL:
        assert len(choices) == len(logprobs_of(events))
    else:
        assert all(choice.logprob is None for choice in choices if not choice.others)
        assert len(told) < len(choices) == 16


def test_a_token_may_be_a_part_of_a_character() -> None:
    parts = [{"token": "�", "bytes": [byte], "logprob": -1.0, "top_logprobs": []} for byte in "é".encode()]
    event = {"choices": [{"delta": {"content": "é"}, "logprobs": {"content": parts}}]}
    assert b"".join(choice.token for choice in token_choices([json.dumps(event).encode()])).decode() == "é"


def test_bytes_that_are_a_number_are_no_bytes() -> None:
    # Made into bytes, the number would be a size: all the memory there is.
    token = {"token": "so", "bytes": 1 << 60, "logprob": -1.0, "top_logprobs": []}
    event = {"choices": [{"delta": {"content": "so"}, "logprobs": {"content": [token]}}]}
    assert [choice.token for choice in token_choices([json.dumps(event).encode()])] == [b"so"]


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        [],
        {"content": [{"token": 3}]},
        {"content": [{"token": "a", "logprob": "?", "top_logprobs": [1]}]},
        {"tokens": ["a"], "token_logprobs": None, "top_logprobs": None},
        {"tokens": 3},
    ],
)
def test_what_nobody_sends_costs_no_more_than_itself(logprobs: Any) -> None:
    events = [{"choices": [{"text": "so", "logprobs": logprobs}]}, {"choices": []}, {"choices": [{"text": "."}]}]
    found = token_choices([*(json.dumps(event).encode() for event in events), b"[DONE]", b"{"])
    assert [(choice.token, choice.others) for choice in found] == [(b"so", ()), (b".", ())]
