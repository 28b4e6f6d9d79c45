"""A progress bar for a terminal; nothing anywhere else."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from aiperf_spec.models.run import Phase, RequestRecord

_REFRESH_SECONDS = 0.1


class ProgressBar:
    """Count finished requests on stderr. It draws when a request ends, at most ten times a second, and starts no
    thread: a thread would take the interpreter from the loop that stamps arrivals."""

    def __init__(self, console: Console, totals: dict[Phase, int]) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[failed]}", style="red"),
            console=console,
            auto_refresh=False,
            transient=True,
            disable=not console.is_terminal,
        )
        self._tasks = {
            phase: self._progress.add_task(str(phase), total=total, failed="")
            for phase, total in totals.items()
            if total
        }
        self._failed = dict.fromkeys(totals, 0)
        self._drawn = 0.0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def sink(self, record: RequestRecord) -> None:
        """Take a finished request into account."""
        failed = ""
        if record.error is not None:
            self._failed[record.phase] += 1
        if self._failed[record.phase]:
            failed = f"{self._failed[record.phase]} failed"
        self._progress.update(self._tasks[record.phase], advance=1, failed=failed)
        now = time.monotonic()
        if now - self._drawn >= _REFRESH_SECONDS:
            self._drawn = now
            self._progress.refresh()
