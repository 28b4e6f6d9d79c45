"""The reference page of all options, made from the commands and the declarations.

`python -m tests.options_page aiperf_spec/docs/options.md` writes it anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import typer

from aiperf_spec.cli.app import app
from aiperf_spec.config.option import PANELS
from aiperf_spec.config.option_table import OPTIONS

_HEAD = """\
# Options

Every option, its default and its place in a configuration file.

Places are below `benchmark`. `datasets` is a list. So is `phases`, whose entries are of kind `warmup` or `profiling`:
see [configuration](configuration.md).
"""
_ONLY_IN_FILES = "Only a configuration file sets these:"


def options_markdown() -> str:
    """Return the page as Markdown."""
    main: Any = typer.main.get_command(app)
    sections = [_HEAD, "## A run\n"]
    options = [parameter for parameter in main.params if parameter.name in OPTIONS or parameter.rich_help_panel]
    for panel in PANELS:
        mine = [parameter for parameter in options if parameter.rich_help_panel == panel]
        sections += [f"### {panel}\n", _table(("option", "in a file", "meaning"), (_row(each, True) for each in mine))]
    rows = [
        (_code(field), _place(field), declared.help) for field, declared in OPTIONS.items() if declared.only_in_file
    ]
    sections += [f"{_ONLY_IN_FILES}\n", _table(("setting", "in a file", "meaning"), rows)]
    others = [parameter for parameter in main.params if parameter not in options]
    sections += ["### Other\n", _table(("option", "meaning"), (_row(each, False) for each in others))]
    for name, command in main.commands.items():
        sections.append(f"## spec-profile {name}\n")
        shared = [parameter for parameter in command.params if _is_as_for_a_run(parameter)]
        own = [parameter for parameter in command.params if parameter not in shared]
        if own:
            sections.append(_table(("option", "meaning"), (_row(each, False) for each in own)))
        if shared:
            flags = ", ".join(_code(each.opts[0]) for each in shared)
            sections.append(f"{'Also' if own else 'It takes'}, as for a run: {flags}.\n")
        if not command.params:
            sections.append("It takes none.\n")
    return "\n".join(sections)


def _is_as_for_a_run(parameter: Any) -> bool:
    declared = OPTIONS.get(parameter.name)
    if declared is None or parameter.help != declared.help:
        return False
    return parameter.default in (None, declared.default)


def _row(parameter: Any, with_place: bool) -> tuple[str, ...]:
    metavar = parameter.metavar or ""
    bounds = OPTIONS[parameter.name].bounds if parameter.name in OPTIONS else ""
    if parameter.param_type_name == "argument":
        names = _code(metavar)
    else:
        names = ", ".join(_code(name) for name in [*parameter.opts, *parameter.secondary_opts])
        names += f" {metavar}" if metavar else ""
    meaning = [parameter.help or ""]
    if parameter.envvar:
        meaning.append(f"Read from {_code(parameter.envvar)} where it is not given.")
    default = parameter.default
    if default is True:
        meaning.append("Default: yes.")
    elif default is not None and default is not False and not callable(default):
        meaning.append(f"Default: {_code(f'{default:g}' if isinstance(default, float) else str(default))}.")
    if bounds:
        meaning.append(f"Takes {_code(bounds)}.")
    return (names, *((_place(parameter.name),) if with_place else ()), " ".join(meaning))


def _place(field: str) -> str:
    place = OPTIONS[field].place if field in OPTIONS else None
    return "" if place is None else _code(place or field)


def _code(text: str) -> str:
    return f"`{text}`"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(options_markdown(), encoding="utf-8")
