"""Where commands print, and how a failure becomes an exit code."""

import errno
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NoReturn, TextIO

import typer
from rich.console import Console
from rich.text import Text

from aiperf_spec.cli.interrupt import raise_on_interrupt
from aiperf_spec.errors import ExitCode, ExportError, SpecProfileError
from aiperf_spec.render.text import printable, spelled


class _Stream(Console):
    """A console that writes no more once its stream has failed; raises `ExportError` where that was standard output."""

    def print(self, *objects: Any, **options: Any) -> None:
        self._try(super().print, *objects, **options)

    def out(self, *objects: Any, **options: Any) -> None:
        self._try(super().out, *objects, **options)

    def on_broken_pipe(self) -> None:
        # A reader such as `head` that has seen enough ends neither the run nor its exit code.
        _discard(self.file)

    def _try(self, write: Callable[..., None], *objects: Any, **options: Any) -> None:
        try:
            write(*objects, **options)
        except OSError as error:
            if error.filename is not None:
                raise  # of a file that was to be read, such as a module: the stream has not failed
            _discard(self.file)
            if self.file is sys.stdout:
                raise ExportError(f"standard output could not be written: {error.strerror or error}") from None


def _discard(stream: IO[str]) -> None:
    # Into nothing from now on, what the interpreter still holds at its end included.
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def stdout() -> Console:
    """Return the console for results; printing raises `ExportError` where they cannot be written."""
    _tolerate(sys.stdout)
    return _Stream(file=sys.stdout, highlight=False, markup=False, emoji=False)


def stderr() -> Console:
    """Return the console for progress and notices."""
    _tolerate(sys.stderr)
    return _Stream(file=sys.stderr, highlight=False, markup=False, emoji=False)


def show_document(data: bytes, *, is_json: bool) -> None:
    """Write a document on stdout as it is; on a terminal, every character that commands it is spelled out."""
    text = data.decode("utf-8", "replace")
    stdout().out(spelled(text, as_json=is_json) if sys.stdout.isatty() else text, end="", highlight=False)


def _tolerate(stream: TextIO) -> None:
    # A terminal of an old encoding shows a question mark rather than ending the run.
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")


def note(text: str) -> None:
    """Print a notice on stderr; the text is shown as it is."""
    stderr().print(Text.assemble(("note: ", "bold yellow"), text))


def say_next(*words: str) -> None:
    """Print on stderr a command of ours to type next, as a shell takes it."""
    text = printable(shlex.join(("spec-profile", *words)), 1000)
    stderr().print(Text.assemble(("next: ", "bold green"), text), soft_wrap=True)


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
    raise_on_interrupt()
    try:
        yield
    except SpecProfileError as error:
        show_error(error)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        stderr().print("stopped by SIGINT")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def fail(error: SpecProfileError | OSError) -> NoReturn:
    """Say what no command has handled, and leave with its exit code, or 1."""
    if isinstance(error, OSError):
        with suppress(OSError):
            _discard(sys.stdout)
        used_up = error.errno in (errno.EMFILE, errno.ENFILE)
        where = error.filename or ("the system" if used_up else "standard output")
        error = ExportError(f"{where}: {error.strerror or error}", "raise the limit (ulimit -n)" if used_up else None)
    show_error(error)
    sys.exit(error.exit_code)


def show_faults(faults: Sequence[SpecProfileError]) -> None:
    """Print every fault, and leave with the first one's exit code where there is one."""
    for fault in faults:
        show_error(fault)
    if faults:
        raise typer.Exit(faults[0].exit_code)


def show_error(error: SpecProfileError) -> None:
    """Print what happened and what to try, on stderr."""
    console = stderr()
    console.print(Text.assemble(("error: ", "bold red"), printable(error.message, 1000)), soft_wrap=True)
    if error.remedy:
        console.print(Text.assemble(("try:   ", "bold"), printable(error.remedy, 1000)), soft_wrap=True)
