"""Write results as a page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from aiperf_spec.analysis.comparison.compare import ComparisonSet
from aiperf_spec.analysis.comparison.mismatches import Run
from aiperf_spec.analysis.comparison.outputs import OutputComparison
from aiperf_spec.analysis.gates import GateResult
from aiperf_spec.analysis.matrix import WHOLE_RUN, Matrix, build_matrix
from aiperf_spec.analysis.report import analyse
from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.artifacts.read.matrix_figures import run_figures
from aiperf_spec.artifacts.read.run import command_of, load_run, started_at
from aiperf_spec.artifacts.read.summary_file import summary_of
from aiperf_spec.cli.run_screens import RunScreens
from aiperf_spec.config.choices import ReportMetric, ReportSource
from aiperf_spec.errors import ConfigError
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.render.html.template import require_plots

if TYPE_CHECKING:
    from aiperf_spec.render.html.runs_page import PageRun


def expect_page(file: Path) -> None:
    """Raise `ConfigError` where no page could be made, or be written there."""
    require_plots()
    if file.is_dir() or not file.parent.is_dir():
        raise ConfigError(
            f"--html {str(file)!r}: not a file that can be written", "name a file in a folder that exists"
        )


def report_html(groups: Sequence[Sequence[RunFolder]], screens: RunScreens, *, pool: bool) -> bytes:
    """Return the page of runs, each that of a folder or, with `pool`, of several; analysed as the screens are."""
    from aiperf_spec.render.html.runs_page import runs_page

    runs = [run for group in groups for run in group]
    return runs_page([_page_run(group, screens) for group in groups], _matrix(runs, pool=pool))


def comparison_html(
    comparisons: ComparisonSet,
    runs: Sequence[Run],
    folders: Sequence[Sequence[RunFolder]],
    gates: Sequence[Sequence[GateResult]],
    outputs: Sequence[OutputComparison],
    *,
    strict: bool,
) -> bytes:
    """Return the page of a comparison; the first run is the base. `folders` are those of each run."""
    from aiperf_spec.render.html.comparison_page import ComparedRun, comparison_page

    once = list({folder.path.resolve(): folder for each in folders for folder in each}.values())
    compared = [ComparedRun(run, summarise(run.records), analyse(run.records)) for run in runs]
    return comparison_page(comparisons, compared, gates=gates, outputs=outputs, strict=strict, matrix=_matrix(once))


def _page_run(group: Sequence[RunFolder], screens: RunScreens) -> PageRun:
    from aiperf_spec.render.html.runs_page import PageRun

    first = group[0]
    page_run = partial(PageRun, configuration=first.configuration, command=command_of(first), started=started_at(first))
    if len(group) == 1 and first.shown_from_summary:
        result = load_run(group, with_records=False).result
        return page_run(first.name, result, summary_of(first.described), None)
    loaded = load_run(group)
    analysis, texts = screens.analysed(group, loaded.result.records)
    name = ", ".join(run.name for run in group)
    return page_run(name, loaded.result, loaded.summary(screens.settings.goodput), analysis, texts=texts)


def _matrix(runs: Sequence[RunFolder], *, pool: bool = False) -> Matrix | None:
    metric = ReportMetric.ACCEPT_LENGTH
    figures = [run_figures(run, metric, ReportSource.AUTO, pool=pool) for run in runs]
    matrix = build_matrix(metric, figures, pool=pool)
    return matrix if matrix.has_values and set(matrix.columns) != {WHOLE_RUN} else None
