"""A run's effective configuration as `config.yaml`, by which `--config` repeats it."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import yaml

from aiperf_spec.config.option_table import keys_of
from aiperf_spec.config.redaction import Redactor
from aiperf_spec.config.secret_names import REDACTED, is_secret_input
from aiperf_spec.config.server_url import split_endpoint
from aiperf_spec.config.settings import ProfileConfig, ReportSettings
from aiperf_spec.metrics.goodput import objectives
from aiperf_spec.models.run import RunInfo
from aiperf_spec.version import __version__

_HEAD = f"""\
# What this run was (spec-profile {__version__}). `spec-profile --config config.yaml` sends the same bodies in the same
# order, into a folder of its own. Secrets are left out: set the environment variables that stand in their places.
"""
_LEFT_OUT = ("artifact_dir", "overwrite", "start_at")
"""A repeat must not write over what it repeats, and its time to start has passed."""


def config_yaml(info: RunInfo, settings: ReportSettings) -> bytes:
    """Return the file; paths are absolute, and nothing in it is secret."""
    config = info.config
    redactor = Redactor(config, split_endpoint(config.url))
    values = config.model_dump(mode="json", exclude={"api_key", *_LEFT_OUT}) | settings.model_dump(mode="json")
    fields = {name: _escaped(redactor.value(value)) for name, value in values.items() if value not in (None, [], {})}
    fields["model"] = [_escaped(info.model)]
    fields["url"] = [_url(config.url, redactor)]
    if config.server_metrics_url:
        fields["server_metrics_url"] = [_url(url, redactor, "metrics") for url in config.server_metrics_url]
    if config.extra_inputs:
        fields["extra_inputs"] = {name: _input(value, redactor, name) for name, value in config.extra_inputs.items()}
    if config.headers:
        fields["headers"] = {name: _header(name, value, redactor) for name, value in config.headers}
    if config.api_key:
        fields["api_key_env"] = config.api_key_env or "OPENAI_API_KEY"
    for name, value in (*config, *settings):
        if isinstance(value, Path) and name in fields:
            fields[name] = _escaped(str(value.absolute()))
    if settings.goodput:
        # By their tags, which AIPerf knows too.
        fields["goodput"] = {goal.metric.tag: goal.limit for goal in objectives(settings.goodput)}
    if config.tokenizer is not None and Path(config.tokenizer).exists():
        fields["tokenizer"] = _escaped(str(Path(config.tokenizer).absolute()))
    if config.concurrency_cap is None:
        del fields["concurrency"]  # on a schedule, saying it would set a limit
    excluded = ["arrival_pattern"] if config.fixed_schedule else ["fixed_schedule", "fixed_schedule_auto_offset"]
    if config.fixed_schedule_start_offset is not None:
        excluded.append("fixed_schedule_auto_offset")
    for name in excluded:
        del fields[name]
    fields["dataset_sampling_strategy"] = str(config.sampling)
    benchmark: dict[str, Any] = {
        "models": fields["model"],
        "endpoint": _section("endpoint", fields),
        "datasets": _datasets(config, fields),
        "phases": _phases(config, fields),
        "artifacts": _section("artifacts", fields),
    }
    benchmark |= _section("", fields)
    text = yaml.safe_dump({"benchmark": benchmark}, sort_keys=False, allow_unicode=True, width=120)
    return (_HEAD + str(text)).encode()


def _section(section: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {key: fields[field] for key, field in keys_of(section).items() if field in fields}


def _datasets(config: ProfileConfig, fields: dict[str, Any]) -> list[dict[str, Any]]:
    shared = {key: value for key, value in _section("datasets", fields).items() if key != "path"}
    paths = [str(path) if str(path) == "-" else str(path.absolute()) for path in config.input_files]
    return [{"path": _escaped(path), **shared} for path in paths] or [shared]


def _phases(config: ProfileConfig, fields: dict[str, Any]) -> list[dict[str, Any]]:
    kinds = ("warmup", "profiling") if config.warmup_request_count else ("profiling",)
    return [{"kind": kind, **_section(kind, fields)} for kind in kinds]


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, dict):
        return {key: _escaped(item) for key, item in value.items()}
    return [_escaped(item) for item in value] if isinstance(value, list) else value


def _variable(*words: str) -> str:
    name = re.sub(r"[^A-Z0-9]+", "_", "_".join(words).upper()).strip("_")
    return f"${{SPEC_PROFILE_{name}}}"


def _header(name: str, value: str, redactor: Redactor) -> str:
    shown = redactor.headers({name: value})[name]
    return _variable("header", name) if REDACTED in shown else str(_escaped(shown))


def _input(value: Any, redactor: Redactor, *path: str) -> Any:
    if isinstance(value, dict):
        return {name: _input(item, redactor, *path, name) for name, item in value.items()}
    if isinstance(value, str) and value and is_secret_input(path[-1]):
        return _variable("extra", *path)
    return _escaped(redactor.value(value))


def _url(url: str, redactor: Redactor, *of: str) -> str:
    scheme, mark, rest = url.rpartition("://")
    credentials, at, address = rest.rpartition("@")
    base, question, query = address.partition("?")
    text = scheme + mark + (_variable(*of, "credentials") + at if credentials else "") + str(_escaped(base))
    if not question:
        return text
    pairs = parse_qsl(urlsplit(f"?{query}").query, keep_blank_values=True)
    shown = redactor.headers(dict(pairs))
    parts = [
        f"{quote(name)}={_variable(*of, 'query', name) if REDACTED in shown[name] else quote(_escaped(value))}"
        for name, value in pairs
    ]
    return f"{text}?{'&'.join(parts)}"
