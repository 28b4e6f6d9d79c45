"""The commands of `spec-profile` and their options. What is heavy is imported where it is used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from aiperf_spec.cli.help import HelpCommand
from aiperf_spec.cli.interrupt import leave_signals_to_the_system
from aiperf_spec.cli.options import given, pick, takes
from aiperf_spec.cli.usage import CommandGroup, refuse_options_before
from aiperf_spec.config.choices import TableFormat
from aiperf_spec.config.option import ANALYSIS, GATES, SERVER, declared
from aiperf_spec.config.option_table import OPTIONS
from aiperf_spec.config.result_options import ReportDisplay, RunDisplay
from aiperf_spec.config.run_options import RunOptions
from aiperf_spec.config.sweep_options import NOT_IN_SWEEPS, SWEEP_FOLDER, SweepOptions
from aiperf_spec.simulator import ENGINES, EngineName
from aiperf_spec.version import __version__

_EXAMPLES = """\b
Examples:
  spec-profile doctor --url 127.0.0.1:8000
  spec-profile --url 127.0.0.1:8000 --concurrency 8 --temperature 0
  spec-profile -u 127.0.0.1:8000 --input-file prompts.jsonl --num-prompts 50
  spec-profile -u 127.0.0.1:8000 --quiet --require 'acceptance_length >= 2.1'
  spec-profile report artifacts --html page.html
  spec-profile compare artifacts/before artifacts/after
"""
# \b keeps the lines as they are.

# The address may stand in a file.
_RUN = [replace(each, default=None) if each.default is ... else each for each in OPTIONS.values()]
_JUDGED = [each for each in OPTIONS.values() if each.panel in (ANALYSIS, GATES)]
_SHOWN = (OPTIONS["full"], OPTIONS["rows"])
_ON_EACH = "Gate for each candidate, such as 'acceptance_length >= 0.97 * base'. Repeatable."
_DOCTOR_TIMEOUT = replace(OPTIONS["request_timeout_seconds"], default=60.0)
_SWEPT = [
    replace(each, help=SWEEP_FOLDER) if each.name == "artifact_dir" else each
    for each in _RUN
    if (each.name in declared(RunOptions) or each.name in ("goodput", "assume_chain"))
    and each.name not in NOT_IN_SWEEPS | declared(SweepOptions).keys()
]
_ASKED = ("url", "model", "endpoint_type", "api_key", "headers", "ca_file", "insecure")

app = typer.Typer(
    name="spec-profile",
    cls=CommandGroup,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"spec-profile {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog=_EXAMPLES)
@takes(*_RUN, *declared(RunDisplay).values())
def profile(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Read settings from a YAML file. Options on the command line override it.",
            metavar="FILE",
            rich_help_panel=SERVER,
        ),
    ] = None,
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
    **values: Any,
) -> None:
    """Profile speculative decoding on an OpenAI-compatible inference server.

    It sends requests to --url, times them, and reads the acceptance that the engine reports with each response.
    """
    if context.invoked_subcommand is not None:
        refuse_options_before(context)
        leave_signals_to_the_system()
        return
    from aiperf_spec.cli import run
    from aiperf_spec.cli.options import settings
    from aiperf_spec.cli.terminal import translated_errors

    with translated_errors():
        chosen, shown = settings(context, values, config)
    run.run(chosen, shown, pick(RunDisplay, values))


@app.command(cls=HelpCommand)
@takes(*declared(ReportDisplay).values(), *_SHOWN, *_JUDGED)
def report(
    context: typer.Context,
    path: Annotated[list[Path], typer.Argument(help="Folders of runs, or folders above them.", metavar="PATH...")],
    **values: Any,
) -> None:
    """Print the results of finished runs, spec-profile's or AIPerf's: of one run, or of several side by side."""
    from aiperf_spec.cli import report as command
    from aiperf_spec.cli.terminal import translated_errors
    from aiperf_spec.config.settings import ReportSettings

    judged = given(context, values)
    with translated_errors():
        settings = ReportSettings.create(**judged)
    display = pick(ReportDisplay, values)
    if any(OPTIONS[name].panel == ANALYSIS for name in judged):
        display = replace(display, analysis=True)
    command.report(path, settings, display)


@app.command(cls=HelpCommand)
@takes(replace(OPTIONS["require"], help=_ON_EACH), OPTIONS["strict"], declared(ReportDisplay)["html"], panels=False)
def compare(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Folders of runs: the base first (unless --base is given), then the candidates.", metavar="RUN..."
        ),
    ] = None,
    base: Annotated[list[Path] | None, typer.Option(help="Folder of a base run. Repeatable.", metavar="DIR")] = None,
    candidate: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of a candidate run, with --base. Repeatable.", metavar="DIR"),
    ] = None,
    form: Annotated[
        TableFormat, typer.Option("--format", help="table, json, or csv with --order-by.", metavar="FORMAT")
    ] = TableFormat.TABLE,
    order_by: Annotated[
        str | None,
        typer.Option(
            help="Compare a course of candidates, such as checkpoints, in the order of this --tag of theirs, or date.",
            metavar="TAG",
        ),
    ] = None,
    outputs: Annotated[bool, typer.Option("--outputs", help="Compare the answers too.")] = False,
    control: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder of a repeat of the base run, as a control for its answers. Repeatable.", metavar="DIR"
        ),
    ] = None,
    **values: Any,
) -> None:
    """Compare runs with a base run: differences with intervals, paired by prompt.

    With --order-by, each candidate is also compared with the best of them.
    With three runs a side or more (--base A1 --base A2 --base A3 --candidate B1 --candidate B2 --candidate B3), times
    and throughputs are compared too.
    """
    from aiperf_spec.cli import compare as command

    command.compare(
        runs or [],
        base or [],
        candidate or [],
        form=form,
        order_by=order_by,
        outputs=outputs,
        control=control or [],
        **values,
    )


@app.command(cls=HelpCommand)
@takes(*_SWEPT, *declared(SweepOptions).values(), declared(RunDisplay)["ui"])
def sweep(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(help="Read settings of the runs from a YAML file.", metavar="FILE", rich_help_panel=SERVER),
    ] = None,
    **values: Any,
) -> None:
    """Profile a server at several levels of load: the same requests at each, in a random order of levels.

    Each level is a run with a folder of its own.
    """
    from aiperf_spec.cli import sweep as command
    from aiperf_spec.cli.options import sweep_settings
    from aiperf_spec.cli.terminal import translated_errors

    with translated_errors():
        settings = sweep_settings(context, values, config)
    command.sweep(*settings, ui=values["ui"])


@app.command(cls=HelpCommand)
@takes(OPTIONS["assume_chain"], declared(ReportDisplay)["output"], panels=False)
def export(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or of the clients of one.", metavar="RUN")],
    to: Annotated[
        str,
        typer.Option(
            help="openmetrics, markdown, or a form of an engine or a simulator; 'spec-profile docs export' lists them.",
            metavar="FORMAT",
        ),
    ],
    category: Annotated[
        str | None, typer.Option(help="Only requests of this category. Default: all.", metavar="NAME")
    ] = None,
    **values: Any,
) -> None:
    """Print the acceptance of a run for another program.

    Engines and simulators take it to accept drafts at the measured rates, a push gateway to keep it, and GitHub to show
    it (openmetrics, markdown). Intervals stand in comments, or on stderr where a format has none.
    """
    from aiperf_spec.cli import export as command

    command.export(run, to=to, category=category, **values)


@app.command(cls=HelpCommand)
@takes(
    *(OPTIONS[name] for name in _ASKED),
    _DOCTOR_TIMEOUT,
    OPTIONS["use_legacy_max_tokens"],
    OPTIONS["extra_inputs"],
    panels=False,
)
def doctor(context: typer.Context, **values: Any) -> None:
    """Check a server with one short request: what it is, and whether it reports acceptance."""
    from aiperf_spec.cli import doctor as command
    from aiperf_spec.cli.terminal import translated_errors

    with translated_errors():
        asked = {_DOCTOR_TIMEOUT.name: _DOCTOR_TIMEOUT.default, **given(context, values)}
    command.doctor(asked)


@app.command(cls=HelpCommand)
def demo(
    requests: Annotated[int, typer.Option(help="Number of requests of each run.", min=1)] = 33,
    concurrency: Annotated[int, typer.Option(help="Number of requests to keep in flight.", min=1)] = 4,
    *,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Sweep draft lengths and levels of load of one simulator instead.")
    ] = False,
) -> None:
    """Profile a built-in simulator of each engine and compare them."""
    from aiperf_spec.cli import demo as command

    if sweep:
        command.demo_sweep(requests)
    else:
        command.demo(requests, concurrency)


@app.command(cls=HelpCommand)
def simulate(
    engine: Annotated[EngineName, typer.Option(help="Engine to imitate.")] = ENGINES[0],
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1. 0 picks a free one.", min=0, max=65535)] = 8000,
    model: Annotated[str, typer.Option(help="Model name to serve.")] = "simulated-model",
    num_spec_tokens: Annotated[
        int | None,
        typer.Option(help="Draft length; 0 for no speculation. Default: 5, 3 or 7, depending on the engine.", min=0),
    ] = None,
    step_time_ms: Annotated[float, typer.Option(help="Time of one step.", min=0)] = 4.0,
    draft_time_ms: Annotated[
        float, typer.Option(help="Time that each token of the draft length adds to a step.", min=0)
    ] = 0.0,
    batch_time_ms: Annotated[
        float,
        typer.Option(
            help="Time that each token of the batch adds to a step: running requests times (draft length + 1).", min=0
        ),
    ] = 0.0,
    prefill_time_ms: Annotated[float, typer.Option(help="Time to the first token.", min=0)] = 8.0,
    seed: Annotated[int, typer.Option(help="Seed of the drafter.")] = 0,
    stretch_tokens: Annotated[
        int | None,
        typer.Option(help="Mean length, in tokens, of easy and hard stretches of text. Default: no stretches.", min=1),
    ] = None,
    undrafted_share: Annotated[
        float, typer.Option(help="Share of steps in which the drafter proposes nothing (0 to 1).", min=0, max=1)
    ] = 0.0,
    changed_answers: Annotated[
        float, typer.Option(help="Share of prompts whose answers change at some token (0 to 1).", min=0, max=1)
    ] = 0.0,
    near_ties: Annotated[
        float,
        typer.Option(
            help="Share of prompts at whose place of change two tokens are nearly as likely (0 to 1).", min=0, max=1
        ),
    ] = 0.0,
    fault: Annotated[
        list[str] | None, typer.Option(help="Fault for a share of requests, NAME:SHARE. Repeatable.")
    ] = None,
) -> None:
    """Serve an imitation of an engine until Ctrl-C."""
    # All but the faults are fields of the simulator's configuration, by their names.
    options = dict(locals())
    from aiperf_spec.cli import simulate as command

    command.simulate(faults=options.pop("fault") or [], **options)


@app.command(cls=HelpCommand)
def adapters() -> None:
    """List the engine adapters: built-in ones and plug-ins."""
    from aiperf_spec.cli import adapters as command

    command.adapters()


@app.command(cls=HelpCommand)
def docs(
    topic: Annotated[str | None, typer.Argument(help="Page to show. Default: list the pages.", metavar="TOPIC")] = None,
) -> None:
    """Show a page of the documentation, or list the pages."""
    from aiperf_spec.cli import docs as command

    command.docs(topic)
