"""Measure a server at several levels of load and draft lengths, and print what came of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import typer
from rich.text import Text

from aiperf_spec.analysis.gates import Gate
from aiperf_spec.analysis.intervals import MIN_CLUSTERS
from aiperf_spec.analysis.sweep.points import MIN_REPEATS
from aiperf_spec.analysis.sweep.slo import parse_slos
from aiperf_spec.analysis.sweep.sweep import SweepAnalysis, analyse_sweep, predict
from aiperf_spec.artifacts import names
from aiperf_spec.artifacts.read.sweep_folder import load_baseline, load_cell
from aiperf_spec.artifacts.write.sweep_folder import SweepFolder
from aiperf_spec.artifacts.write.sweep_results import write_sweep
from aiperf_spec.cli.interrupt import signals_put_back, tell_signals_to
from aiperf_spec.cli.sweep_cells import SweepCells
from aiperf_spec.cli.sweep_servers import SweepServers
from aiperf_spec.cli.sweep_stop import SweepStop
from aiperf_spec.cli.terminal import note, say_next, show_faults, stderr, stdout, translated_errors
from aiperf_spec.config.choices import Ui
from aiperf_spec.config.command_line import command_line
from aiperf_spec.config.server_url import without_secrets
from aiperf_spec.config.settings import ProfileConfig, ReportSettings
from aiperf_spec.config.sweep_settings import SweepSettings
from aiperf_spec.errors import ConfigError, ExitCode, SpecProfileError, standing_alone
from aiperf_spec.load.cells import cell_config, loads_of, planned_cells
from aiperf_spec.metrics.goodput import objectives
from aiperf_spec.models.run import DatasetInfo
from aiperf_spec.models.sweep import Cell, CellRun
from aiperf_spec.render.sweep import sweep_report
from aiperf_spec.render.sweep_progress import SweepDisplay, SweepProgress
from aiperf_spec.version import __version__
from aiperf_spec.workload.dataset import open_workload
from aiperf_spec.workload.files import STDIN


def sweep(base: ProfileConfig, report: ReportSettings, settings: SweepSettings, *, ui: Ui) -> None:
    """Measure every cell, print what they come to, and exit with the sweep's code."""
    faults: list[SpecProfileError] = []
    with translated_errors(), signals_put_back():
        slos = parse_slos(settings.slo)
        loads = loads_of(settings)
        cells = planned_cells(loads, _first_lengths(settings), settings.repeat, base.random_seed)
        for load in loads:
            cell_config(base, load)  # which raises where it cannot be
        if settings.serve is not None and sys.platform == "win32":
            raise ConfigError("--serve needs process groups, which this system does not have", "use --server K=URL")
        if settings.serve is not None and "{k}" not in settings.serve:
            note("--serve has no {k} in it, so the command has to read the draft length from SPEC_PROFILE_K")
        baseline = [] if settings.baseline is None else load_baseline(settings.baseline, loads)
        if settings.lengths and settings.repeat < MIN_REPEATS:
            note(f"--repeat {settings.repeat} gives no verdict, only what was measured: give {MIN_REPEATS} for one")
        dataset = _prompts(base)
        folder = SweepFolder(base.artifact_dir or names.default_sweep_folder())
        folder.begin(_plan(base, report, settings, dataset, cells), resume=settings.resume)
        stop = SweepStop()
        tell_signals_to(stop.tell, lambda: folder.kept(cells))
        with SweepDisplay(stderr(), base, SweepProgress(cells), ui) as display:
            servers = SweepServers(settings, base, folder.path, stop, display)
            servers.end_left_over()
            measured = SweepCells(base, settings, report, folder, servers)
            measured.measure(cells)
            if settings.economy and stop.signal is None:
                runs = [*baseline, *_runs(folder, cells)]
                winners = predict(runs, settings.lengths, assume_chain=report.assume_chain).winners
                more = [Cell(k, load, repeat) for repeat in range(1, settings.repeat + 1) for load, k in winners]
                more.sort(key=lambda cell: (cell.repeat, cell.k or 0))
                cells = [*cells, *more]
                display.sweep.cells = cells
                measured.measure(cells)
        runs = [*baseline, *_runs(folder, cells)]
        with standing_alone("the analysis of the sweep", faults):
            if runs:
                analysis = _analysis(runs, settings, report, slos)
                stdout().print(sweep_report(analysis))
                faults += write_sweep(folder.path, analysis)
        stderr().print(Text(folder.kept(cells)), soft_wrap=True)
        if any(folder.is_done(cell) for cell in cells):
            say_next("report", str(folder.path))
        show_faults(faults)
    if stop.signal is not None:
        raise typer.Exit(ExitCode.of_signal(stop.signal))
    if not all(folder.is_done(cell) for cell in cells):
        raise typer.Exit(ExitCode.NO_SUCCESS)


def _first_lengths(settings: SweepSettings) -> list[int | None]:
    """Return the draft lengths to measure; with `--economy` those from which the others are predicted."""
    lengths = settings.lengths
    if settings.economy:
        lengths = tuple(k for k in lengths if k in (0, max(lengths)))
    return [*lengths] or [None]


def _runs(folder: SweepFolder, cells: Sequence[Cell]) -> list[CellRun]:
    """Return the cells as far as they were measured, or have failed."""
    runs = []
    for cell in cells:
        end = folder.ends.get(cell.name)
        if folder.is_done(cell):
            runs.append(load_cell(cell, folder.path / cell.name))
        elif end is not None:
            runs.append(CellRun(cell=cell, reason=end.reason or "its folder is gone"))
    return runs


def _analysis(
    runs: Sequence[CellRun], settings: SweepSettings, report: ReportSettings, slos: Sequence[Gate]
) -> SweepAnalysis:
    return analyse_sweep(
        runs,
        slos=slos,
        goals=objectives(report.goodput),
        economy_lengths=settings.lengths if settings.economy else (),
        assume_chain=report.assume_chain,
    )


def _prompts(base: ProfileConfig) -> DatasetInfo:
    """Return which prompts every cell sends; say where they are too few for intervals."""
    if STDIN in base.input_files:
        raise ConfigError(
            "--input-file -: standard input can be read only once, and each cell of a sweep reads its prompts",
            "write the prompts to a file",
        )
    dataset = open_workload(base).info
    sent = [number for number in (dataset.entries, base.request_count) if number is not None]
    if sent and min(sent) < MIN_CLUSTERS:
        note(f"each cell sends fewer than {MIN_CLUSTERS} prompts, so no figure will have an interval")
    return dataset


def _plan(
    base: ProfileConfig, report: ReportSettings, settings: SweepSettings, dataset: DatasetInfo, cells: Sequence[Cell]
) -> dict[str, Any]:
    """Return what a sweep is, for it to go on later: without secrets, which a command may hold."""
    commands = [each and sha256(each.encode()).hexdigest() for each in (settings.serve, settings.serve_without)]
    return {
        "version": __version__,
        # What is sent. Levels, draft lengths and repeats are the cells'.
        "options": command_line(base, report)[1:],
        "prompts": list(dataset.file_hashes),
        "servers": [*commands, *(f"{k}={without_secrets(url)}" for k, url in sorted(settings.server))],
        "cells": [cell.name for cell in cells],
    }
