"""Measure the cells of a sweep, one after the other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.artifacts.write.sweep_folder import SweepFolder
from aiperf_spec.artifacts.write.writer import ArtifactWriter
from aiperf_spec.cli.interrupt import say_at_once
from aiperf_spec.cli.terminal import note
from aiperf_spec.config.settings import ProfileConfig, ReportSettings
from aiperf_spec.config.sweep_settings import SweepSettings
from aiperf_spec.errors import SpecProfileError, StoppedError
from aiperf_spec.load.cache_reset import reset_cache
from aiperf_spec.load.cells import cell_config
from aiperf_spec.load.event_loop import run_in_loop, running
from aiperf_spec.load.plan import requests_of
from aiperf_spec.load.stop import Stop
from aiperf_spec.models.run import NoticeKind, Phase, RunInfo
from aiperf_spec.models.sweep import Cell, CellEnd
from aiperf_spec.profiling import Hooks, ProfileResult, profile
from aiperf_spec.render.notices import notice_text
from aiperf_spec.render.sweep_progress import SweepDisplay, SweepProgress, described
from aiperf_spec.render.text import number


class SweepStop:
    """Let a signal stop the run that goes on, and with it the sweep; a later run stops before its first request."""

    def __init__(self) -> None:
        self.signal: str | None = None
        self._run: tuple[asyncio.AbstractEventLoop, Stop] | None = None

    def tell(self, name: str) -> None:
        """Take the first signal; called from its handler."""
        self.signal = name
        if self._run is not None and not self._run[0].is_closed():
            self._run[0].call_soon_threadsafe(self._run[1].request, name)
        else:
            say_at_once(f"{name}: the sweep ends here; a second signal exits at once")

    def joins(self, stop: Stop) -> None:
        """Have this stop told too; called within its loop."""
        self._run = (asyncio.get_running_loop(), stop)
        if self.signal is not None:
            stop.request(self.signal)


@dataclass
class SweepCells:
    """Measures cells into the sweep's folder, and shows how far it is.

    Raises a `SpecProfileError` where the very first cell cannot even begin; a later one that fails is noted, and the
    others go on.
    """

    base: ProfileConfig
    settings: SweepSettings
    report: ReportSettings
    folder: SweepFolder
    display: SweepDisplay
    stop: SweepStop
    progress: SweepProgress
    _told: set[NoticeKind] = field(default_factory=set)
    _resets: bool = True

    def measure(self, cells: Sequence[Cell]) -> None:
        """Measure the cells that are not done, in this order, until a signal comes."""
        todo = []
        for cell in cells:
            if self.folder.is_done(cell):
                self.progress.seconds[cell] = self.folder.ends[cell.name].seconds
                summary = RunFolder(self.folder.path / cell.name).described
                self.progress.throughputs[cell] = summary.metric("output_token_throughput")
            else:
                todo.append(cell)
        for cell in todo:
            if self.stop.signal is None:
                self._measure(cell, url=None)

    def _measure(self, cell: Cell, url: str | None) -> None:
        began = time.monotonic()
        try:
            where: dict[str, object] = {} if url is None else {"url": url}
            folder = self.folder.path / cell.name
            config = cell_config(self.base, cell.load, artifact_dir=folder, overwrite=True, **where)
            self.display.begin(cell, config, f"{described(cell)}: waiting until the server is idle")
            run_in_loop(self._settled(config))
            result = self._run(config)
        except StoppedError as error:
            self.stop.signal = self.stop.signal or error.reason
            return
        except SpecProfileError as error:
            if not self.folder.ends:
                raise
            self._end(cell, CellEnd(time.monotonic() - began, error.message))
            return
        if result.stopped_by is not None:
            self.stop.signal = result.stopped_by
            return
        took = time.monotonic() - began
        self._repeat_notices(cell, result)
        if (reason := _reason(result)) is not None:
            self._end(cell, CellEnd(took, reason))
            return
        self.progress.seconds[cell] = took
        self.progress.throughputs[cell] = result.summary.run_values.get("output_token_throughput")
        self._end(cell, CellEnd(took))

    async def _settled(self, config: ProfileConfig) -> None:
        """Wait between two runs, and have the server forget the prompts where that is asked for."""
        stop = Stop()
        self.stop.joins(stop)
        async with running(self.display.watch(lambda: 0)):
            await stop.unless(asyncio.sleep(self.settings.settle_time))
            if not self.settings.reset_cache or not self._resets:
                return
            self._resets = await stop.unless(reset_cache(config))
        if not self._resets:
            self.display.pause()
            note(
                "--reset-cache: no page of the server empties its prefix cache, so later cells may find prompts in it "
                "(an engine may have the page in its development mode only)"
            )

    def _run(self, config: ProfileConfig) -> ProfileResult:
        display = self.display

        def on_plan(info: RunInfo) -> None:
            display.expect({phase: requests_of(config, info.dataset, phase) for phase in Phase})

        with ArtifactWriter(config, self.report) as writer:
            hooks = Hooks(on_plan, writer, sinks=[display.sink], on_stop=self.stop.joins, watch=display.watch)
            return profile(config, hooks, self.report)

    def _end(self, cell: Cell, end: CellEnd) -> None:
        self.folder.note(cell, end)
        progress = self.progress
        if end.reason is not None:
            progress.failed.add(cell)
            self.display.pause()
            note(f"{described(cell)}: no result: {end.reason}")
            return
        self.display.say(
            f"{described(cell)}: {number(progress.throughputs[cell], 1)} tok/s in {number(end.seconds, 1)} s; "
            f"{progress.summary()}"
        )

    def _repeat_notices(self, cell: Cell, result: ProfileResult) -> None:
        # Each cell has much the same to say; what it was is in its folder.
        new = [notice for notice in result.notices if notice.kind not in self._told]
        if new:
            self.display.pause()
        for notice in new:
            self._told.add(notice.kind)
            note(f"{described(cell)}: {notice_text(notice)}")


def _reason(result: ProfileResult) -> str | None:
    """Say why a run is no result; None where it is one."""
    if result.failure is not None:
        return result.failure.message
    if not result.summary.succeeded:
        errors = [record.error.message for record in result.records if record.error is not None]
        return f"no request succeeded: {errors[0]}" if errors else "no request succeeded"
    return result.faults[0].message if result.faults else None
