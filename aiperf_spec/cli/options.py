"""Put options and a configuration file together: options win."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import typer

from aiperf_spec.config.settings import ProfileConfig, ReportSettings, create_settings
from aiperf_spec.errors import ConfigError

_PARAMETERS = {"headers": "header"}
"""Fields whose option's parameter is called otherwise."""


def settings(context: typer.Context, values: dict[str, Any], file: Path | None) -> tuple[ProfileConfig, ReportSettings]:
    """Return the settings of a run and of its report.

    `values` of options that were given win over the file's, and those over defaults.
    """
    given = {name: value for name, value in values.items() if _source(context, name) in ("COMMANDLINE", "ENVIRONMENT")}
    from_file = {} if file is None else _read(file)
    # A variable that the environment always holds says less than a file that names its own.
    if "api_key" in from_file and _source(context, "api_key") == "ENVIRONMENT":
        del given["api_key"]
    merged = {**from_file, **given}
    for name, join in (("extra_inputs", _join_extra), ("headers", _join_headers)):
        if name in from_file and name in given:
            merged[name] = join(from_file[name], given[name])
    if "url" not in merged:
        raise ConfigError("--url is missing", "spec-profile --url http://HOST:PORT --model NAME")
    return create_settings(merged)


def _source(context: typer.Context, field: str) -> str:
    parameter = _PARAMETERS.get(field, field)
    if parameter not in context.params:
        raise AssertionError(f"no option sets {field}: name its parameter in _PARAMETERS")
    source = context.get_parameter_source(parameter)
    return "DEFAULT" if source is None else source.name


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"--config {str(file)!r}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--config {str(file)!r}: not UTF-8") from None
    from aiperf_spec.config.yaml_file import parse_config

    return parse_config(text, str(file), os.environ, file.parent)


def _join_extra(in_file: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    joined = {**in_file, **given}
    halves = (in_file.get("stream_options"), given.get("stream_options"))
    if all(isinstance(half, dict) for half in halves):
        joined["stream_options"] = {**(halves[0] or {}), **(halves[1] or {})}
    return joined


def _join_headers(in_file: list[list[str]], given: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    replaced = {name.lower() for name, _ in given}
    return [*((name, value) for name, value in in_file if name.lower() not in replaced), *given]
