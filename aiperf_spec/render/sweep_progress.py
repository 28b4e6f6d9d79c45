"""Show a sweep while it goes on: a table of its cells, and the run that is going on below."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from rich.console import Console
from rich.text import Text

from aiperf_spec.config.choices import Ui
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.models.run import Phase
from aiperf_spec.models.sweep import Cell, Load, LoadKind
from aiperf_spec.render.live_frame import RunProgress, clock, frame, simple_line
from aiperf_spec.render.progress import Display
from aiperf_spec.render.sweep_sentences import cell_text
from aiperf_spec.render.text import number

_ROWS = 6
"""Lines of the run that is going on which stand below the table."""


@dataclass(slots=True)
class SweepProgress:
    """Where a sweep stands.

    `throughputs` holds the output tokens a second of each cell that is done, None where none was measured, `seconds`
    what measuring it took; `failed` are those that have no run. `starts` holds what it took until each server that was
    started was ready. `doing` says in a few words what goes on between runs.
    """

    cells: Sequence[Cell]
    throughputs: dict[Cell, float | None] = field(default_factory=dict)
    failed: set[Cell] = field(default_factory=set)
    current: Cell | None = None
    doing: str = ""
    seconds: dict[Cell, float] = field(default_factory=dict)
    starts: list[float] = field(default_factory=list)

    @property
    def done(self) -> int:
        """How many cells have ended."""
        return len(self.throughputs) + len(self.failed)

    def summary(self) -> str:
        """Return how many cells are done, and how long the others may take."""
        said = f"{self.done} of {len(self.cells)} cells done"
        if self.failed:
            said += f", {len(self.failed)} without a result"
        seconds = self._seconds_left()
        return said if not seconds else f"{said}, about {clock(seconds)} left"

    def _seconds_left(self) -> float | None:
        begun = {*self.throughputs, *self.failed}
        left = [cell for cell in self.cells if cell not in begun]
        seconds = seconds_left(self.seconds, left)
        if seconds is None or not self.starts:
            return seconds
        # All cells of a repeat and a k that follow each other share a server.
        served = {(cell.repeat, cell.k) for cell in begun} | {self.current and (self.current.repeat, self.current.k)}
        return seconds + fmean(self.starts) * len({(cell.repeat, cell.k) for cell in left} - served)


class SweepDisplay(Display):
    """Show where a sweep and its run stand, on stderr; see `Display`."""

    def __init__(
        self,
        console: Console,
        config: ProfileConfig,
        sweep: SweepProgress,
        ui: Ui = Ui.AUTO,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        super().__init__(console, config, ui, clock)
        self.sweep = sweep

    def begin(self, cell: Cell, config: ProfileConfig, doing: str) -> None:
        """Turn to another cell: `doing` says what goes on before its run."""
        self.sweep.current, self.sweep.doing = cell, doing
        self.progress = RunProgress(config)

    def pause(self) -> None:
        """Take down what is drawn, for something else is to be printed."""
        if self._live.is_started:
            self._tolerating(self._live.stop)

    def say(self, text: str) -> None:
        """Write a line where nothing is drawn."""
        if self._ui is Ui.SIMPLE:
            self._write(text + "\n")

    def lines(self, width: int, height: int, *, ascii_only: bool) -> list[Text]:
        """Return what is drawn: the table of cells, then the run."""
        table = cell_lines(self.sweep, width, ascii_only=ascii_only)
        room = max(height - len(table), 1)
        if self._is_running:
            table += frame(self.progress, self._clock(), width, min(room, _ROWS + 1), ascii_only=ascii_only)
        else:
            table.append(Text(self.sweep.doing))
        for line in table:
            line.truncate(width - 1, overflow="crop")
        return table[-max(height - 1, 1) :]

    def line(self) -> str:
        """Return the state of the run and the sweep in a line."""
        cell = self.sweep.current
        if cell is None or not self._is_running:
            return f"{self.sweep.summary()}; {self.sweep.doing}"
        return f"{self.sweep.summary()}; {cell_text(cell)}, {simple_line(self.progress, self._clock())}"

    @property
    def _is_running(self) -> bool:
        # What a run will send is known when its server has answered.
        return self.progress.phases[Phase.PROFILING].total is not None or self.progress.in_flight > 0


def cell_lines(sweep: SweepProgress, width: int, *, ascii_only: bool = False) -> list[Text]:
    """Return the table: a row for each draft length, a column for each load, output tokens a second in the cells."""
    loads = sorted({cell.load for cell in sweep.cells})
    ks = sorted({cell.k for cell in sweep.cells}, key=lambda k: -1 if k is None else k)
    waiting, running = (".", ">") if ascii_only else ("·", "▸")
    rows: list[list[Text]] = [[Text(""), *(Text(_heading(load), "bold") for load in loads)]]
    for k in ks:
        row = [Text("tok/s" if k is None else f"k {k}", "bold")]
        row += [_cell(sweep, k, load, waiting, running) for load in loads]
        rows.append(row)
    widths = [max(row[i].cell_len for row in rows) for i in range(len(rows[0]))]
    lines = [Text(sweep.summary(), "bold")]
    for row in rows:
        line = Text()
        for cell, size in zip(row, widths, strict=True):
            line.append(" " * (size - cell.cell_len + (2 if line else 0)))
            line.append_text(cell)
        lines.append(line)
    for line in lines:
        line.truncate(width - 1, overflow="crop")
    return lines


def _heading(load: Load) -> str:
    return f"c {load.value:g}" if load.kind is LoadKind.CONCURRENCY else f"{load.value:g}/s"


def _cell(sweep: SweepProgress, k: int | None, load: Load, waiting: str, running: str) -> Text:
    mine = [cell for cell in sweep.cells if (cell.k, cell.load) == (k, load)]
    done = [cell for cell in mine if cell in sweep.throughputs]
    values = [value for cell in done if (value := sweep.throughputs[cell]) is not None]
    text = number(fmean(values), 0) if values else "–" if done else ""
    if done and len(mine) > 1:
        text += f" ({len(done)}/{len(mine)})"
    if sweep.current in mine:
        return Text(f"{running} {text}".rstrip(), "cyan")
    if any(cell in sweep.failed for cell in mine):
        return Text(f"{text} failed".lstrip(), "red")
    return Text(text) if text else Text(waiting, "dim")


def seconds_left(seconds: Mapping[Cell, float], left: Iterable[Cell]) -> float | None:
    """Return how long the cells that are left will take, by those that are done; None where none is.

    A cell takes what others at its load took; at a load without one, what all took on average.
    """
    if not seconds:
        return None
    by_load: dict[Load, list[float]] = {}
    for cell, took in seconds.items():
        by_load.setdefault(cell.load, []).append(took)
    usual = fmean(seconds.values())
    return sum(fmean(by_load[cell.load]) if cell.load in by_load else usual for cell in left)
