"""Build request bodies for chat and text completions."""

import math
from collections.abc import Mapping
from typing import Any

from aiperf_spec.config.choices import EndpointType
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.workload.prompts import Prompt, message_text
from aiperf_spec.workload.row_settings import MAX_TOKENS_KEYS

_MAX_SAMPLES = 1_000_000
"""Beyond what any server answers to one request."""


def build_body(config: ProfileConfig, model: str, prompts: tuple[Prompt, ...]) -> dict[str, Any]:
    """Return the request body for one prompt, or for several on completions.

    What `extra_inputs` say wins over what options say. A streaming body always asks for usage, unless `extra_inputs`
    set `stream_options.include_usage` themselves, or `stream_options` to null, which leaves it out. What a prompt's own
    row says wins over both.
    """
    first = prompts[0]
    if first.payload is not None:
        return _own_body(config, model, first.payload)
    body: dict[str, Any] = {"model": model}
    if config.endpoint_type is EndpointType.CHAT:
        body["messages"] = first.as_messages()
    else:
        texts = [prompt.as_text() for prompt in prompts]
        body["prompt"] = texts if config.batch_size_text > 1 else texts[0]
    body["stream"] = config.streaming
    body.update(config.sent_options)
    extra = dict(config.extra_inputs)
    options = extra.pop("stream_options", {})
    # Only one of the two names may be sent: servers refuse, or silently prefer one of, both.
    named = [key for key in MAX_TOKENS_KEYS if key in extra]
    if config.max_tokens is not None and not named:
        body[_max_tokens_key(config)] = config.max_tokens
    body.update(extra)
    own = [*(first.extra or {}).items()]
    if first.output_length is not None:
        own.insert(0, (named[0] if named else _max_tokens_key(config), first.output_length))
    for key, value in own:
        if key in MAX_TOKENS_KEYS:
            for name in MAX_TOKENS_KEYS:
                body.pop(name, None)
        body[key] = value
    if (merged := _stream_options(config, options)) is not None:
        body["stream_options"] = merged
    return body


def _own_body(config: ProfileConfig, model: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    # A row that is a body is sent as it stands. Options fill what it does not say; only whether it streams is the
    # run's to decide, because the responses are read, and timed, accordingly.
    body = dict(payload)
    body.setdefault("model", model)
    extra = dict(config.extra_inputs)
    for name, value in config.sent_options.items():
        extra.setdefault(name, value)
    options = extra.pop("stream_options", {})
    own_options = body.pop("stream_options", {})
    if not any(key in body or key in extra for key in MAX_TOKENS_KEYS) and config.max_tokens is not None:
        body[_max_tokens_key(config)] = config.max_tokens
    for key, value in extra.items():
        if key not in MAX_TOKENS_KEYS or not any(name in payload for name in MAX_TOKENS_KEYS):
            body.setdefault(key, value)
    body["stream"] = config.streaming
    if (merged := _stream_options(config, options, own_options)) is not None:
        body["stream_options"] = merged
    return body


def _stream_options(config: ProfileConfig, *given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what is asked of the stream, what stands later winning; None where it is not to be sent."""
    merged: dict[str, Any] = {"include_usage": True} if config.include_usage else {}
    for options in given:
        merged = {} if options is None else {**merged, **options}
    return merged if merged and config.streaming else None


def _max_tokens_key(config: ProfileConfig) -> str:
    if config.endpoint_type is EndpointType.CHAT and not config.use_legacy_max_tokens:
        return "max_completion_tokens"
    return "max_tokens"


def prompt_text(body: dict[str, Any]) -> str:
    """Return the text of a body's prompts, as far as it is text; what a chat template adds is not in it."""
    messages = body.get("messages")
    if isinstance(messages, list):
        return "\n\n".join(message_text(message) for message in messages if isinstance(message, dict))
    prompt = body.get("prompt")
    texts = prompt if isinstance(prompt, list) else [prompt]
    return "\n\n".join(text for text in texts if isinstance(text, str))


def output_limit(body: dict[str, Any]) -> int | None:
    """Return how many tokens the body lets an answer have; None where it does not say."""
    limit = next((body[key] for key in MAX_TOKENS_KEYS if key in body), None)
    return limit if type(limit) is int else None


def prompts_and_samples(body: dict[str, Any]) -> tuple[int, int]:
    """Return how many prompts the body has, and how many sequences (n, best_of) it asks for to each."""
    several = [number for key in ("n", "best_of") if key in body and (number := _number(body[key])) > 1]
    samples = math.ceil(min(max(several), _MAX_SAMPLES)) if several else 1
    prompt = body.get("prompt")
    # A list of integers is one prompt of token ids; a list of strings or of lists is a batch.
    is_batch = isinstance(prompt, list) and len(prompt) > 1 and not all(isinstance(item, int) for item in prompt)
    return len(prompt) if isinstance(prompt, list) and is_batch else 1, samples


def _number(value: Any) -> float:
    # Servers whose models coerce take "2" for 2.
    try:
        return float(value) if isinstance(value, int | float | str) else 0.0
    except (ValueError, OverflowError):
        return 0.0
