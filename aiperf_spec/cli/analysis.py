"""Analyse runs that were written before, and hold them against gates."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from aiperf_spec.analysis.gate_figures import Figures
from aiperf_spec.analysis.gates import all_met
from aiperf_spec.analysis.report import analyse
from aiperf_spec.artifacts.read.baseline import load_baseline
from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.cli.gates import Gates, flags_of_folder
from aiperf_spec.cli.terminal import stderr, stdout
from aiperf_spec.config.settings import ReportSettings
from aiperf_spec.render.analysis import analysis_report
from aiperf_spec.render.gates import gates_table
from aiperf_spec.render.text import printable


def examine(
    runs: Sequence[RunFolder],
    settings: ReportSettings,
    gates: Gates,
    *,
    analysed: Sequence[RunFolder],
    quiet: bool = False,
) -> bool:
    """Print the gates of each run, before them the analysis of those `analysed`; say whether all gates are met.

    `quiet` keeps stdout for a document: gates then go to stderr, and no analysis is shown.
    """
    baseline = load_baseline(settings)
    met = True
    for run in runs:
        show = not quiet and run in analysed
        if not show and not settings.require:
            continue
        records = run.records().records
        console: Console = stderr() if quiet else stdout()
        name = printable(str(run.path), 60)
        if show:
            analysis = analyse(records, settings, baseline=baseline)
            texts = run.answers({outlier.index for outlier in analysis.outliers.requests})
            console.print(Text(name, style="bold"))
            console.print(analysis_report(analysis, by_category=settings.by_category, texts=texts))
        if settings.require:
            results = gates.outcomes(Figures(records, flags=flags_of_folder(run)))
            console.print(gates_table(results, strict=settings.strict, title=f"Gates, {name}"))
            met = all_met(results) and met
    return met
