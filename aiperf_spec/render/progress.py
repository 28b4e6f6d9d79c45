"""Show a run while it goes on: drawn on a terminal, or a line now and then."""

from __future__ import annotations

import asyncio
import select
import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from rich.console import Console

from aiperf_spec.config.choices import Ui
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.models.run import Phase, RequestRecord
from aiperf_spec.render.live_frame import Line, RunProgress, frame, simple_line

_LOOK_SECONDS = 0.1
_IDLE_SECONDS = 0.5
"""Without news, clocks alone are redrawn."""
_LINE_SECONDS = 10.0

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_COLOURS = frozenset({"red", "green", "yellow", "cyan"})


class Display:
    """Show where a run stands, on stderr. A task of the run's own loop draws, at most ten times a second, and no
    thread: a thread would take the interpreter from the loop that stamps arrivals. For the same reason lines are
    written as they are, which takes a tenth of the time that a table takes to be laid out.
    """

    def __init__(
        self,
        console: Console,
        config: ProfileConfig,
        ui: Ui = Ui.AUTO,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.progress = RunProgress(config)
        self._console = console
        self._clock = clock
        self._ui = chosen_ui(console, ui)
        self._drawn: list[Line] = []
        self._wrote_line = False
        self._always_ends = ui is Ui.SIMPLE

    def expect(self, totals: Mapping[Phase, int | None]) -> None:
        """Say how many requests each phase will have; None where that is not known."""
        self.progress.expect(totals)

    def sink(self, record: RequestRecord) -> None:
        """Take a finished request into account."""
        if self._ui is not Ui.NONE:
            self.progress.take(record)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            # Line by line: what is erased from the top of the screen at once, some terminals keep in their history.
            rows = _rows(self._drawn, self._console.width)
            self._write(f"\x1b[{rows}A" + "\r\x1b[2K\n" * rows + f"\x1b[{rows}A\r\x1b[2K")
            self._drawn = []
            return
        self.progress.in_flight = 0
        if self._wrote_line or (self._always_ends and self.progress.changes[0]):
            self._write(simple_line(self.progress, self._clock()) + "\n")

    async def watch(self, in_flight: Callable[[], int | None]) -> None:
        """Show the run until cancelled; `in_flight` says how many requests are under way, None where nobody knows."""
        if self._ui is Ui.SIMPLE:
            while True:
                await asyncio.sleep(_LINE_SECONDS)
                self.progress.in_flight = in_flight()
                self._write(simple_line(self.progress, self._clock()) + "\n")
                self._wrote_line = True
        seen, at = None, 0.0
        while self._ui is Ui.LIVE:
            self.progress.in_flight = in_flight()
            now = time.monotonic()
            if self.progress.changes != seen or now - at >= _IDLE_SECONDS:
                seen, at = self.progress.changes, now
                self.draw()
            await asyncio.sleep(_LOOK_SECONDS)

    def draw(self) -> None:
        """Draw over what was drawn before; leave it where the terminal does not take more at once."""
        if not _takes_more(self._console):
            return
        width, height = self._console.size
        ascii_only = not self._console.encoding.lower().startswith("utf")
        lines = frame(self.progress, self._clock(), width, height, ascii_only=ascii_only)
        style = self._console.color_system is not None
        painted = "".join(f"{paint(line, style=style, colour=not self._console.no_color)}\x1b[K\n" for line in lines)
        rows = _rows(self._drawn, width)
        self._write((f"\x1b[{rows}A" if rows else "") + f"\r{painted}\x1b[J")
        self._drawn = lines

    def _write(self, text: str) -> None:
        try:
            self._console.file.write(text)
            self._console.file.flush()
        except (OSError, ValueError):
            # Whoever watched is gone; the run goes on.
            self._ui = Ui.NONE


def chosen_ui(console: Console, ui: Ui) -> Ui:
    """Return what `auto` comes to; a terminal that cannot be drawn on gets lines."""
    able = console.is_terminal and not console.is_dumb_terminal and not console.legacy_windows
    if ui is Ui.AUTO:
        return Ui.LIVE if able else Ui.SIMPLE
    return Ui.SIMPLE if ui is Ui.LIVE and not able else ui


def paint(line: Line, *, style: bool, colour: bool) -> str:
    """Return a line as a terminal takes it; `NO_COLOR` leaves bold and dim."""
    if not style:
        return "".join(text for text, _ in line)
    painted = []
    for text, styles in line:
        codes = ";".join(_CODES[name] for name in styles.split() if colour or name not in _COLOURS)
        painted.append(f"\x1b[{codes}m{text}\x1b[0m" if codes else text)
    return "".join(painted)


def _rows(lines: list[Line], width: int) -> int:
    # A terminal that became narrower has broken the lines that were drawn wider.
    return sum(max(1, -(-sum(len(text) for text, _ in line) // max(width, 1))) for line in lines)


def _takes_more(console: Console) -> bool:
    # A terminal that is halted, or at the end of a slow line, would halt the loop that stamps arrivals.
    if sys.platform == "win32":
        return True
    try:
        return bool(select.select([], [console.file.fileno()], [], 0)[1])
    except (OSError, ValueError, AttributeError):
        return True
