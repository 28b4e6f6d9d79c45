"""Make a command's options from their declarations, and settings from what was given."""

from __future__ import annotations

import inspect
import operator
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

import typer

from aiperf_spec.config.choices import ExportLevel
from aiperf_spec.config.extra_inputs import merge_extra_inputs
from aiperf_spec.config.option import OWN, PANELS, Option, Options, declared
from aiperf_spec.config.option_table import OPTIONS
from aiperf_spec.config.sweep_options import SweepOptions
from aiperf_spec.errors import ConfigError

if TYPE_CHECKING:
    from aiperf_spec.config.settings import ProfileConfig, ReportSettings
    from aiperf_spec.config.sweep_settings import SweepSettings

_Command = TypeVar("_Command", bound=Callable[..., None])
_Display = TypeVar("_Display", bound=Options)


def takes(*options: Option, panels: bool = True) -> Callable[[_Command], _Command]:
    """Give a command these options in place of its `**values`; help groups them as declared, unless `panels` is off."""
    ordered = sorted(options, key=lambda option: (OWN, *PANELS).index(option.panel)) if panels else options
    parameters = [_parameter(each, each.panel if panels else OWN) for each in ordered if not each.only_in_file]

    def decorate(command: _Command) -> _Command:
        signature = inspect.signature(command, eval_str=True)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        positional = [each for each in own if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        together = [*positional, *parameters, *own[len(positional) :]]
        command.__signature__ = signature.replace(parameters=together)  # type: ignore[attr-defined]
        return command

    return decorate


def _parameter(option: Option, panel: str) -> inspect.Parameter:
    kind, default = option.type, option.default
    # What may be repeated is a tuple in the settings.
    repeated = next((each for each in (kind, *get_args(kind)) if get_origin(each) is tuple), None)
    if option.read is not None:
        kind = list[str]
    elif repeated is not None:
        kind = list[get_args(repeated)[0]]  # type: ignore[misc]
    if default in (None, (), {}):
        kind, default = kind | None, None
    info = typer.Option(
        *option.names,
        help=option.help,
        metavar=option.metavar,
        envvar=option.env,
        show_default=option.env is None,
        rich_help_panel=panel or None,
    )
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is ... else default,
        annotation=Annotated[kind, info],
    )


def given(context: typer.Context, values: Mapping[str, Any], options: Mapping[str, Option] = OPTIONS) -> dict[str, Any]:
    """Return the fields that the command line or the environment sets, of these options, as settings take them."""
    found = {}
    for field, value in values.items():
        if field in options and _source(context, field) in ("COMMANDLINE", "ENVIRONMENT"):
            read = options[field].read
            found[field] = value if read is None else read(value)
    return found


def pick(kind: type[_Display], values: Mapping[str, Any]) -> _Display:
    """Return those of a command's values that a class of display options declares."""
    return kind(**{name: values[name] for name in declared(kind)})


def settings(
    context: typer.Context, values: Mapping[str, Any], file: Path | None
) -> tuple[ProfileConfig, ReportSettings]:
    """Return the settings of a run and of its report: options that were given win over the file's."""
    from aiperf_spec.config.settings import create_settings

    merged = merged_values(context, given(context, values), file)
    if "url" not in merged:
        raise ConfigError("--url is missing", "spec-profile --url http://HOST:PORT --model NAME")
    return create_settings(merged)


def sweep_settings(
    context: typer.Context, values: Mapping[str, Any], file: Path | None
) -> tuple[ProfileConfig, ReportSettings, SweepSettings]:
    """Return the settings that all runs of a sweep share, those of their reports, and the sweep's own."""
    from aiperf_spec.config.settings import create_settings
    from aiperf_spec.config.sweep_settings import SweepSettings

    own = declared(SweepOptions)
    sweep = SweepSettings.create(**given(context, values, own))
    shared = {name: each for name, each in OPTIONS.items() if name not in own}
    merged = merged_values(context, given(context, values, shared), file)
    if merged.get("fixed_schedule"):
        raise ConfigError("--config: fixed_schedule sends each row at its own time, so a sweep has no levels of load")
    if merged.get("export_level", ExportLevel.RECORDS) == ExportLevel.SUMMARY:
        raise ConfigError("--config: a sweep needs the records of its runs, so its level cannot be summary")
    if sweep.server:
        if "url" in merged:
            raise ConfigError("--url and --server both name servers: give one of them")
        merged["url"] = sweep.server[0][1]
    if "url" not in merged:
        raise ConfigError("--url is missing", "spec-profile sweep --url http://HOST:PORT --concurrency 1,2,4,8")
    # The levels are the sweep's, whatever the file has.
    levels = set(own) - ({"concurrency"} if sweep.request_rate else set())
    config, report = create_settings({name: each for name, each in merged.items() if name not in levels})
    return config, report, sweep


def merged_values(context: typer.Context, options: dict[str, Any], file: Path | None) -> dict[str, Any]:
    """Return the values of a configuration file with the options that were given: these win."""
    from_file = {} if file is None else _read(file)
    # A variable that the environment always holds says less than a file that names its own.
    if "api_key" in from_file and _source(context, "api_key") == "ENVIRONMENT":
        del options["api_key"]
    merged = {**from_file, **options}
    for name, join in (
        ("extra_inputs", merge_extra_inputs),
        ("headers", _join_headers),
        ("tags", operator.or_),
    ):
        if name in from_file and name in options:
            merged[name] = join(from_file[name], options[name])
    return merged


def _source(context: typer.Context, field: str) -> str:
    source = context.get_parameter_source(field)
    return "DEFAULT" if source is None else source.name


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"--config {str(file)!r}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--config {str(file)!r}: not UTF-8") from None
    from aiperf_spec.config.yaml_file import parse_config

    return parse_config(text, str(file), os.environ.get, file.parent)


def _join_headers(in_file: list[list[str]], given: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    replaced = {name.lower() for name, _ in given}
    return [*((name, value) for name, value in in_file if name.lower() not in replaced), *given]
