"""Help in two columns that fit 80, with every option's name whole."""

from __future__ import annotations

from collections import defaultdict
from textwrap import wrap
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from aiperf_spec.config.option_table import OPTIONS

_LEFT, _TWO_COLUMNS = 30, 60
"""Columns: the width of the names, and the least that the names and their texts need to stand side by side."""
_OVERVIEW = """\
Profile speculative decoding on an OpenAI-compatible inference server.

  spec-profile --url URL          profile a server
  spec-profile doctor --url URL   check a server with one short request
  spec-profile sweep --url URL    find the best draft length at each load
  spec-profile report FOLDER      show finished runs
  spec-profile compare A B        compare two runs
  spec-profile demo               try it without a server
  spec-profile docs               read the documentation

spec-profile --help lists every option and command."""


class HelpCommand(TyperCommand):
    """A command whose help groups its options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group of options, in the order in which they are declared."""
        _write_options(self, ctx, formatter)


class HelpGroup(TyperGroup):
    """The program: its help opens with the commands, and without arguments it prints an overview."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, then a section for each group of options."""
        commands = [(name, command) for name in self.list_commands(ctx) if (command := self.get_command(ctx, name))]
        _write(formatter, "Commands", [(name, (command.help or "").partition("\n")[0]) for name, command in commands])
        _write_options(self, ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Print the overview where nothing was typed."""
        if not args and not ctx.resilient_parsing:
            typer.echo(_OVERVIEW)
            ctx.exit(2)
        return super().parse_args(ctx, args)


def _write_options(command: TyperCommand | TyperGroup, ctx: Any, formatter: Any) -> None:
    sections: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for parameter in command.get_params(ctx):
        names, text = parameter.get_help_record(ctx) or ("", "")
        if parameter.param_type_name == "argument":
            sections["Arguments"].append((parameter.metavar or names, text))
        elif names:
            bounds = OPTIONS[parameter.name].bounds if parameter.name in OPTIONS else ""
            text += f"  [{bounds}]" if bounds else ""
            sections[getattr(parameter, "rich_help_panel", None) or "Options"].append((names, text))
    for name in sorted(sections, key=lambda name: name == "Options"):  # --version and --help stand last
        _write(formatter, name, sections[name])


def _write(formatter: Any, section: str, rows: list[tuple[str, str]]) -> None:
    # The formatter's own rows break a text at the hyphens of options, and cut a command's at one line.
    wide = formatter.width >= _TWO_COLUMNS
    indent = _LEFT if wide else 6
    with formatter.section(section):
        for names, text in rows:
            lines = wrap(text, formatter.width - indent, break_on_hyphens=False, break_long_words=False)
            beside = wide and len(names) <= _LEFT - 4
            first = f"  {names}".ljust(_LEFT) + lines.pop(0) if beside and lines else f"  {names}"
            formatter.write("".join(f"{line}\n" for line in (first, *(" " * indent + line for line in lines))))
