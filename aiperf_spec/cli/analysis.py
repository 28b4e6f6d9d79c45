"""Analyse runs that were written before, and hold them against gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.text import Text

from aiperf_spec.analysis.gate_figures import Figures
from aiperf_spec.analysis.gates import all_met
from aiperf_spec.analysis.report import AnalysisOptions, analyse
from aiperf_spec.artifacts.read.answers import load_answers
from aiperf_spec.artifacts.read.records import load_records
from aiperf_spec.artifacts.write.analysis_json import load_baseline
from aiperf_spec.cli.gates import Gates, flags_of_folder
from aiperf_spec.cli.terminal import stderr, stdout
from aiperf_spec.errors import ConfigError
from aiperf_spec.render.analysis import analysis_report
from aiperf_spec.render.gates import gates_table
from aiperf_spec.render.text import printable


@dataclass(slots=True, frozen=True)
class Examination:
    """What is asked of each run: `show` its analysis, and `require` gates, whose `base` may be a folder."""

    show: bool = False
    by_category: bool = False
    options: AnalysisOptions = field(default_factory=AnalysisOptions)
    baseline: Path | None = None
    require: tuple[str, ...] = ()
    strict: bool = False
    base: Path | None = None

    def __post_init__(self) -> None:
        if self.baseline is not None and self.options.baseline_itl_ms is not None:
            raise ConfigError("--baseline and --baseline-itl both say what to compare with", "give one of them")

    def gates(self) -> Gates:
        """Return the gates, read; raises where one means nothing."""
        return Gates(self.require, base=self.base, strict=self.strict)


def examine(
    folders: Sequence[Path], asked: Examination, gates: Gates, *, quiet: bool = False, also: Sequence[Path] = ()
) -> bool:
    """Print the analysis and the gates of each folder, and say whether all gates are met.

    `quiet` keeps stdout for a document: gates then go to stderr, and no analysis is shown. `also` are the folders whose
    analysis is shown unasked.
    """
    baseline = None if asked.baseline is None else load_baseline(asked.baseline)
    met = True
    for folder in folders:
        show = not quiet and (asked.show or folder in also)
        if not show and not asked.require:
            continue
        records = list(load_records(folder).records)
        console: Console = stderr() if quiet else stdout()
        name = printable(str(folder), 60)
        if show:
            analysis = analyse(records, asked.options, baseline=baseline)
            texts = load_answers(folder, {outlier.index for outlier in analysis.outliers.requests})
            console.print(Text(name, style="bold"))
            console.print(analysis_report(analysis, by_category=asked.by_category, texts=texts))
        if asked.require:
            results = gates.judge(Figures(records, flags=flags_of_folder(folder)))
            console.print(gates_table(results, strict=asked.strict, title=f"Gates, {name}"))
            met = all_met(results) and met
    return met
