"""Measure the cells of a sweep, one after the other."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.artifacts.write.sweep_folder import SweepFolder
from aiperf_spec.artifacts.write.writer import ArtifactWriter
from aiperf_spec.cli.sweep_servers import RunningServer, SweepServers
from aiperf_spec.cli.sweep_stop import SweepStop
from aiperf_spec.cli.terminal import note
from aiperf_spec.config.settings import ProfileConfig, ReportSettings
from aiperf_spec.config.sweep_settings import SweepSettings
from aiperf_spec.errors import SpecProfileError, StoppedError
from aiperf_spec.load.cache_reset import reset_cache
from aiperf_spec.load.cells import cell_config, other_length
from aiperf_spec.load.plan import requests_of
from aiperf_spec.models.run import NoticeKind, Phase, RunInfo
from aiperf_spec.models.sweep import Cell, CellEnd
from aiperf_spec.profiling import Hooks, ProfileResult, profile
from aiperf_spec.render.notices import notice_text
from aiperf_spec.render.sweep_progress import SweepProgress
from aiperf_spec.render.sweep_sentences import cell_text
from aiperf_spec.render.text import number, printable


@dataclass
class SweepCells:
    """Measures cells into the sweep's folder, and shows how far it is.

    A cell that fails is noted, and so are all of a draft length whose server does not run: the others go on. Raises a
    `SpecProfileError` where a sweep over load alone cannot even begin.
    """

    base: ProfileConfig
    settings: SweepSettings
    report: ReportSettings
    folder: SweepFolder
    servers: SweepServers
    dead: dict[int | None, str] = field(default_factory=dict)
    """Draft lengths that are not measured any more, and why."""
    _told_dead: set[int | None] = field(default_factory=set)
    _told: set[NoticeKind] = field(default_factory=set)
    _told_resets: set[str] = field(default_factory=set)

    def measure(self, cells: Sequence[Cell]) -> None:
        """Measure the cells that are not done, in this order, until a signal comes."""
        todo = []
        for cell in cells:
            if self.folder.is_done(cell):
                self._remember(cell)
            else:
                todo.append(cell)
        for _, group in itertools.groupby(todo, key=lambda cell: (cell.repeat, cell.k)):
            self._measure_on_one_server(list(group))

    @property
    def _stop(self) -> SweepStop:
        return self.servers.stop

    @property
    def _progress(self) -> SweepProgress:
        return self.servers.display.sweep

    def _has_run(self, k: int | None) -> bool:
        return any(cell.k == k for cell in (*self._progress.throughputs, *self._progress.failed))

    def _remember(self, cell: Cell) -> None:
        summary = RunFolder(self.folder.path / cell.name).described
        self._progress.throughputs[cell] = summary.metric("output_token_throughput")
        self._progress.seconds[cell] = self.folder.ends[cell.name].seconds

    def _measure_on_one_server(self, cells: list[Cell]) -> None:
        k = cells[0].k
        if self._stop.signal is None and k not in self.dead:
            try:
                with self.servers.of(cells[0]) as server:
                    while cells and self._stop.signal is None and k not in self.dead:
                        self._measure(cells.pop(0), server)
            except StoppedError as error:
                self._stop.signal = self._stop.signal or error.reason
            except SpecProfileError as error:
                if k is None and not self.folder.ends:
                    raise
                self.dead[k] = error.message
        if self._stop.signal is None and k in self.dead:
            if k not in self._told_dead:
                self._told_dead.add(k)
                self.servers.display.pause()
                note(printable(f"k {k} is not measured{' any more' * self._has_run(k)}: {self.dead[k]}", 2000))
            for cell in cells:
                self.folder.note(cell, CellEnd(0.0, self.dead[k]))
                self._progress.failed.add(cell)

    def _measure(self, cell: Cell, server: RunningServer) -> None:
        began, display = time.monotonic(), self.servers.display
        where: dict[str, object] = {} if server.url is None else {"url": server.url}
        folder = self.folder.path / cell.name
        config = cell_config(self.base, cell.load, artifact_dir=folder, overwrite=True, **where)
        display.begin(cell, config, f"{cell_text(cell)}: waiting until the server is idle")
        reason: str | None
        try:
            self._stop.wait_for(self._settled(config), display)
            result = self._run(config)
        except StoppedError:
            raise
        except SpecProfileError as error:
            if cell.k is None and not self.folder.ends:
                raise
            reason = error.message
        else:
            if result.stopped_by is not None:
                raise StoppedError(result.stopped_by)
            self._repeat_notices(cell, result)
            reason = _reason(result)
            if reason is None and (reason := other_length(cell.k, result.records)) is not None:
                self.dead[cell.k] = reason
            if reason is None:
                self._progress.throughputs[cell] = result.summary.run_values.get("output_token_throughput")
        if (death := server.death) is not None:
            # Whatever was measured, some of it was so while the server went down.
            reason = self.dead[cell.k] = death
            self._progress.throughputs.pop(cell, None)
        took = time.monotonic() - began
        if reason is None:
            self._progress.seconds[cell] = took
        self._end(cell, CellEnd(took, reason))

    async def _settled(self, config: ProfileConfig) -> None:
        """Wait between two runs, and have the server forget the prompts where that is asked for."""
        await asyncio.sleep(self.settings.settle_time)
        if not self.settings.reset_cache or (reason := await reset_cache(config)) is None:
            return
        if reason not in self._told_resets:
            self._told_resets.add(reason)
            self.servers.display.pause()
            note(printable(f"--reset-cache: {reason}. Cells may find their prompts in the cache", 400))

    def _run(self, config: ProfileConfig) -> ProfileResult:
        display = self.servers.display

        def on_plan(info: RunInfo) -> None:
            display.expect({phase: requests_of(config, info.dataset, phase) for phase in Phase})

        with ArtifactWriter(config, self.report) as writer:
            hooks = Hooks(on_plan, writer, sinks=[display.sink], on_stop=self._stop.joins, watch=display.watch)
            return profile(config, hooks, self.report)

    def _end(self, cell: Cell, end: CellEnd) -> None:
        self.folder.note(cell, end)
        progress, display = self._progress, self.servers.display
        if end.reason is not None:
            progress.failed.add(cell)
            display.pause()
            note(printable(f"{cell_text(cell)}: no result: {end.reason}", 2000))
            return
        display.say(
            f"{cell_text(cell)}: {number(progress.throughputs[cell], 1)} tok/s in {number(end.seconds, 1)} s; "
            f"{progress.summary()}"
        )

    def _repeat_notices(self, cell: Cell, result: ProfileResult) -> None:
        # Each cell has much the same to say; what it was is in its folder.
        expected = {NoticeKind.NO_ACCEPTANCE} if cell.k == 0 else set()
        new = [notice for notice in result.notices if notice.kind not in self._told | expected]
        if new:
            self.servers.display.pause()
        for notice in new:
            self._told.add(notice.kind)
            note(f"{cell_text(cell)}: {notice_text(notice)}")


def _reason(result: ProfileResult) -> str | None:
    """Say why a run is no result; None where it is one."""
    if result.failure is not None:
        return result.failure.message
    if not result.summary.succeeded:
        errors = [record.error.message for record in result.records if record.error is not None]
        return f"no request succeeded: {errors[0]}" if errors else "no request succeeded"
    return result.faults[0].message if result.faults else None
