"""The configuration of a run, and the grammar of `--extra-inputs`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from aiperf_spec.choices import EndpointType, ExportLevel, SamplingStrategy
from aiperf_spec.errors import ConfigError
from aiperf_spec.urls import split_endpoint

_NOT_HEADER_TEXT = "a line break, another control character, or one that is not ASCII"
_RESERVED = {
    "model": "--model",
    "stream": "--streaming or --no-streaming",
    "messages": "--input-file",
    "prompt": "--input-file",
}


class ProfileConfig(BaseModel):
    """Everything that a run needs to know; frozen, so that a run is what its configuration says.

    Times are in seconds. Raises pydantic's `ValidationError` for a value out of range; `ProfileConfig.create` turns it
    into a `ConfigError` that names the option.
    """

    # An error that showed its input would show the key beside it.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    url: str = Field(repr=False)
    """host, host:port or a URL, with or without scheme, `/v1` or the whole endpoint path."""
    model: str | None = Field(default=None, min_length=1)
    """None: taken from /v1/models when it lists exactly one."""
    endpoint_type: EndpointType = EndpointType.CHAT
    streaming: bool = True
    concurrency: int = Field(default=1, ge=1)
    request_count: int | None = Field(default=None, ge=1)
    """None: once through the prompts."""
    warmup_request_count: int = Field(default=0, ge=0)
    input_file: Path | None = None
    """None: the built-in prompts."""
    dataset_sampling_strategy: SamplingStrategy = SamplingStrategy.SEQUENTIAL
    max_tokens: int | None = Field(default=None, ge=1)
    use_legacy_max_tokens: bool = False
    temperature: float | None = Field(default=None, ge=0)
    batch_size_text: int = Field(default=1, ge=1)
    extra_inputs: dict[str, Any] = Field(default_factory=dict)
    headers: tuple[tuple[str, str], ...] = Field(default=(), repr=False)
    api_key: str | None = Field(default=None, repr=False, exclude=True)
    insecure: bool = False
    """Whether certificates go unchecked."""
    ca_file: Path | None = None
    """PEM certificates to trust instead of the bundled ones."""
    use_server_token_count: bool = False
    export_level: ExportLevel = ExportLevel.RECORDS
    artifact_dir: Path | None = None
    overwrite: bool = False
    random_seed: int = 0
    rows: int = Field(default=20, ge=0)
    """Requests that the per-request table shows."""
    request_timeout_seconds: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    ready_timeout: float = Field(default=0.0, ge=0, allow_inf_nan=False)

    @classmethod
    def create(cls, **values: Any) -> Self:
        """Return the configuration, or raise `ConfigError` naming the option that is wrong."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise ConfigError(_describe(error)) from None

    @model_validator(mode="before")
    @classmethod
    def _endpoint_of_url(cls, values: Any) -> Any:
        # A URL that names the whole path says which endpoint is meant; saying otherwise beside it is a mistake.
        if not isinstance(values, dict) or not isinstance(values.get("url"), str):
            return values
        implied = split_endpoint(values["url"]).implied_endpoint
        given = values.get("endpoint_type")
        if given is None:
            return {**values, "endpoint_type": implied or EndpointType.CHAT}
        if implied is not None and implied != given:
            raise ValueError(f"--url names the {implied} endpoint, but --endpoint-type is {given}")
        return values

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        split_endpoint(url)
        return url

    @field_validator("api_key")
    @classmethod
    def _check_api_key(cls, key: str | None) -> str | None:
        if key is not None and not _is_header_text(key):
            raise ValueError(f"the key holds {_NOT_HEADER_TEXT}")
        return key

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        for name, value in headers:
            if parse_header(f"{name}:{value}")[0] != name:
                raise ValueError("a header's name holds a colon or a space")
        return headers

    @field_validator("extra_inputs")
    @classmethod
    def _check_extra_inputs(cls, extra: dict[str, Any]) -> dict[str, Any]:
        for key, option in _RESERVED.items():
            if key in extra:
                raise ValueError(f"{key!r} is set by {option}, not by --extra-inputs")
        options = extra.get("stream_options")
        if options is not None and not isinstance(options, dict):
            raise ValueError("stream_options must be a JSON object")
        return extra

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.batch_size_text > 1 and self.endpoint_type is EndpointType.CHAT:
            raise ValueError("--batch-size-text needs --endpoint-type completions: chat takes one prompt a request")
        return self


def _describe(error: ValidationError) -> str:
    problem = error.errors()[0]
    message = str(problem["msg"]).removeprefix("Value error, ")
    if not problem["loc"]:
        return message
    option = "--" + str(problem["loc"][0]).replace("_", "-")
    if problem["type"] == "value_error":
        return f"{option}: {message}"
    return f"{option} {problem['input']!r}: {message}"


def parse_extra_inputs(texts: list[str]) -> dict[str, Any]:
    """Turn the values of `--extra-inputs` into one mapping; a later value wins.

    Each is a JSON object, or `key:value` pairs with commas between them. In pairs true, false, null and numbers are
    read as such, a value that begins with [ or { as JSON, and all else as a string. Dotted keys are not split. Raises
    `ConfigError` naming the text.
    """
    merged: dict[str, Any] = {}
    for text in texts:
        stripped = text.strip()
        pairs = _json_object(stripped) if stripped.startswith("{") else _pairs(stripped)
        for key, value in pairs.items():
            # Two halves of stream_options belong together; anything else is replaced.
            if key == "stream_options" and isinstance(value, dict) and isinstance(merged.get(key), dict):
                value = {**merged[key], **value}
            merged[key] = value
    return merged


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--extra-inputs {text!r}: not a JSON object: {error}") from None
    return dict(value)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _pairs(text: str) -> dict[str, Any]:
    pairs: dict[str, Any] = {}
    position = 0
    while position < len(text):
        key, colon, _ = text[position:].partition(":")
        if not colon or not key.strip() or "," in key:
            raise ConfigError(
                f"--extra-inputs {text!r}: expected key:value, got {text[position:]!r}",
                'put commas between pairs only, or give a JSON object: \'{"key": "a,b"}\'',
            )
        position += len(key) + 1
        pairs[key.strip()], position = _value(text, position)
    if not pairs:
        raise ConfigError("--extra-inputs: expected key:value or a JSON object, got nothing")
    return pairs


def _value(text: str, start: int) -> tuple[Any, int]:
    while start < len(text) and text[start] == " ":
        start += 1
    if text[start : start + 1] in ("[", "{"):
        try:
            value, end = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"--extra-inputs {text!r}: {text[start:]!r} is not JSON: {error}") from None
        if text[end : end + 1] not in ("", ","):
            raise ConfigError(f"--extra-inputs {text!r}: expected a comma before {text[end:]!r}")
        return value, end + 1
    end = text.find(",", start)
    end = len(text) if end < 0 else end
    return _coerce(text[start:end].strip()), end + 1


def _coerce(text: str) -> Any:
    named = {"true": True, "false": False, "null": None, "none": None}
    if text.lower() in named:
        return named[text.lower()]
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        # "nan", "inf" and "1_000" are numbers to Python only; JSON has none of them.
        if (kind is int or math.isfinite(number)) and "_" not in text:
            return number
    return text


def parse_header(text: str) -> tuple[str, str]:
    """Turn `Name: value` into a pair; raise `ConfigError` naming the header, never its value."""
    name, colon, value = text.partition(":")
    name = name.strip()
    if not colon or not name or not all(33 <= ord(c) < 127 and c not in '()<>@,;\\"/[]?={}' for c in name):
        raise ConfigError("--header: expected 'Name: value'", "quote the whole header: -H 'X-Team: search'")
    value = value.strip()
    if not _is_header_text(value):
        raise ConfigError(f"--header {name!r}: the value holds {_NOT_HEADER_TEXT}")
    return name, value


def _is_header_text(value: str) -> bool:
    # What is none is refused by the HTTP client only while it sends, and would end the run there.
    return value.isascii() and value.isprintable()
