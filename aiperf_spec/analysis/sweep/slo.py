"""The best draft length and the highest load under service-level objectives: `--slo`, written as gates are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aiperf_spec.analysis.gate_figures import Figures
from aiperf_spec.analysis.gates import Gate, GateResult, evaluate, parse_gate
from aiperf_spec.analysis.sweep.choices import choice
from aiperf_spec.analysis.sweep.contrasts import Contrasts
from aiperf_spec.analysis.sweep.points import PointRuns
from aiperf_spec.errors import ConfigError
from aiperf_spec.metrics.goodput import Objective
from aiperf_spec.models.sweep import Load


@dataclass(slots=True, frozen=True, kw_only=True)
class SloOutcome:
    """Whether a point met the objectives, in every repeat. `missed` are the results that were not met."""

    k: int | None
    load: Load
    met: bool
    missed: tuple[GateResult, ...]


@dataclass(slots=True, frozen=True, kw_only=True)
class SloAnswer:
    """The objectives, each point's outcome, and the highest load at which some draft length met all of them.

    `best` is the fastest one of those that met them there, `ties` the others of these that are not shown to differ from
    it. `highest_of` gives the highest load of each draft length, None where it met them at none.
    """

    expressions: tuple[str, ...]
    outcomes: tuple[SloOutcome, ...]
    highest: Load | None
    best: int | None
    ties: tuple[int, ...]
    highest_of: Mapping[int | None, Load | None]


def parse_slos(expressions: Sequence[str]) -> list[Gate]:
    """Return the conditions of `--slo`; raise `ConfigError` naming one that is wrong."""
    gates = [parse_gate(expression, "--slo") for expression in expressions]
    if (relative := next((gate for gate in gates if gate.relative), None)) is not None:
        raise ConfigError(
            f"--slo {relative.expression!r}: an objective has no {relative.relative} run", "give a number"
        )
    return gates


def slo_answer(
    gates: Sequence[Gate],
    runs: Mapping[tuple[Load, int | None], PointRuns],
    found: Contrasts,
    goals: Sequence[Objective] = (),
) -> SloAnswer:
    """Return what the points come to under these conditions."""
    outcomes = []
    for (load, k), point in runs.items():
        results = [evaluate(gates, Figures(run.records, goals=goals)) for run in point.runs.values()]
        missed = tuple(result for each in results for result in each if not result.passed)
        outcomes.append(SloOutcome(k=k, load=load, met=not missed, missed=missed))
    met = [(each.load, each.k) for each in outcomes if each.met]
    highest = max((load for load, _ in met), default=None)
    there = [k for load, k in met if load == highest and k is not None]
    fastest = choice(found, highest, there) if highest is not None and there else None
    lengths = dict.fromkeys(k for _, k in runs)
    return SloAnswer(
        expressions=tuple(gate.expression for gate in gates),
        outcomes=tuple(outcomes),
        highest=highest,
        best=None if fastest is None else fastest.best,
        ties=() if fastest is None else fastest.ties,
        highest_of={k: max((load for load, of in met if of == k), default=None) for k in lengths},
    )
