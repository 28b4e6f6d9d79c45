"""Report on runs from their files: the acceptance matrix, or the tables that a run printed."""

import io
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from aiperf_spec.analysis.cautions import cautions
from aiperf_spec.analysis.matrix import Matrix, build_matrix
from aiperf_spec.artifacts.read.baseline import analysed, load_baseline
from aiperf_spec.artifacts.read.folders import RunFolder, by_model, find_runs
from aiperf_spec.artifacts.read.matrix_figures import run_figures
from aiperf_spec.artifacts.read.run import load_run, notices_of, run_settings, taken_over
from aiperf_spec.artifacts.read.summary_file import summary_of
from aiperf_spec.artifacts.write.matrix_formats import matrix_csv, matrix_json, matrix_markdown
from aiperf_spec.artifacts.write.summary_files import figures_json
from aiperf_spec.cli.gates import Gates
from aiperf_spec.cli.page import expect_page, report_html
from aiperf_spec.cli.terminal import note, show_document, stderr, stdout, translated_errors, write_file
from aiperf_spec.config.choices import ReportFormat, ReportMetric, ReportSource
from aiperf_spec.config.result_options import ReportDisplay
from aiperf_spec.config.settings import ReportSettings
from aiperf_spec.errors import ExitCode, SpecProfileError
from aiperf_spec.models.run import NoticeKind
from aiperf_spec.render.analysis import analysis_report
from aiperf_spec.render.matrix import matrix_report, notes
from aiperf_spec.render.notices import notice_text
from aiperf_spec.render.tables import run_report
from aiperf_spec.render.text import plural, printable

_WIDE = 100_000
_ABOUT_TIME = frozenset(
    {NoticeKind.SATURATED, NoticeKind.SCHEDULE_LAG, NoticeKind.PROXY, NoticeKind.ONE_READ, NoticeKind.CLUMPS}
)


def report(paths: Sequence[Path], settings: ReportSettings, display: ReportDisplay) -> None:
    """Print the matrix of the runs at the paths or, where none of them has categories, their own tables."""
    with translated_errors():
        if display.html is not None:
            expect_page(display.html)
        base = [] if settings.base is None else [RunFolder(settings.base)]
        gates = Gates(settings.require, base, strict=settings.strict, source=display.source)
        runs = find_runs(paths)
        _expect_to_read(runs, settings, display)
        metric, source = display.metric, display.source
        if source is ReportSource.SERVER:
            source = ReportSource.SERVER_METRICS
        found = [run_figures(run, metric, source, pool=display.pool) for run in runs]
        matrix = build_matrix(metric, found, pool=display.pool)
        own = _wants_own_tables(runs, display)
        if not own and not matrix.has_values:
            remedy = "leave out --pool: runs that were not all under way at the same time have no common throughput"
            raise NothingToReportError(
                f"no {metric.replace('_', ' ')} in {plural(len(runs), 'run')}",
                remedy if display.pool and metric is ReportMetric.THROUGHPUT else None,
            )
        data = _rendered(matrix, runs, display, own=own)
        _repeat_notices(runs, own=own or display.pool, of_time=metric is ReportMetric.THROUGHPUT)
        if data is not None and display.output is not None:
            write_file("--output", display.output, data)
        elif data is not None:
            show_document(data, is_json=display.form is ReportFormat.JSON)
        if display.html is not None:
            write_file("--html", display.html, report_html(runs, settings, pool=display.pool))
        met = _examine(runs, settings, display, gates, with_own=own and not display.pool)
    if not met:
        raise typer.Exit(ExitCode.GATE)


def _repeat_notices(runs: Sequence[RunFolder], *, own: bool, of_time: bool) -> None:
    # Beside acceptance alone, most have nothing to say; times must not be shown without what spoils them.
    for run in runs:
        for notice in notices_of(run):
            if own or (of_time and notice.kind in _ABOUT_TIME):
                note(notice_text(notice) if len(runs) == 1 else f"{printable(run.name, 400)}: {notice_text(notice)}")


class NothingToReportError(SpecProfileError):
    """Say that no run holds what was asked for."""

    exit_code = ExitCode.NO_SUCCESS


def _expect_to_read(runs: Sequence[RunFolder], settings: ReportSettings, display: ReportDisplay) -> None:
    # Records that several parts of the report need are read once. Those of many runs are held only for a page, which
    # holds all of them anyway.
    for run in runs:
        run.keep = display.html is not None or len(runs) == 1
        needed = display.html is not None or display.analysis or bool(settings.require)
        if run.keep and needed and run.has_records and not run.shown_from_summary:
            run.records()


def _wants_own_tables(runs: Sequence[RunFolder], display: ReportDisplay) -> bool:
    if display.form is not ReportFormat.TABLE or display.metric is not ReportMetric.ACCEPT_LENGTH:
        return False
    if display.source is not ReportSource.AUTO or display.intervals:
        return False
    has_categories = any(run.selector_category is not None for run in runs)
    return not has_categories and not any(run.totals().categories.keys() - {None} for run in runs if run.has_records)


def _rendered(matrix: Matrix, runs: Sequence[RunFolder], display: ReportDisplay, *, own: bool) -> bytes | None:
    if display.form is ReportFormat.CSV:
        return matrix_csv(matrix, intervals=display.intervals)
    if display.form is ReportFormat.MARKDOWN:
        return matrix_markdown(matrix, notes(matrix, intervals=display.intervals), intervals=display.intervals)
    if display.form is ReportFormat.JSON:
        summaries = [_summary_json(group) for group in by_model(runs)] if display.pool else []
        return matrix_json(matrix, intervals=display.intervals, summaries=summaries)
    console = stdout()
    to_file = display.output is not None
    folded = console.width if console.is_terminal and not to_file else None
    # Whoever reads a pipe or a file wants every column of the matrix on one line.
    tables: list[tuple[RenderableType, int]] = []
    if not own:
        tables.append((matrix_report(matrix, intervals=display.intervals, width=folded), folded or _WIDE))
    if own or display.pool:
        groups = by_model(runs) if display.pool else [[run] for run in runs]
        width = 100 if to_file else console.width
        tables += [(table, width) for group in groups for table in _own_tables(group, several=len(groups) > 1)]
    if to_file:
        return "".join(_as_text(table, width) for table, width in tables).encode()
    for table, width in tables:
        usual, console.width = console.width, width
        console.print(table)
        console.width = usual
    return None


def _examine(
    runs: Sequence[RunFolder], settings: ReportSettings, display: ReportDisplay, gates: Gates, *, with_own: bool
) -> bool:
    """Print the analysis of runs, where it is shown, and the gates of each; say whether all gates are met."""
    baseline = load_baseline(settings)
    # With a document on stdout, gates go to stderr, and no analysis is shown.
    quiet = display.form is not ReportFormat.TABLE or display.output is not None
    console = stderr() if quiet else stdout()
    met = True
    for run in runs:
        name = printable(str(run.path), 60)
        # A run's own tables are followed by its analysis, as they were when it ran.
        wanted = display.analysis or (with_own and run.has_records and not run.shown_from_summary)
        analysis, shown = None, wanted and not quiet
        if shown:
            of_run = partial(run_settings, run.described)
            analysis = analysed(run.records().records, taken_over(settings, run), baseline, of_run)
            texts = run.answers(analysis.outliers.indexes)
            console.print(Text(name, style="bold"))
            console.print(analysis_report(analysis, by_category=settings.by_category, texts=texts))
        if gates or shown:
            for notice in cautions(run.records().records) if analysis is None else analysis.cautions:
                note(f"{name}: {notice_text(notice)}")
        if gates:
            met = gates.show(gates.outcomes(gates.figures_of([run])), console, f"Gates, {name}") and met
    return met


def _own_tables(group: Sequence[RunFolder], *, several: bool) -> Iterator[RenderableType]:
    if several or len(group) > 1:
        title = str(group[0].path) if len(group) == 1 else f"{plural(len(group), 'run')} as one: {_names(group)}"
        yield Text(printable(title, 400), style="bold")
    if len(group) == 1 and group[0].shown_from_summary:
        loaded = load_run(group, with_records=False)
        yield run_report(loaded.result, summary_of(group[0].described), rows=0)
        return
    if missing := [run.name for run in group if not run.has_records]:
        raise SpecProfileError(
            f"{missing[0]!r} has no records, which pooling needs",
            "give runs exported at records or raw level, or leave out --pool",
        )
    loaded = load_run(group)
    yield run_report(loaded.result, loaded.summary(), rows=loaded.settings.rows)
    for notice in loaded.result.notices:
        if notice.kind is NoticeKind.NO_COMMON_TIME:
            note(f"{printable(_names(group), 400)}: {notice_text(notice)}")
    if loaded.unreadable:
        note(printable(f"{_names(group)}: {plural(loaded.unreadable, 'unreadable line')} left out", 400))


def _names(group: Sequence[RunFolder]) -> str:
    return ", ".join(run.name for run in group)


def _summary_json(group: Sequence[RunFolder]) -> dict[str, Any]:
    loaded = load_run(group)
    figures = figures_json(loaded.summary())
    return {"model": group[0].model, "runs": [run.name for run in group], **figures}


def _as_text(table: RenderableType, width: int) -> str:
    buffer = io.StringIO()
    Console(file=buffer, width=width, color_system=None, highlight=False).print(table)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"
