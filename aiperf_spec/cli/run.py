"""The main job: profile a server, print, export."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from aiperf_spec.analysis.report import Analysis
from aiperf_spec.artifacts.names import SUMMARY_JSON
from aiperf_spec.artifacts.read.answers import load_answers
from aiperf_spec.artifacts.write.summary_files import summary_json
from aiperf_spec.artifacts.write.writer import ArtifactWriter
from aiperf_spec.cli.interrupt import say_at_once, signals_put_back, tell_signals_to
from aiperf_spec.cli.terminal import note, say_next, show_document, show_faults, stderr, stdout, translated_errors
from aiperf_spec.config.choices import ReportSource, Ui
from aiperf_spec.config.result_options import RunDisplay
from aiperf_spec.config.settings import ProfileConfig, ReportSettings
from aiperf_spec.errors import ExitCode, NoContactError, SpecProfileError, standing_alone
from aiperf_spec.load.plan import own_requests_of
from aiperf_spec.load.start import seconds_to_start
from aiperf_spec.load.stop import Stop
from aiperf_spec.metrics.goodput import objectives
from aiperf_spec.metrics.summary import Summary
from aiperf_spec.models.response import PromptAndAnswer
from aiperf_spec.models.run import Phase, RunInfo, RunResult
from aiperf_spec.profiling import Hooks, first_request, profile
from aiperf_spec.render.notices import notice_text
from aiperf_spec.render.progress import Display
from aiperf_spec.render.run_report import brief_report, run_report


@dataclass(slots=True, frozen=True)
class MeasuredRun:
    """A run with its figures and its analysis; `faults` say why some of that, or of its files, is missing."""

    result: RunResult
    summary: Summary
    analysis: Analysis | None
    faults: list[SpecProfileError]

    @property
    def exit_code(self) -> ExitCode:
        """How the command ends: a signal's code, 1 where nothing succeeded, else 0."""
        if self.result.stopped_by is not None:
            return ExitCode.of_signal(self.result.stopped_by)
        return ExitCode.OK if self.summary.succeeded else ExitCode.NO_SUCCESS


def run(config: ProfileConfig, settings: ReportSettings, display: RunDisplay) -> None:
    """Profile, print and export, or only print the first request; exit with the run's code."""
    if display.dry_run:
        _dry_run(config)
        return
    with translated_errors(), signals_put_back():
        # Read first: a gate or a limit that means nothing, or a missing base, is to be known before anything is sent.
        judge = _judge(settings, display.source)
        objectives(settings.goodput)
        measured = measure(config, settings, display.progress)
        print_run(measured, settings, display)
        met = False
        with standing_alone("the gates", measured.faults):
            met = judge(measured, stderr() if display.as_json else stdout())
        if measured.result.failure is not None:
            measured.faults.insert(0, measured.result.failure)
        show_faults(measured.faults)
    code = measured.exit_code
    raise typer.Exit(ExitCode.GATE if code is ExitCode.OK and not met else code)


def _judge(settings: ReportSettings, source: ReportSource) -> Callable[[MeasuredRun, Console], bool]:
    if not (settings.require or settings.base or settings.strict):
        return lambda measured, console: True
    from aiperf_spec.artifacts.read.folders import RunFolder
    from aiperf_spec.cli.gates import Gates

    base = [] if settings.base is None else [RunFolder(settings.base)]
    gates = Gates(settings.require, base, strict=settings.strict, source=source)
    return lambda run, console: gates.show(gates.outcomes(gates.figures_of_result(run.result, run.summary)), console)


def measure(config: ProfileConfig, settings: ReportSettings, ui: Ui = Ui.AUTO) -> MeasuredRun:
    """Profile, summarise, analyse and write; what cannot be written is told, and the rest stands."""
    # rich reads how wide characters are from a file, for which there may be no descriptor left at the end.
    cell_len("\u4f60")
    with ArtifactWriter(config, settings) as writer, Display(stderr(), config, ui) as display:

        def on_plan(info: RunInfo) -> None:
            display.expect({phase: own_requests_of(config, info.dataset, phase) for phase in Phase})
            if ui is not Ui.NONE and (left_s := seconds_to_start(config, info.wall_offset_ns)) is not None:
                stderr().print(Text(f"profiling starts at {config.start_at}, in {left_s:,.0f} s"), soft_wrap=True)

        hooks = Hooks(
            on_plan,
            writer,
            sinks=[display.sink],
            on_stop=partial(stop_on_signals, kept=writer.kept),
            watch=display.watch,
        )
        result = profile(config, hooks, settings)
    return MeasuredRun(result, result.summary, result.analysis, [*result.faults])


def stop_on_signals(stop: Stop, kept: Callable[[], str]) -> None:
    """Let a first SIGINT, SIGTERM or SIGHUP stop the run, and a second leave at once; called within the run's loop.

    One that came before stops the run now. One that comes after its last request ends nothing: what was measured is
    about to be shown. `kept` says what is on disk by then.
    """
    loop = asyncio.get_running_loop()

    def tell(name: str) -> None:
        if loop.is_closed():
            say_at_once(f"{name}: the run has ended and its results follow; a second signal exits without them")
        else:
            loop.call_soon_threadsafe(stop.request, name)

    tell_signals_to(tell, kept)


def print_run(measured: MeasuredRun, settings: ReportSettings, display: RunDisplay) -> None:
    """Print notices on stderr, then tables and the answer, or JSON, on stdout; what fails joins the faults."""
    result, summary, analysis = measured.result, measured.summary, measured.analysis
    if isinstance(result.failure, NoContactError) and not (summary.succeeded or display.as_json):
        return  # nothing was measured, and the error says why
    say_notices(measured)
    tables = not (display.as_json or display.quiet)
    texts: dict[int, PromptAndAnswer] = {}
    if tables and analysis is not None and result.artifact_dir is not None:
        with standing_alone("the texts of the worst requests", measured.faults):
            # Only raw level keeps them, in its file: records have none.
            texts = load_answers(result.artifact_dir, analysis.outliers.indexes)
    with standing_alone("the results", measured.faults):
        if display.as_json:
            show_document(summary_json(result, summary), is_json=True)
        elif display.quiet:
            stdout().print(brief_report(result, summary))
        else:
            stdout().print(run_report(result, summary, analysis, settings=settings, texts=texts))
    # No file is there where the folder was removed meanwhile.
    if (folder := result.artifact_dir) is not None and (folder / SUMMARY_JSON).exists():
        if tables and summary.succeeded:
            say_next("report", str(folder), "--html", "page.html")
        else:
            stderr().print(Text(f"results: {folder / SUMMARY_JSON}"), soft_wrap=True)


def say_notices(measured: MeasuredRun) -> None:
    """Print on stderr what spoils a run, or is to be known of it."""
    with standing_alone("the list of notices", measured.faults):
        for notice in (*measured.result.notices, *(() if measured.analysis is None else measured.analysis.cautions)):
            note(notice_text(notice))


def _dry_run(config: ProfileConfig) -> None:
    """Print the first request and send nothing."""
    with translated_errors():
        url, headers, body = first_request(config)
        lines = [f"POST {url}", *(f"{name}: {value}" for name, value in headers.items()), ""]
        text = "\n".join(lines) + "\n" + json.dumps(body, indent=2, ensure_ascii=False)
    stdout().print(Text(text), soft_wrap=True)
