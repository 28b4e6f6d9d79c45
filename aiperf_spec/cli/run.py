"""The main job: profile a server, print, export."""

from __future__ import annotations

import json

import typer
from rich.text import Text

from aiperf_spec.cli.signals import EXIT_CODES, stop_on_signals
from aiperf_spec.cli.terminal import stderr, stdout, translated_errors
from aiperf_spec.config import ProfileConfig
from aiperf_spec.errors import ExitCode, ExportError
from aiperf_spec.export.names import RECORDS_JSONL, SUMMARY_JSON
from aiperf_spec.export.writer import ArtifactWriter
from aiperf_spec.metrics.summary import Summary, summarise
from aiperf_spec.models.run import Phase, RunResult
from aiperf_spec.profiling import Hooks, first_request, profile
from aiperf_spec.render.notices import word
from aiperf_spec.render.progress import ProgressBar
from aiperf_spec.render.tables import run_report
from aiperf_spec.workload.files import load_prompts


def run(config: ProfileConfig) -> None:
    """Profile, print and export; leaves with the run's exit code."""
    with translated_errors():
        result, summary, failure = measure(config)
        report(result, summary)
        if failure is not None:
            raise failure
    raise typer.Exit(exit_code(result, summary))


def measure(config: ProfileConfig) -> tuple[RunResult, Summary, ExportError | None]:
    """Return the run and its figures; its files are written, or the failure to write them is returned."""
    with ArtifactWriter(config) as writer, ProgressBar(stderr(), _totals(config)) as bar:
        hooks = Hooks(on_plan=writer.open, sinks=[bar.sink], on_stop=stop_on_signals)
        result = profile(config, hooks)
        failure = None
        try:
            writer.finish(result)
        except ExportError as error:
            failure = error
    return result, summarise(result.records), failure


def _totals(config: ProfileConfig) -> dict[Phase, int]:
    count = config.request_count
    if count is None:
        count = -(-len(load_prompts(config.input_file)[0]) // config.batch_size_text)
    return {Phase.WARMUP: config.warmup_request_count, Phase.PROFILING: count}


def report(result: RunResult, summary: Summary) -> None:
    """Print tables on stdout, notices and where the files are on stderr."""
    stdout().print(run_report(result, summary))
    console = stderr()
    for notice in result.notices:
        console.print(Text.assemble(("note: ", "bold yellow"), word(notice)))
    if result.artifact_dir is not None:
        wrote = SUMMARY_JSON if (result.artifact_dir / SUMMARY_JSON).exists() else RECORDS_JSONL
        console.print(Text(f"results: {result.artifact_dir / wrote}"), soft_wrap=True)


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
