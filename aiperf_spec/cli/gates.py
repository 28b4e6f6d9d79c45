"""What a run is held against: gates, the base run, a baseline without speculation."""

from collections.abc import Mapping, Sequence
from functools import partial

from rich.console import Console

from aiperf_spec.analysis.comparison.mismatches import common_settings
from aiperf_spec.analysis.comparison.outputs import IDENTICAL
from aiperf_spec.analysis.gate_figures import Figures
from aiperf_spec.analysis.gates import GateResult, Reference, evaluate, expect_references, parse_gate
from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.server_acceptance import ServerAcceptance, server_acceptance
from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.artifacts.read.run import limits_of, run_settings, unsent_of
from aiperf_spec.config.choices import ReportSource
from aiperf_spec.errors import ConfigError
from aiperf_spec.metrics.goodput import objectives
from aiperf_spec.metrics.stats import statistic_of
from aiperf_spec.metrics.summary import Summary, summarise
from aiperf_spec.metrics.table import LOOP_LAG
from aiperf_spec.models.run import RunResult
from aiperf_spec.models.server_metrics import Agreement, Reconciliation
from aiperf_spec.models.units import NS_PER_MS
from aiperf_spec.render.gates import gates_table


class Gates:
    """The gates of a command: read, with the base run's records, before anything is sent.

    With a `source` of server metrics, acceptance length and rate are those of the server's counters, also of the base.
    With `outputs`, gates may ask for the share of identical answers; with `several` candidates, for the best of them,
    whose figures `outcomes` then takes. Raises `SpecProfileError` for an
    expression or a folder that cannot be read.
    """

    def __init__(
        self,
        require: Sequence[str],
        base: Sequence[RunFolder],
        *,
        strict: bool,
        source: ReportSource = ReportSource.AUTO,
        goodput: Mapping[str, float] | None = None,
        outputs: bool = False,
        several: bool = False,
    ) -> None:
        objectives(goodput or {})
        self._limits = goodput
        self._gates = [parse_gate(expression) for expression in require]
        for gate in self._gates:
            if gate.name.tag == IDENTICAL and not outputs:
                raise ConfigError(
                    f"--require {gate.expression!r}: the answers of one run are identical to none",
                    "compare BASE CANDIDATE --outputs takes this gate",
                )
        self.strict = strict
        if strict and not self._gates:
            raise ConfigError("--strict asks more of gates, and there is none", "add --require EXPR")
        given = {Reference.BASE: bool(base), Reference.BEST: several}
        expect_references(self._gates, [reference for reference, is_given in given.items() if is_given])
        self._by_counters = source.is_server
        self._base = self.figures_of(base) if base else None

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._gates)

    @property
    def ask_for_best(self) -> bool:
        """Whether any refers to the best candidate."""
        return any(gate.relative is Reference.BEST for gate in self._gates)

    def figures_of(self, runs: Sequence[RunFolder], identical: Mapping[str | None, Estimate] | None = None) -> Figures:
        """Return the figures of runs together, with what summaries say that gates ask for and records do not tell.

        `identical` is the share of their answers that are the base's.
        A flag is true where it is of every run, and None where that is not known.
        """
        known = [_reconciled(run.described.reconciliation) for run in runs]
        reconciled = None if None in known else all(known)
        records = [record for run in runs for record in run.records().records]
        settings = common_settings([run_settings(run.described) for run in runs])
        goals = objectives(self._limits or limits_of(runs))
        summary = summarise(records, unsent=unsent_of(runs), goals=goals)
        counted = _counted(runs) if self._by_counters else None
        flags = {"reconciled": reconciled}
        # Lags of several clients do not make one distribution.
        lag = partial(runs[0].described.metric, LOOP_LAG) if len(runs) == 1 else None
        return Figures(
            records,
            summary=summary,
            flags=flags,
            settings=settings,
            counted=counted,
            loop_lag=lag,
            goals=goals,
            identical=identical,
        )

    def figures_of_result(self, result: RunResult, summary: Summary) -> Figures:
        """Return the same of a run that has just been made."""
        counted = server_acceptance(result.reconciliation) if self._by_counters else None
        flags = {"reconciled": _reconciled(result.reconciliation)}
        lags = sorted(lag / NS_PER_MS for lag in result.loop_lags_ns)
        return Figures(
            result.records,
            summary=summary,
            flags=flags,
            counted=counted,
            loop_lag=partial(statistic_of, lags),
            goals=objectives(summary.objectives),
        )

    def outcomes(self, figures: Figures, best: Figures | None = None) -> list[GateResult]:
        """Return each gate's outcome."""
        return evaluate(self._gates, figures, self._base, best=best, strict=self.strict)

    def show(self, results: Sequence[GateResult], console: Console, title: str = "Gates") -> bool:
        """Print the outcomes, where there are any, and say whether all gates are met."""
        if results:
            title += ", acceptance by the server's counters (all traffic)" if self._by_counters else ""
            console.print(gates_table(results, strict=self.strict, title=title))
        return all(result.passed for result in results)


def _counted(runs: Sequence[RunFolder]) -> ServerAcceptance | Missing:
    """Return what the servers of runs counted together, or why that is not known."""
    together: ServerAcceptance | None = None
    for run in runs:
        found = server_acceptance(run.described.reconciliation)
        if found is Missing.NO_COUNTERS:
            # AIPerf's runs have counters, and no comparison with them.
            found = run.server_metrics.counted_acceptance() or found
        if isinstance(found, Missing):
            return found
        together = found if together is None else together.with_other(found)
    return Missing.NO_COUNTERS if together is None else together


def _reconciled(found: Reconciliation | None) -> bool | None:
    # Not known where the server's counters were not read, or say nothing.
    return None if found is None or not found.agreement.known else found.agreement is Agreement.EXACT
