"""What a run is held against: gates, the base run, a baseline without speculation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console

from aiperf_spec.analysis.gate_figures import Figures
from aiperf_spec.analysis.gates import Gate, GateResult, all_met, evaluate, needs_base, parse_gate
from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.config.settings import ReportSettings
from aiperf_spec.errors import ConfigError
from aiperf_spec.metrics.summary import Summary
from aiperf_spec.models.run import RequestRecord, RunResult
from aiperf_spec.models.server_metrics import Agreement
from aiperf_spec.render.gates import gates_table


class Gates:
    """The gates of a command: read, with the base run's records, before anything is sent.

    Raises `SpecProfileError` for an expression or a folder that cannot be read.
    """

    def __init__(self, settings: ReportSettings) -> None:
        self._gates = read_gates(settings.require, strict=settings.strict)
        if settings.base is None and needs_base(self._gates):
            asking = next(gate for gate in self._gates if gate.relative)
            raise ConfigError(f"--require {asking.expression!r}: which run is base?", "give its folder with --base DIR")
        self._base = None if settings.base is None else figures_of(RunFolder(settings.base))
        self._strict = settings.strict

    def check(
        self,
        records: Sequence[RequestRecord],
        *,
        summary: Summary | None = None,
        flags: Mapping[str, bool | None] | None = None,
        console: Console,
    ) -> bool:
        """Print the table of gates, where there are any, on `console`, and say whether all are met."""
        if not self._gates:
            return True
        results = self.outcomes(Figures(records, summary=summary, flags=flags))
        console.print(gates_table(results, strict=self._strict))
        return all_met(results)

    def outcomes(self, figures: Figures) -> list[GateResult]:
        """Return each gate's outcome."""
        return evaluate(self._gates, figures, self._base, strict=self._strict)


def read_gates(expressions: Sequence[str], *, strict: bool) -> list[Gate]:
    """Return the gates, parsed; raises `ConfigError` where `strict` asks more of none."""
    gates = [parse_gate(expression) for expression in expressions]
    if strict and not gates:
        raise ConfigError("--strict asks more of gates, and there is none", "add --require EXPR")
    return gates


def figures_of(run: RunFolder) -> Figures:
    """Return the figures of a run's folder."""
    return Figures(run.records().records, flags=flags_of_folder(run))


def flags_of_folder(run: RunFolder) -> dict[str, bool | None]:
    """Return what a run's summary says that gates ask for and records do not tell."""
    return {"reconciled": reconciled(run.described.spec_profile.reconciliation.agreement)}


def flags_of_run(result: RunResult) -> dict[str, bool | None]:
    """Return the same of a run that has just been made."""
    found = result.reconciliation
    return {"reconciled": reconciled(None if found is None else found.agreement)}


def reconciled(agreement: str | None) -> bool | None:
    """Return whether the server's counters agree with the requests'; None where they were not read, or were reset."""
    return None if agreement in (None, Agreement.RESET) else agreement == Agreement.EXACT
