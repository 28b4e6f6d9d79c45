"""Measure a server at several levels of load, and print what came of it."""

from __future__ import annotations

from typing import Any

import typer
from rich.text import Text

from aiperf_spec.artifacts import names
from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.artifacts.write.sweep_folder import SweepFolder
from aiperf_spec.cli.interrupt import signals_put_back, tell_signals_to
from aiperf_spec.cli.run_screens import side_by_side
from aiperf_spec.cli.sweep_cells import SweepCells, SweepStop
from aiperf_spec.cli.terminal import note, say_next, stderr, stdout, translated_errors
from aiperf_spec.config.choices import Ui
from aiperf_spec.config.command_line import command_line
from aiperf_spec.config.settings import ProfileConfig, ReportSettings
from aiperf_spec.config.sweep_settings import SweepSettings
from aiperf_spec.errors import ConfigError, ExitCode
from aiperf_spec.load.cells import cell_config, loads_of, planned_cells
from aiperf_spec.models.run import DatasetInfo
from aiperf_spec.models.sweep import Cell
from aiperf_spec.render.sweep_progress import SweepDisplay, SweepProgress
from aiperf_spec.version import __version__
from aiperf_spec.workload.dataset import open_workload
from aiperf_spec.workload.files import STDIN

_FEWEST = 5
"""Prompts from which figures have intervals."""


def sweep(base: ProfileConfig, report: ReportSettings, settings: SweepSettings, *, ui: Ui) -> None:
    """Measure every cell, print them side by side, and exit with the sweep's code."""
    with translated_errors(), signals_put_back():
        loads = loads_of(settings)
        cells = planned_cells(loads, [None], settings.repeat, base.random_seed)
        for load in loads:
            cell_config(base, load)  # which raises where it cannot be
        dataset = _prompts(base)
        folder = SweepFolder(base.artifact_dir or names.default_sweep_folder())
        folder.begin(_plan(base, report, dataset, cells), resume=settings.resume)
        stop = SweepStop()
        tell_signals_to(stop.tell, lambda: folder.kept(cells))
        progress = SweepProgress(cells)
        with SweepDisplay(stderr(), base, progress, ui) as display:
            SweepCells(base, settings, report, folder, display, stop, progress).measure(cells)
        done = [cell for cell in cells if folder.is_done(cell)]
        if done:
            stdout().print(side_by_side([RunFolder(folder.path / cell.name) for cell in sorted(done, key=_rank)])[0])
        stderr().print(Text(folder.kept(cells)), soft_wrap=True)
        if done:
            say_next("report", str(folder.path))
    if stop.signal is not None:
        raise typer.Exit(ExitCode.of_signal(stop.signal))
    if len(done) < len(cells):
        raise typer.Exit(ExitCode.NO_SUCCESS)


def _rank(cell: Cell) -> Any:
    return (-1 if cell.k is None else cell.k, cell.load, cell.repeat)


def _prompts(base: ProfileConfig) -> DatasetInfo:
    """Return which prompts every cell sends; say where they are too few for intervals."""
    if STDIN in base.input_files:
        raise ConfigError(
            "--input-file -: standard input can be read only once, and each cell of a sweep reads its prompts",
            "write the prompts to a file",
        )
    dataset = open_workload(base).info
    sent = [number for number in (dataset.entries, base.request_count) if number is not None]
    if sent and min(sent) < _FEWEST:
        note(f"each cell sends fewer than {_FEWEST} prompts, so no figure will have an interval")
    return dataset


def _plan(base: ProfileConfig, report: ReportSettings, dataset: DatasetInfo, cells: list[Cell]) -> dict[str, Any]:
    return {
        "version": __version__,
        # What is sent, without secrets. Levels and repeats are the cells'.
        "options": command_line(base, report)[1:],
        "prompts": list(dataset.file_hashes),
        "cells": [cell.name for cell in cells],
    }
