"""The settings of a run, and those of what is shown and judged of one."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from aiperf_spec.config.choices import DatasetSelector, DatasetType, EndpointType, ExportLevel, SamplingStrategy
from aiperf_spec.config.headers import NOT_HEADER_TEXT, is_header_text, parse_header
from aiperf_spec.config.option import ANALYSIS, declared
from aiperf_spec.config.option_table import OPTIONS
from aiperf_spec.config.problems import problem_text
from aiperf_spec.config.result_options import ResultOptions
from aiperf_spec.config.run_options import RunOptions
from aiperf_spec.config.server_url import split_endpoint
from aiperf_spec.config.several_clients import Share, start_time
from aiperf_spec.config.tags import tag_problem
from aiperf_spec.errors import ConfigError

_SENT = [name for name, option in OPTIONS.items() if option.sent]
_RESERVED = {
    "model": "--model",
    "stream": "--streaming or --no-streaming",
    "messages": "--input-file",
    "prompt": "--input-file",
}


class Settings(BaseModel):
    """What settings share: they are frozen, and an error names the option that is wrong."""

    # An error that showed its input would show the key beside it.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False)

    @classmethod
    def create(cls, **values: Any) -> Self:
        """Return the settings, or raise `ConfigError` naming the option that is wrong."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise ConfigError(_describe(error)) from None

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [pair for pair in super().__repr_args__() if not (pair[0] and OPTIONS[pair[0]].secret)]


class ProfileConfig(Settings, RunOptions):
    """The settings of a run; frozen, so that a run is what they say. The options are `RunOptions`.

    Raises pydantic's `ValidationError` for a value out of range; `ProfileConfig.create` turns it into a `ConfigError`
    that names the option.
    """

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
    def is_scheduled(self) -> bool:
        """Whether each request is due at a time of its own, and not when another has ended."""
        return self.request_rate is not None or self.fixed_schedule

    @property
    def keeps_texts(self) -> bool:
        """Whether records keep the text of their answers."""
        return self.keep_outputs or self.export_level is ExportLevel.RAW

    @property
    def concurrency_cap(self) -> int | None:
        """Requests in flight: always so many in a closed loop, at most so many on a schedule; None for no limit."""
        limited = not self.is_scheduled or "concurrency" in self.model_fields_set
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
        pool = self.dataset_selector.type is DatasetType.RANDOM_POOL and not self.fixed_schedule
        return self.dataset_sampling_strategy or (SamplingStrategy.RANDOM if pool else SamplingStrategy.SEQUENTIAL)

    @property
    def client_share(self) -> Share:
        """Which requests this client sends: all of them without `--share`."""
        return Share() if self.share is None else Share.parse(self.share)

    @property
    def start_time(self) -> datetime | None:
        """When profiling is to start, in UTC; None without `--start-at`."""
        return None if self.start_at is None else start_time(self.start_at)

    @property
    def sent_options(self) -> dict[str, Any]:
        """What the request body holds under the names of options: those that were given and are declared as `sent`."""
        return {name: value for name in _SENT if (value := getattr(self, name)) is not None}

    @field_validator("custom_dataset_type")
    @classmethod
    def _check_dataset_type(cls, text: str) -> str:
        return DatasetSelector.parse(text).name

    @field_validator("share")
    @classmethod
    def _check_share(cls, text: str | None) -> str | None:
        return None if text is None else str(Share.parse(text))

    @field_validator("start_at")
    @classmethod
    def _check_start_at(cls, text: str | None) -> str | None:
        # Whether it has passed is known only where the run begins.
        return None if text is None else start_time(text).isoformat()

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
        if key is not None and not is_header_text(key):
            raise ValueError(f"the key holds {NOT_HEADER_TEXT}")
        return key or None

    @model_serializer(mode="wrap")
    def _without_key(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if name != "api_key"}

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

    @field_validator("tags")
    @classmethod
    def _check_tags(cls, tags: dict[str, str]) -> dict[str, str]:
        if problem := next((found for tag in tags.items() if (found := tag_problem(*tag))), None):
            raise ValueError(problem)
        return tags

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.batch_size_text > 1 and self.endpoint_type is EndpointType.CHAT:
            raise ValueError("--batch-size-text needs --endpoint-type completions: chat takes one prompt a request")
        if self.server_metrics_url and not self.server_metrics:
            raise ValueError("--server-metrics-url names what --no-server-metrics leaves out: give one of them")
        if self.keep_outputs and self.export_level is ExportLevel.SUMMARY:
            raise ValueError("--keep-outputs keeps texts in records, and --export-level summary writes none")
        return self

    @model_validator(mode="after")
    def _check_schedule(self) -> Self:
        given, start, end = self.model_fields_set, self.fixed_schedule_start_offset, self.fixed_schedule_end_offset
        if not self.fixed_schedule:
            for name in ("auto_offset", "start_offset", "end_offset"):
                if f"fixed_schedule_{name}" in given:
                    raise ValueError(f"--fixed-schedule-{name.replace('_', '-')} needs --fixed-schedule")
            return self
        for name in ("request_rate", "arrival_pattern"):
            if name in given:
                raise ValueError(f"--fixed-schedule sends rows at their times, --{name.replace('_', '-')} at others")
        if self.input_file is None:
            raise ValueError("--fixed-schedule needs --input-file: rows with a timestamp")
        if self.sampling is not SamplingStrategy.SEQUENTIAL:
            raise ValueError(f"--fixed-schedule sends rows in the order of their times, not {self.sampling}")
        if self.batch_size_text > 1:
            raise ValueError("--batch-size-text puts several rows into one request, --fixed-schedule sends each apart")
        if start is not None and "fixed_schedule_auto_offset" in given and self.fixed_schedule_auto_offset:
            raise ValueError(
                "--fixed-schedule-start-offset and --fixed-schedule-auto-offset both set the start: give one of them"
            )
        if start is not None and end is not None and start > end:
            raise ValueError(f"--fixed-schedule-start-offset {start} is after --fixed-schedule-end-offset {end}")
        return self


class ReportSettings(Settings, ResultOptions):
    """What is shown and judged of a run, at its end or later from its folder. The options are `ResultOptions`."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.baseline is not None and self.baseline_itl is not None:
            raise ValueError("--baseline and --baseline-itl both say what to compare with: give one of them")
        return self

    @property
    def shows_analysis(self) -> bool:
        """Whether the tables of the analysis are to be printed: all tables are, or an option asks for some of these."""
        asking = [each for each in declared(ResultOptions).values() if each.panel == ANALYSIS]
        return self.full or any(getattr(self, each.name) != each.default for each in asking)


def create_settings(values: Mapping[str, Any]) -> tuple[ProfileConfig, ReportSettings]:
    """Return both models from the values of either; raise `ConfigError` naming what is wrong."""
    sent, shown = split_settings(values)
    return ProfileConfig.create(**sent), ReportSettings.create(**shown)


def split_settings(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values of `ProfileConfig`, what is unknown among them, and those of `ReportSettings`."""
    shown = {name: value for name, value in values.items() if name in ReportSettings.model_fields}
    return {name: value for name, value in values.items() if name not in shown}, shown


def _describe(error: ValidationError) -> str:
    problem = error.errors()[0]
    message = problem_text(problem)
    if not problem["loc"]:
        return message
    name = str(problem["loc"][0])
    declared = OPTIONS.get(name)
    flag = "--" + name.replace("_", "-") if declared is None else declared.names[0].partition("/")[0]
    hidden = problem["type"] == "value_error" or (declared is not None and declared.secret)
    return f"{flag}: {message}" if hidden else f"{flag} {problem['input']!r}: {message}"
