"""Where commands print, and how a failure becomes an exit code."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import typer
from rich.console import Console
from rich.text import Text

from aiperf_spec.errors import ExitCode, ExportError, SpecProfileError
from aiperf_spec.render.text import printable


class _PipeConsole(Console):
    def on_broken_pipe(self) -> None:
        # A reader such as `head` that has seen enough ends neither the run nor its exit code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def stdout() -> Console:
    """Return the console for results."""
    _tolerate(sys.stdout)
    return _PipeConsole(file=sys.stdout, highlight=False, markup=False, emoji=False)


def stderr() -> Console:
    """Return the console for progress and notices."""
    _tolerate(sys.stderr)
    return Console(file=sys.stderr, highlight=False, markup=False, emoji=False)


def _tolerate(stream: TextIO) -> None:
    # A terminal of an old encoding shows a question mark rather than ending the run.
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")


def note(text: str) -> None:
    """Print a notice on stderr; the text is shown as it is."""
    stderr().print(Text.assemble(("note: ", "bold yellow"), text))


def write_file(option: str, file: Path, data: bytes) -> None:
    """Write the file that an option names, and say so on stderr; raises `ExportError`."""
    try:
        file.write_bytes(data)
    except OSError as error:
        raise ExportError(f"{option} {str(file)!r}: {error.strerror or error}") from None
    stderr().print(Text(f"written: {file}"), soft_wrap=True)


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turn a `SpecProfileError` into a line or two on stderr and its exit code: the one place that does."""
    try:
        yield
    except SpecProfileError as error:
        show_error(error)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def show_error(error: SpecProfileError) -> None:
    """Print what happened and what to try, on stderr."""
    console = stderr()
    console.print(Text.assemble(("error: ", "bold red"), printable(error.message, 1000)), soft_wrap=True)
    if error.remedy:
        console.print(Text.assemble(("try:   ", "bold"), printable(error.remedy, 1000)), soft_wrap=True)
