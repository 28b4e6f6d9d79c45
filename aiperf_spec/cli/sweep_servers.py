"""The servers of a sweep: one that runs, one for each draft length, or those that a command starts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from aiperf_spec.artifacts import names
from aiperf_spec.cli.sweep_stop import SweepStop
from aiperf_spec.cli.terminal import note
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.config.sweep_settings import SweepSettings
from aiperf_spec.errors import ArtifactError, ConfigError
from aiperf_spec.load.event_loop import run_in_loop, running
from aiperf_spec.load.process_group import ProcessGroup, end_left_over
from aiperf_spec.load.server_start import ended_text, expect_free_port, expect_ready, last_lines
from aiperf_spec.models.sweep import Cell
from aiperf_spec.render.sweep_progress import SweepDisplay


@dataclass(slots=True, frozen=True)
class RunningServer:
    """A server of a sweep: `url` where it is not that of all runs, and the processes that were started for it."""

    url: str | None = None
    group: ProcessGroup | None = None
    log: Path = Path()

    @property
    def death(self) -> str | None:
        """Say how it ended, where it was started here and has."""
        if self.group is None or not self.group.has_ended:
            return None
        return f"{ended_text(self.group)}{last_lines(self.log)}"


@dataclass(slots=True)
class SweepServers:
    """Gives each draft length its server, and ends those that it started."""

    settings: SweepSettings
    base: ProfileConfig
    folder: Path
    stop: SweepStop
    display: SweepDisplay

    def end_left_over(self) -> None:
        """End the server that a killed sweep has left running in this folder, and say so."""
        if (group := end_left_over(self.folder / names.SWEEP_SERVER)) is not None:
            note(f"a server of the sweep was still running, and was ended (process group {group})")

    @contextmanager
    def of(self, cell: Cell) -> Iterator[RunningServer]:
        """Have the server of a cell's draft length run for the block.

        Raises `ServerUnavailableError` where it does not get ready, and `StoppedError` where a signal comes before.
        """
        k = cell.k
        if k is None or self.settings.serve is None:
            yield RunningServer(dict(self.settings.server).get(-1 if k is None else k))
            return
        with self._started(k, cell) as server:
            yield server

    @contextmanager
    def _started(self, k: int, cell: Cell) -> Iterator[RunningServer]:
        settings, display = self.settings, self.display
        assert settings.serve is not None
        command = settings.serve if k or settings.serve_without is None else settings.serve_without
        log = self.folder / names.SWEEP_LOGS / f"k{k}-{cell.repeat}.log"
        config = self.base.model_copy(update={"ready_timeout": settings.serve_timeout})
        display.begin(cell, config, f"k {k}: waiting for the port")
        began = time.monotonic()
        self.stop.wait_for(expect_free_port(config), display)
        group = self._run(command, k, log)
        try:
            display.begin(cell, config, f"k {k}: starting the server; its output is in {log}")
            self.stop.wait_for(expect_ready(config, group, log), display)
            display.sweep.starts.append(time.monotonic() - began)
            yield RunningServer(None, group, log)
        finally:
            display.begin(cell, config, f"k {k}: ending the server")
            run_in_loop(self._ended(group))

    def _run(self, command: str, k: int, log: Path) -> ProcessGroup:
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            environment = {"SPEC_PROFILE_K": str(k)}
            return ProcessGroup(command.replace("{k}", str(k)), environment, log, self.folder / names.SWEEP_SERVER)
        except OSError as error:
            if error.filename is not None and Path(error.filename).is_relative_to(self.folder):
                raise ArtifactError(f"{error.filename!r} cannot be written: {error.strerror}") from None
            raise ConfigError(f"--serve: the command cannot be run: {error.strerror or error}") from None

    async def _ended(self, group: ProcessGroup) -> None:
        async with running(self.display.watch(lambda: 0)):
            await asyncio.to_thread(group.end)
