"""Report on runs from their files: as they ended, side by side, or the acceptance matrix."""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from aiperf_spec.analysis.cautions import cautions
from aiperf_spec.analysis.figure_names import FigureName, parse_metric
from aiperf_spec.analysis.matrix import WHOLE_RUN, Matrix, build_matrix
from aiperf_spec.artifacts.read.clients import check_clients
from aiperf_spec.artifacts.read.folders import RunFolder, by_model, find_runs
from aiperf_spec.artifacts.read.matrix_figures import named, run_figures
from aiperf_spec.artifacts.read.run import load_run, notices_of
from aiperf_spec.artifacts.write.matrix_formats import matrix_csv, matrix_json, matrix_markdown
from aiperf_spec.artifacts.write.summary_files import clients_json, figures_json
from aiperf_spec.cli.gates import Gates
from aiperf_spec.cli.page import expect_page, report_html
from aiperf_spec.cli.run_screens import RunScreens, has_figures, side_by_side
from aiperf_spec.cli.terminal import note, say_next, show_document, stderr, stdout, translated_errors, write_file
from aiperf_spec.config.choices import ReportFormat, ReportMetric, ReportSource
from aiperf_spec.config.result_options import ReportDisplay
from aiperf_spec.config.settings import ReportSettings
from aiperf_spec.errors import ConfigError, ExitCode, SpecProfileError
from aiperf_spec.metrics.goodput import GOODPUT_TAGS
from aiperf_spec.models.run import NoticeKind
from aiperf_spec.render.analysis import analysis_report
from aiperf_spec.render.matrix import matrix_report, notes
from aiperf_spec.render.notices import notice_text
from aiperf_spec.render.text import plural, printable

_WIDE = 100_000
_PIPED = 100
_ACCEPTANCE = (ReportMetric.ACCEPT_LENGTH, ReportMetric.ACCEPT_RATE)
_ABOUT_TIME = frozenset(
    {NoticeKind.SATURATED, NoticeKind.SCHEDULE_LAG, NoticeKind.PROXY, NoticeKind.ONE_READ, NoticeKind.CLUMPS}
)


def report(paths: Sequence[Path], settings: ReportSettings, display: ReportDisplay) -> None:
    """Print a run's own tables and its answer; of several runs a table side by side, and the matrix of categories."""
    with translated_errors():
        metric = parse_metric(display.metric)
        if settings.goodput and isinstance(metric, FigureName) and metric.tag in GOODPUT_TAGS:
            raise ConfigError(
                f"--metric {metric} shows the goodput of the limits that each run was given, not of --goodput",
                "leave out --metric and report on one run, or leave out --goodput",
            )
        if display.html is not None:
            expect_page(display.html)
        base = [] if settings.base is None else [RunFolder(settings.base)]
        gates = Gates(settings.require, base, strict=settings.strict, source=display.source, goodput=settings.goodput)
        runs = find_runs(paths)
        _expect_to_read(runs, settings, display)
        groups = by_model(runs) if display.pool else [[run] for run in runs]
        for notice in chain.from_iterable(map(check_clients, groups)) if display.pool else ():
            note(notice_text(notice))
        plain = metric is ReportMetric.ACCEPT_LENGTH and _asks_for_runs(display)
        alone = plain and len(groups) == 1
        matrix = None if alone else _matrix(runs, metric, display)
        if not (any(map(has_figures, runs)) if plain else matrix is not None and matrix.has_values):
            raise NothingToReportError(
                f"no {named(metric)} in {plural(len(runs), 'run')}",
                _remedy(metric, pooled=display.pool and matrix is not None and matrix.is_timed),
            )
        screens = RunScreens(settings, display.analysis)
        own = groups if alone or display.pool or (plain and settings.full) else []
        _repeat_notices(runs, own=bool(own), of_time=plain or metric not in _ACCEPTANCE)
        if matrix is not None and display.form is not ReportFormat.TABLE:
            _give(_document(matrix, runs, display, settings.goodput), display)
        else:
            shown = _screens(matrix, runs, own, screens, display, plain=plain)
            if display.output is not None:
                write_file("--output", display.output, "".join(_as_text(*each) for each in shown).encode())
            else:
                _print(shown)
        if display.html is not None:
            write_file("--html", display.html, report_html(groups, screens, pool=display.pool))
        met = _examine(runs, screens, display, gates, own_shown=bool(own) and not display.pool)
        if plain and display.output is None:
            _say_next(runs, display)
    if not met:
        raise typer.Exit(ExitCode.GATE)


def _remedy(metric: ReportMetric | FigureName, *, pooled: bool) -> str | None:
    if pooled:
        return "leave out --pool: runs that were not all running at the same time have no combined throughput"
    return "report a run with --full to see the figures that it has" if isinstance(metric, FigureName) else None


def _matrix(runs: Sequence[RunFolder], metric: ReportMetric | FigureName, display: ReportDisplay) -> Matrix:
    source = ReportSource.SERVER_METRICS if display.source is ReportSource.SERVER else display.source
    found = [run_figures(run, metric, source, pool=display.pool) for run in runs]
    return build_matrix(metric, found, pool=display.pool)


def _say_next(runs: Sequence[RunFolder], display: ReportDisplay) -> None:
    paths = [str(run.path) for run in runs]
    if len(paths) > 1 and not display.pool:
        say_next("compare", *paths[:2])
    elif display.html is None:
        say_next("report", *paths, *(["--pool"] if display.pool else []), "--html", "page.html")


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


def _asks_for_runs(display: ReportDisplay) -> bool:
    """Say whether runs are asked for rather than their matrix, by all options but the metric."""
    return display.form is ReportFormat.TABLE and not display.intervals and display.source is ReportSource.AUTO


def _document(matrix: Matrix, runs: Sequence[RunFolder], display: ReportDisplay, limits: Mapping[str, float]) -> bytes:
    if display.form is ReportFormat.CSV:
        return matrix_csv(matrix, intervals=display.intervals)
    if display.form is ReportFormat.MARKDOWN:
        return matrix_markdown(matrix, notes(matrix, intervals=display.intervals), intervals=display.intervals)
    summaries = [_summary_json(group, limits) for group in by_model(runs)] if display.pool else []
    return matrix_json(matrix, intervals=display.intervals, summaries=summaries)


def _give(data: bytes, display: ReportDisplay) -> None:
    if display.output is not None:
        write_file("--output", display.output, data)
    else:
        show_document(data, is_json=display.form is ReportFormat.JSON)


_Screen = tuple[RenderableType, int]
"""What is printed, and in how many columns."""


def _screens(
    matrix: Matrix | None,
    runs: Sequence[RunFolder],
    own: Sequence[Sequence[RunFolder]],
    screens: RunScreens,
    display: ReportDisplay,
    *,
    plain: bool,
) -> Iterator[_Screen]:
    console = stdout()
    on_terminal = console.is_terminal and display.output is None
    width = console.width if display.output is None else _PIPED
    for group in own:
        yield from ((part, width) for part in screens.of_run(group, several=len(own) > 1))
    if matrix is None:
        return
    table, labels = side_by_side(runs)
    if not plain or (matrix.has_values and {*matrix.columns} != {WHOLE_RUN}):
        # Whoever wants one metric from a pipe or in a file wants every column of it on one line.
        folded = width if on_terminal or plain else None
        yield matrix_report(matrix, intervals=display.intervals, width=folded, labels=labels), folded or _WIDE
        yield Text(""), width
    if plain:
        yield table, width


def _print(screens: Iterable[_Screen]) -> None:
    console = stdout()
    for table, width in screens:
        usual, console.width = console.width, width
        console.print(table)
        console.width = usual


def _examine(
    runs: Sequence[RunFolder], screens: RunScreens, display: ReportDisplay, gates: Gates, *, own_shown: bool
) -> bool:
    """Print the analysis of runs whose own tables are not shown, and the gates of each; say whether all are met."""
    # With a document on stdout, gates go to stderr, and no analysis is shown.
    quiet = display.form is not ReportFormat.TABLE or display.output is not None
    console = stderr() if quiet else stdout()
    met = True
    for run in runs:
        name = printable(str(run.path), 60)
        analysis, shown = None, display.analysis and not quiet and not own_shown
        if shown:
            analysis, texts = screens.analysed([run], run.records().records)
            console.print(Text(name, style="bold"))
            console.print(analysis_report(analysis, by_category=screens.settings.by_category, texts=texts))
        if shown or (gates and not own_shown):
            for notice in cautions(run.records().records) if analysis is None else analysis.cautions:
                note(f"{name}: {notice_text(notice)}")
        if gates:
            met = gates.show(gates.outcomes(gates.figures_of([run])), console, f"Gates, {name}") and met
    return met


def _summary_json(group: Sequence[RunFolder], limits: Mapping[str, float]) -> dict[str, Any]:
    loaded = load_run(group)
    figures = figures_json(loaded.summary(limits))
    clients = loaded.result.clients
    added = {} if clients is None else {"clients": clients_json(clients)}
    return {"model": group[0].model, "runs": [run.name for run in group], **added, **figures}


def _as_text(table: RenderableType, width: int) -> str:
    buffer = io.StringIO()
    Console(file=buffer, width=width, color_system=None, highlight=False).print(table)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"
