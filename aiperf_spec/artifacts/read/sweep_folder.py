"""Read a sweep's folder: its plan, how its cells ended, and each cell's run."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiperf_spec.adapters.description import recognised
from aiperf_spec.adapters.engines import known_engines
from aiperf_spec.artifacts import names
from aiperf_spec.artifacts.read.files import UNREADABLE, load_json, parse_json
from aiperf_spec.artifacts.read.folders import RunFolder, find_runs
from aiperf_spec.artifacts.read.run import run_settings
from aiperf_spec.errors import ArtifactError, ConfigError
from aiperf_spec.models.run import Phase, RequestRecord
from aiperf_spec.models.server_metrics import MetricFigures, SeriesFigures, ServerMetrics
from aiperf_spec.models.sweep import Cell, CellEnd, CellRun, Load, LoadKind


def read_plan(folder: Path) -> dict[str, Any] | None:
    """Return the plan in a folder; None where it holds no sweep. Raises `ArtifactError` for one that is damaged."""
    if not (folder / names.SWEEP_PLAN).exists():
        return None
    plan = load_json(folder, names.SWEEP_PLAN)
    if not plan:
        raise ArtifactError(f"{str(folder / names.SWEEP_PLAN)!r} cannot be read as a plan", "choose another folder")
    return plan


def read_cell_ends(folder: Path) -> dict[str, CellEnd]:
    """Return how each cell ended the last time that it was measured, by its name; a line that is cut is left out."""
    ends: dict[str, CellEnd] = {}
    with suppress(*UNREADABLE):
        for line in (folder / names.SWEEP_CELLS).read_bytes().splitlines():
            with suppress(ValueError, KeyError, TypeError):
                told = parse_json(line)
                reason = told.get("reason")
                ends[str(told["cell"])] = CellEnd(float(told["seconds"]), None if reason is None else str(reason))
    return ends


def load_cell(cell: Cell, folder: Path) -> CellRun:
    """Return what a cell's folder holds; raise `SpecProfileError` naming a file of records that cannot be read."""
    run = RunFolder(folder)
    records = [record for record in run.records().records if record.phase is Phase.PROFILING]
    records.sort(key=lambda record: record.index)
    return CellRun(
        cell=cell,
        folder=folder,
        engine=_engine(run, records),
        reported_k=_reported_k(records),
        records=records,
        server_metrics=_server_metrics(run),
        drafter=run.described.drafter,
    )


def load_baseline(folder: Path, loads: Sequence[Load]) -> list[CellRun]:
    """Return the runs without speculation that are at a folder or beneath it, as cells of k = 0.

    Runs that drafted are left out: a sweep's folder may hold both. Raises `ConfigError` where a load has none.
    """
    found: dict[Load, list[CellRun]] = {load: [] for load in loads}
    for run in find_runs([folder]):
        known = run_settings(run.described)
        if known.rate is not None:
            load = Load(LoadKind.REQUEST_RATE, known.rate)
        else:
            load = Load(LoadKind.CONCURRENCY, known.concurrency or 1)
        if load in found:
            cell = load_cell(Cell(0, load, len(found[load]) + 1), run.path)
            if not any(map(_drafted, cell.records)):
                found[load].append(cell)
    if lacking := [load.name for load, runs in found.items() if not runs]:
        raise ConfigError(
            f"--baseline {str(folder)!r}: no run without speculation at {', '.join(lacking)}",
            "give one run or more at each level",
        )
    return [run for runs in found.values() for run in runs]


def _drafted(record: RequestRecord) -> bool:
    counts = (record.acceptance, record.draft_totals)
    return any(each is not None and each.num_draft_tokens > 0 for each in counts)


def _engine(run: RunFolder, records: list[RequestRecord]) -> str | None:
    """Return the engine that the records name, else the owner of the model, else the counters."""
    for record in records:
        for told in (record.acceptance, record.draft_totals):
            if told is not None:
                return told.engine
    if (owner := recognised(run.described.server_owner, known_engines())) is not None:
        return owner
    counted = run.described.reconciliation
    return None if counted is None else counted.engine


def _reported_k(records: list[RequestRecord]) -> int | None:
    reports = [record.acceptance for record in records if record.acceptance is not None]
    return max((report.num_spec_tokens for report in reports if report.num_spec_tokens is not None), default=None)


def _server_metrics(run: RunFolder) -> ServerMetrics | None:
    found = {name: metric for name, metric in run.server_metrics.metrics.items() if metric is not None}
    if not found:
        return None
    metrics = {
        name: MetricFigures(
            type=metric.type,
            description="",
            unit=None,
            series=[
                SeriesFigures(endpoint_url=each.endpoint_url, labels=each.labels, stats=dict(each.stats))
                for each in metric.series
                if each is not None
            ],
        )
        for name, metric in found.items()
    }
    return ServerMetrics(endpoints=[], start_ns=0, end_ns=0, metrics=metrics)
