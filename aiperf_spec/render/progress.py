"""Show a run while it goes on: drawn on a terminal, or a line now and then."""

import asyncio
import select
import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType
from rich.text import Text

from aiperf_spec.config.choices import Ui
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.models.run import Phase, RequestRecord
from aiperf_spec.render.live_frame import RunProgress, frame, simple_line

_LOOK_SECONDS = 0.25
_IDLE_SECONDS = 0.5
"""Without news, clocks alone are redrawn."""
_LINE_SECONDS = 10.0


class Display:
    """Show where a run stands, on stderr.

    A task of the run's own loop draws, at most four times a second, and no thread: a thread would take the interpreter
    from the loop that stamps arrivals.
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
        self._live = Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._drawn: list[Text] = []
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
        if self._live.is_started:
            self._tolerating(self._live.stop)
            return
        self.progress.in_flight = 0
        if self._wrote_line or (self._always_ends and self.progress.changes[0]):
            self._write(self.line() + "\n")

    def lines(self, width: int, height: int, *, ascii_only: bool) -> list[Text]:
        """Return what is drawn on a terminal of this size."""
        return frame(self.progress, self._clock(), width, height, ascii_only=ascii_only)

    def line(self) -> str:
        """Return what is written now and then where nothing is drawn."""
        return simple_line(self.progress, self._clock())

    async def watch(self, in_flight: Callable[[], int]) -> None:
        """Show the run until cancelled; `in_flight` says how many requests are under way."""
        if self._ui is Ui.SIMPLE:
            while True:
                await asyncio.sleep(_LINE_SECONDS)
                self.progress.in_flight = in_flight()
                self._write(self.line() + "\n")
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
        if _takes_more(self._console):
            self._tolerating(self._draw)

    def _draw(self) -> None:
        if not self._live.is_started:
            self._live.start()
            # Hidden, as rich leaves it, it would stay so after a second Ctrl-C.
            self._console.show_cursor(True)
        width, height = self._console.size
        # A terminal that became narrower has broken the lines that were drawn wider.
        broken = sum((line.cell_len - 1) // max(width, 1) for line in self._drawn if line)
        if broken:
            self._console.control(Control(*((ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)) * broken))
        ascii_only = not self._console.encoding.lower().startswith("utf")
        self._drawn = self.lines(width, height, ascii_only=ascii_only)
        # The cursor stands below, where a shell that comes back begins.
        self._live.update(Text("\n").join([*self._drawn, Text()]), refresh=True)

    def _write(self, text: str) -> None:
        def write() -> None:
            self._console.file.write(text)
            self._console.file.flush()

        self._tolerating(write)

    def _tolerating(self, write: Callable[[], None]) -> None:
        try:
            write()
        except (OSError, ValueError):
            # Whoever watched is gone; the run goes on.
            self._ui = Ui.NONE


def chosen_ui(console: Console, ui: Ui) -> Ui:
    """Return what `auto` comes to; a terminal that cannot be drawn on gets lines."""
    able = console.is_terminal and not console.is_dumb_terminal and not console.legacy_windows
    if ui is Ui.AUTO:
        return Ui.LIVE if able else Ui.SIMPLE
    return Ui.SIMPLE if ui is Ui.LIVE and not able else ui


def _takes_more(console: Console) -> bool:
    # A terminal that is halted, or at the end of a slow line, would halt the loop that stamps arrivals.
    if sys.platform == "win32":
        return True
    try:
        return bool(select.select([], [console.file.fileno()], [], 0)[1])
    except (OSError, ValueError, AttributeError):
        return True
