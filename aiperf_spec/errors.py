"""Errors that a command turns into an exit code and one or two lines, never a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum


class ExitCode(IntEnum):
    """Say how a command ended, to the shell that started it."""

    OK = 0
    NO_SUCCESS = 1
    """No request succeeded, more failed than --max-error-rate allows, or the results could not be written."""
    USAGE = 2
    """An option, a file or a configuration is wrong; nothing was sent."""
    GATE = 3
    """A gate (`--require`) was not met."""
    INTERRUPTED = 130
    """Ended by Ctrl-C, after writing what was finished."""
    TERMINATED = 143
    """Ended by SIGTERM or SIGHUP, after writing what was finished."""

    @classmethod
    def of_signal(cls, name: str) -> ExitCode:
        """Return the code of a run that a signal ended, by the signal's name."""
        return cls.INTERRUPTED if name == "SIGINT" else cls.TERMINATED


class SpecProfileError(Exception):
    """Report a mistake that a user can mend.

    `message` says what happened and to which input; `remedy` what to try, where something is known.
    """

    exit_code = ExitCode.USAGE

    def __init__(self, message: str, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class ConfigError(SpecProfileError):
    """Reject an option or a configuration value."""


class InputFileError(SpecProfileError):
    """Reject a file of prompts, naming the file and the line."""


class PluginError(SpecProfileError):
    """Reject an adapter plug-in, naming the distribution that brought it."""


class ServerUnavailableError(SpecProfileError):
    """Say that the server could not be asked for what the run needs."""

    exit_code = ExitCode.NO_SUCCESS


class NoContactError(ServerUnavailableError):
    """Say that the first requests of a run all failed as every later one would have."""


class ErrorRateError(SpecProfileError):
    """Say that more requests failed than `--max-error-rate` allows."""

    exit_code = ExitCode.NO_SUCCESS


class WorkerError(SpecProfileError):
    """Say that a process of `--workers` could not be started, or ended before the run did."""

    exit_code = ExitCode.NO_SUCCESS


class StoppedError(SpecProfileError):
    """Say that a signal came before the first request, so that there is nothing to report."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"stopped by {reason} before the first request")
        self.reason = reason
        self.exit_code = ExitCode.of_signal(reason)


class ArtifactError(SpecProfileError):
    """Refuse an artifact folder before the first request is sent."""


class ExportError(SpecProfileError):
    """Say that results could not be written; what was printed stands."""

    exit_code = ExitCode.NO_SUCCESS


@contextmanager
def standing_alone(what: str, faults: list[SpecProfileError], *, writes: bool = False) -> Iterator[None]:
    """Let what fails in the block cost nothing but itself: its error joins the faults, and the program goes on.

    `what` names it in the error. With `writes` it is a file of the run: a disk that is full is told once, whatever else
    is to be written there.
    """
    try:
        yield
    except SpecProfileError as error:
        faults.append(error)
    except Exception as error:
        if writes and isinstance(error, OSError):
            reason = f"could not be written: {error.strerror or error}"
            remedy = "free some space or choose another --artifact-dir; what is shown was measured and stands"
        else:
            reason = f"could not be made ({type(error).__name__}: {error})"
            remedy = "please report this; what else is shown and written stands"
        known = reason if writes and isinstance(error, OSError) else f"{what} {reason}"
        if not any(fault.message.endswith(known) for fault in faults):
            faults.append(ExportError(f"{what} {reason}", remedy))
