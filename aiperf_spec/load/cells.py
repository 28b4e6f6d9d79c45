"""Which cells a sweep has, and in which order they are measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.config.sweep_settings import SweepSettings
from aiperf_spec.models.run import RequestRecord
from aiperf_spec.models.sweep import Cell, Load, LoadKind


def loads_of(settings: SweepSettings) -> list[Load]:
    """Return the levels of load in the order in which they were given."""
    if settings.request_rate:
        return [Load(LoadKind.REQUEST_RATE, rate) for rate in settings.request_rate]
    return [Load(LoadKind.CONCURRENCY, number) for number in settings.concurrency]


def planned_cells(loads: Sequence[Load], ks: Sequence[int | None], repeats: int, seed: int) -> list[Cell]:
    """Return all cells in a random order that the seed decides.

    Whatever drifts while a sweep goes on then favours no level. Each repeat is measured whole before the next, and all
    loads of a draft length together, for another one takes another server.
    """
    order = Random(f"cells {seed}")
    cells = []
    for repeat in range(1, repeats + 1):
        for k in order.sample(ks, len(ks)):
            cells += [Cell(k, load, repeat) for load in order.sample(loads, len(loads))]
    return cells


def cell_config(base: ProfileConfig, load: Load, **others: object) -> ProfileConfig:
    """Return a cell's settings: those of all runs at its level of load. `others` replace more of them."""
    given = {name: getattr(base, name) for name in base.model_fields_set}
    if load.kind is LoadKind.CONCURRENCY:
        level: dict[str, object] = {"concurrency": int(load.value), "request_rate": None}
    else:
        level = {"request_rate": load.value}
    return ProfileConfig.create(**{**given, **level, **others})


def other_length(k: int | None, records: Iterable[RequestRecord]) -> str | None:
    """Say how what an engine reports contradicts the draft length that was asked for; None where nothing does."""
    if k is None:
        return None
    for record in records:
        report, totals = record.acceptance, record.draft_totals
        if report is not None and k and report.num_spec_tokens not in (None, k):
            return f"k {k} was asked for, and the engine reports {report.num_spec_tokens}"
        if report is not None and (most := max(report.acceptance_histogram, default=0)) > k:
            return f"k {k} was asked for, and the engine accepted {most} draft tokens in a step"
        drafted = 0 if report is None else report.num_draft_tokens
        if not k and (drafted or (totals is not None and totals.num_draft_tokens)):
            return "k 0 was asked for, and the engine reports drafts"
    return None
