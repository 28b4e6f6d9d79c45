"""Build request bodies for chat and text completions."""

from __future__ import annotations

from typing import Any

from aiperf_spec.choices import EndpointType
from aiperf_spec.config import ProfileConfig
from aiperf_spec.workload.prompts import Prompt

MAX_TOKENS_KEYS = ("max_tokens", "max_completion_tokens")


def build_body(config: ProfileConfig, model: str, prompts: tuple[Prompt, ...]) -> dict[str, Any]:
    """Return the request body for one prompt, or for several on completions.

    What `extra_inputs` say wins over what options say. A streaming body always asks for usage, unless `extra_inputs`
    set `stream_options.include_usage` themselves.
    """
    body: dict[str, Any] = {"model": model}
    if config.endpoint_type is EndpointType.CHAT:
        body["messages"] = prompts[0].as_messages()
    else:
        texts = [prompt.as_text() for prompt in prompts]
        body["prompt"] = texts if config.batch_size_text > 1 else texts[0]
    body["stream"] = config.streaming
    if config.temperature is not None:
        body["temperature"] = config.temperature
    extra = dict(config.extra_inputs)
    options = extra.pop("stream_options", None)
    # Only one of the two names may be sent: servers refuse, or silently prefer one of, both.
    if config.max_tokens is not None and not any(key in extra for key in MAX_TOKENS_KEYS):
        body[_max_tokens_key(config)] = config.max_tokens
    body.update(extra)
    if config.streaming:
        merged = options if isinstance(options, dict) else {}
        body["stream_options"] = {"include_usage": True, **merged}
    return body


def _max_tokens_key(config: ProfileConfig) -> str:
    if config.endpoint_type is EndpointType.CHAT and not config.use_legacy_max_tokens:
        return "max_completion_tokens"
    return "max_tokens"


def asks_for_several_sequences(body: dict[str, Any]) -> bool:
    """Say whether the body asks for more than one sequence: n, best_of, or several prompts."""
    for key in ("n", "best_of"):
        value = body.get(key)
        if isinstance(value, int | float) and value > 1:
            return True
    prompt = body.get("prompt")
    # A list of integers is one prompt of token ids; a list of strings or of lists is a batch.
    return isinstance(prompt, list) and len(prompt) > 1 and not all(isinstance(item, int) for item in prompt)


def asks_for_usage(body: dict[str, Any]) -> bool:
    """Say whether a streaming body asks for usage; a non-streaming response brings it unasked."""
    if not body.get("stream"):
        return True
    options = body.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True
