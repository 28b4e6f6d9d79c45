"""The main job: profile a server, print, export."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.text import Text

from aiperf_spec.artifacts.names import RECORDS_JSONL, SUMMARY_JSON
from aiperf_spec.artifacts.write.summary_files import summary_json
from aiperf_spec.artifacts.write.writer import ArtifactWriter
from aiperf_spec.cli.signals import EXIT_CODES, stop_on_signals
from aiperf_spec.cli.terminal import note, stderr, stdout, translated_errors
from aiperf_spec.config.choices import Ui
from aiperf_spec.config.settings import ProfileConfig, ReportSettings
from aiperf_spec.errors import ExitCode, ExportError
from aiperf_spec.load.requester import Sink
from aiperf_spec.metrics.summary import Summary, summarise
from aiperf_spec.models.response import PromptAndAnswer
from aiperf_spec.models.run import DatasetInfo, Phase, RunResult
from aiperf_spec.profiling import Hooks, first_request, profile
from aiperf_spec.render.analysis import analysis_report
from aiperf_spec.render.notices import notice_text
from aiperf_spec.render.progress import Display
from aiperf_spec.render.tables import brief_report, run_report

if TYPE_CHECKING:
    from aiperf_spec.cli.gates import Gates


@dataclass(slots=True, frozen=True)
class OutputOptions:
    """How a run is shown: `ui` while it goes on; then all tables, the acceptance table, or JSON."""

    ui: Ui = Ui.AUTO
    quiet: bool = False
    as_json: bool = False

    @property
    def progress(self) -> Ui:
        """How the run is shown while it goes on: not at all where it is to be quiet, unless that is asked for."""
        return Ui.NONE if self.quiet and self.ui is Ui.AUTO else self.ui


def run(config: ProfileConfig, settings: ReportSettings, surface: OutputOptions | None = None) -> None:
    """Profile, print and export; leaves with the run's exit code."""
    surface = surface or OutputOptions()
    with translated_errors():
        # Read first: a gate that means nothing, or a base that is not there, is to be known before anything is sent.
        gates = _gates(settings)
        result, summary, failure = measure(config, settings, surface.progress)
        report(result, summary, settings, surface)
        console = stderr() if surface.as_json else stdout()
        met = gates is None or _are_met(gates, result, summary, console)
        if result.failure is not None:
            raise result.failure
        if failure is not None:
            raise failure
    code = exit_code(result, summary)
    raise typer.Exit(ExitCode.GATE if code is ExitCode.OK and not met else code)


def _gates(settings: ReportSettings) -> Gates | None:
    if not (settings.require or settings.base or settings.strict):
        return None
    from aiperf_spec.cli.gates import Gates

    return Gates(settings)


def _are_met(gates: Gates, result: RunResult, summary: Summary, console: Console) -> bool:
    from aiperf_spec.cli.gates import flags_of_run

    return gates.check(result.records, summary=summary, flags=flags_of_run(result), console=console)


def measure(
    config: ProfileConfig, settings: ReportSettings, ui: Ui = Ui.AUTO
) -> tuple[RunResult, Summary, ExportError | None]:
    """Return the run and its figures; its files are written, or the failure to write them is returned."""
    with ArtifactWriter(config, settings) as writer, Display(stderr(), config, ui) as display:

        def on_plan(result: RunResult) -> Sink:
            display.expect(_totals(config, result.dataset))
            return writer.open(result)

        hooks = Hooks(on_plan=on_plan, sinks=[display.sink], on_stop=stop_on_signals, watch=display.watch)
        result = profile(config, hooks)
        summary = summarise(result.records)
        failure = None
        try:
            writer.finish(result, summary)
        except ExportError as error:
            failure = error
    return result, summary, failure


def _totals(config: ProfileConfig, dataset: DatasetInfo) -> dict[Phase, int | None]:
    count = config.request_count
    if count is None and config.benchmark_duration is None and dataset.turns is not None:
        count = -(-dataset.turns // config.batch_size_text)
    return {Phase.WARMUP: config.warmup_request_count, Phase.PROFILING: count}


def report(result: RunResult, summary: Summary, settings: ReportSettings, surface: OutputOptions | None = None) -> None:
    """Print tables or JSON on stdout, notices and where the files are on stderr."""
    surface = surface or OutputOptions()
    if surface.as_json:
        stdout().print(Text(summary_json(result, summary).decode().rstrip()), soft_wrap=True)
    elif surface.quiet:
        stdout().print(brief_report(summary))
    else:
        stdout().print(run_report(result, summary, rows=settings.rows))
    if result.analysis is not None and not surface.as_json and not surface.quiet:
        stdout().print(analysis_report(result.analysis, by_category=settings.by_category, texts=_texts(result)))
    for notice in result.notices:
        note(notice_text(notice))
    if result.artifact_dir is not None:
        wrote = SUMMARY_JSON if (result.artifact_dir / SUMMARY_JSON).exists() else RECORDS_JSONL
        stderr().print(Text(f"results: {result.artifact_dir / wrote}"), soft_wrap=True)


def _texts(result: RunResult) -> dict[int, PromptAndAnswer]:
    # Only raw level keeps them, in its file: records have none.
    from aiperf_spec.artifacts.read.answers import load_answers

    indexes = {outlier.index for outlier in result.analysis.outliers.requests}
    return {} if result.artifact_dir is None else load_answers(result.artifact_dir, indexes)


def exit_code(result: RunResult, summary: Summary) -> ExitCode:
    """Return how the command ends: a signal's code, 1 where nothing succeeded, else 0."""
    if result.stopped_by is not None:
        return EXIT_CODES[result.stopped_by]
    return ExitCode.OK if summary.succeeded else ExitCode.NO_SUCCESS


def dry_run(config: ProfileConfig) -> None:
    """Print the first request and send nothing."""
    with translated_errors():
        url, headers, body = first_request(config)
        lines = [f"POST {url}", *(f"{name}: {value}" for name, value in headers.items()), ""]
        text = "\n".join(lines) + "\n" + json.dumps(body, indent=2, ensure_ascii=False)
    stdout().print(Text(text), soft_wrap=True)
