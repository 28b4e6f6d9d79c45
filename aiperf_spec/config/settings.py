"""The settings of a run, and those of what is shown and judged of one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from aiperf_spec.config.choices import (
    ArrivalPattern,
    DatasetSelector,
    DatasetType,
    EndpointType,
    ExportLevel,
    SamplingStrategy,
)
from aiperf_spec.config.extra_inputs import parse_extra_inputs
from aiperf_spec.config.server_url import split_endpoint
from aiperf_spec.errors import ConfigError

__all__ = ["ProfileConfig", "ReportSettings", "create_settings", "parse_extra_inputs", "parse_header"]

_NOT_HEADER_TEXT = "a line break, another control character, or one that is not ASCII"
_RESERVED = {
    "model": "--model",
    "stream": "--streaming or --no-streaming",
    "messages": "--input-file",
    "prompt": "--input-file",
}


class _Settings(BaseModel):
    # An error that showed its input would show the key beside it.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @classmethod
    def create(cls, **values: Any) -> Self:
        """Return the settings, or raise `ConfigError` naming the option that is wrong."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise ConfigError(_describe(error)) from None


class ProfileConfig(_Settings):
    """The settings of a run: what is sent, and where it is recorded; frozen, so that a run is what they say.

    Times are in seconds. Raises pydantic's `ValidationError` for a value out of range; `ProfileConfig.create` turns it
    into a `ConfigError` that names the option.
    """

    url: str = Field(repr=False)
    """host, host:port or a URL, with or without scheme, `/v1` or the whole endpoint path."""
    model: str | None = Field(default=None, min_length=1)
    """None: taken from /v1/models when it lists exactly one."""
    endpoint_type: EndpointType = EndpointType.CHAT
    streaming: bool = True
    concurrency: int = Field(default=1, ge=1)
    request_count: int | None = Field(default=None, ge=1)
    """None: once through the prompts, or until `benchmark_duration` is over."""
    request_rate: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Requests a second on a schedule that no slow response delays; None: a closed loop."""
    arrival_pattern: ArrivalPattern = ArrivalPattern.POISSON
    benchmark_duration: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Seconds for which profiled requests are sent."""
    benchmark_grace_period: float = Field(default=30.0, ge=0, allow_inf_nan=False)
    """Seconds that requests in flight then have left."""
    workers: int = Field(default=1, ge=1, le=64)
    """Processes among which requests are split."""
    warmup_request_count: int = Field(default=0, ge=0)
    input_file: Path | tuple[Path, ...] | None = None
    """None: the built-in prompts; `-`: standard input."""
    custom_dataset_type: str = "auto"
    num_prompts: int | None = Field(default=None, ge=1)
    """None: all of them."""
    category: tuple[str, ...] = ()
    """Send prompts of these categories only."""
    skip_bad_lines: bool = False
    dataset_sampling_strategy: SamplingStrategy | None = None
    """None: sequential, but random for a random pool; `sampling` says which."""
    max_tokens: int | None = Field(default=None, ge=1)
    use_legacy_max_tokens: bool = False
    temperature: float | None = Field(default=None, ge=0)
    batch_size_text: int = Field(default=1, ge=1)
    extra_inputs: dict[str, Any] = Field(default_factory=dict)
    headers: tuple[tuple[str, str], ...] = Field(default=(), repr=False)
    api_key: str | None = Field(default=None, repr=False, exclude=True)
    api_key_env: str | None = None
    """The environment variable that the key came from, where a file named one."""
    insecure: bool = False
    """Whether certificates go unchecked."""
    ca_file: Path | None = None
    """PEM certificates to trust instead of the bundled ones."""
    use_server_token_count: bool = False
    tokenizer: str | None = Field(default=None, min_length=1)
    """A `tokenizer.json`, its folder, or a name on the hub: counts tokens, unless usage is asked for."""
    export_level: ExportLevel = ExportLevel.RECORDS
    artifact_dir: Path | None = None
    overwrite: bool = False
    random_seed: int = 0
    request_timeout_seconds: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    ready_timeout: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    server_metrics: bool = True
    """Whether the server's own metrics are read during the run."""
    server_metrics_url: tuple[str, ...] = Field(default=(), repr=False)
    """Endpoints of metrics; none: `/metrics` beside the API of `url`."""

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

    @property
    def concurrency_cap(self) -> int | None:
        """Requests in flight: always so many in a closed loop, at most so many on a schedule; None for no limit."""
        limited = self.request_rate is None or "concurrency" in self.model_fields_set
        return self.concurrency if limited else None

    @property
    def input_files(self) -> tuple[Path, ...]:
        """The files of prompts; none for the built-in ones."""
        if self.input_file is None:
            return ()
        return self.input_file if isinstance(self.input_file, tuple) else (self.input_file,)

    @property
    def dataset_selector(self) -> DatasetSelector:
        """What `custom_dataset_type` says."""
        return DatasetSelector.parse(self.custom_dataset_type)

    @property
    def sampling(self) -> SamplingStrategy:
        """The order in which prompts are sent."""
        pool = self.dataset_selector.type is DatasetType.RANDOM_POOL
        return self.dataset_sampling_strategy or (SamplingStrategy.RANDOM if pool else SamplingStrategy.SEQUENTIAL)

    @field_validator("custom_dataset_type")
    @classmethod
    def _check_dataset_type(cls, text: str) -> str:
        return DatasetSelector.parse(text).name

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        split_endpoint(url)
        return url

    @field_validator("server_metrics_url")
    @classmethod
    def _check_server_metrics_url(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        for url in urls:
            try:
                split_endpoint(url)
            except ConfigError as error:
                raise ValueError(error.message.removeprefix("--url ")) from None
        return urls

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
        try:
            json.dumps(extra, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            # YAML and Python have dates, NaN and more that no body can carry.
            raise ValueError(f"cannot be sent as JSON: {error}") from None
        return extra

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.batch_size_text > 1 and self.endpoint_type is EndpointType.CHAT:
            raise ValueError("--batch-size-text needs --endpoint-type completions: chat takes one prompt a request")
        if self.workers > 1 and Path("-") in self.input_files:
            raise ValueError("--workers needs prompts that every process can read: standard input is read only once")
        if self.server_metrics_url and not self.server_metrics:
            raise ValueError("--server-metrics-url names what --no-server-metrics leaves out: give one of them")
        return self


class ReportSettings(_Settings):
    """What is shown and judged of a run, when it has ended or later from its folder."""

    rows: int = Field(default=20, ge=0)
    """Requests that the per-request table shows."""
    draft_cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Draft time per token / target time per verify step, for the modelled speed-up of shorter drafts."""
    assume_chain: bool = False
    """Whether drafts are chains of one length, where the engine's report does not show it."""
    by_category: bool = False
    """Whether the position curve of each category is shown."""
    worst: int = Field(default=5, ge=0)
    """Requests with the smallest acceptance length to list."""
    baseline: Path | None = None
    """Folder of a run without speculation, for the speed-up."""
    baseline_itl: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Inter-token latency without speculation, in ms."""
    require: tuple[str, ...] = ()
    """Gates; see `analysis.gates`."""
    strict: bool = False
    """Whether the interval has to pass its gate, not the value alone."""
    base: Path | None = None
    """Folder of the run that `base` in a gate stands for."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.baseline is not None and self.baseline_itl is not None:
            raise ValueError("--baseline and --baseline-itl both say what to compare with: give one of them")
        return self


def create_settings(values: Mapping[str, Any]) -> tuple[ProfileConfig, ReportSettings]:
    """Sort values by the model that they belong to, and return both; raise `ConfigError` naming what is wrong."""
    shown = {name: value for name, value in values.items() if name in ReportSettings.model_fields}
    sent = {name: value for name, value in values.items() if name not in shown}
    return ProfileConfig.create(**sent), ReportSettings.create(**shown)


def _describe(error: ValidationError) -> str:
    problem = error.errors()[0]
    message = str(problem["msg"]).removeprefix("Value error, ")
    if not problem["loc"]:
        return message
    option = "--" + str(problem["loc"][0]).replace("_", "-")
    if problem["type"] == "value_error":
        return f"{option}: {message}"
    return f"{option} {problem['input']!r}: {message}"


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
