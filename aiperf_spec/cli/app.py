"""The commands of `spec-profile` and their options. What is heavy is imported where it is used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from aiperf_spec.choices import (
    ArrivalPattern,
    EndpointType,
    Engine,
    ExportLevel,
    ReportFormat,
    ReportMetric,
    ReportSource,
    SamplingStrategy,
    TableFormat,
    Ui,
)
from aiperf_spec.version import __version__

_SERVER, _LOAD, _PROMPTS, _REQUEST, _OUTPUT = "Server", "Load", "Prompts", "Request", "Output"
_ANALYSIS, _GATES = "Analysis", "Gates"

_DraftCost = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Draft time per token / target time per step: adds the best draft length.",
        metavar="C",
        rich_help_panel=_ANALYSIS,
    ),
]
_AssumeChain = Annotated[
    bool,
    typer.Option("--assume-chain", help="Take drafts for chains where that is not shown.", rich_help_panel=_ANALYSIS),
]
_ByCategory = Annotated[
    bool, typer.Option("--by-category", help="Show the position curve of each category.", rich_help_panel=_ANALYSIS)
]
_Worst = Annotated[
    int, typer.Option(min=0, help="Requests of least acceptance to list.", metavar="N", rich_help_panel=_ANALYSIS)
]
_Baseline = Annotated[
    Path | None,
    typer.Option(
        help="Folder of a run without speculation, for the speed-up.", metavar="DIR", rich_help_panel=_ANALYSIS
    ),
]
_BaselineItl = Annotated[
    float | None,
    typer.Option(
        min=0, help="Inter-token latency without speculation, instead.", metavar="MS", rich_help_panel=_ANALYSIS
    ),
]
_Require = Annotated[
    list[str] | None,
    typer.Option(
        help="Gate, such as 'acceptance_length >= 2.1'; repeatable. Exit code 3 where one is not met.",
        metavar="EXPR",
        rich_help_panel=_GATES,
    ),
]
_Strict = Annotated[
    bool, typer.Option("--strict", help="Gates hold for the whole 95 % interval.", rich_help_panel=_GATES)
]
_Base = Annotated[
    Path | None,
    typer.Option(help="Folder of the run that `base` in a gate means.", metavar="DIR", rich_help_panel=_GATES),
]

_EXAMPLES = """[bold]Examples[/bold]

spec-profile doctor --url 127.0.0.1:8000

spec-profile --url 127.0.0.1:8000 --concurrency 8 --temperature 0

spec-profile -u 127.0.0.1:8000 --input-file prompts.jsonl --request-count 200

spec-profile -u 127.0.0.1:8000 --quiet --require 'acceptance_length >= 2.1'

spec-profile report artifacts --html page.html

spec-profile compare artifacts/before artifacts/after
"""
# Paragraphs, for the help joins the lines of one.

app = typer.Typer(
    name="spec-profile",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"spec-profile {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog=_EXAMPLES)
def profile(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(help="YAML that says what options say; options win.", metavar="FILE", rich_help_panel=_SERVER),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            "-u",
            help="host, host:port or URL, with /v1 or the endpoint path or not.",
            metavar="URL",
            rich_help_panel=_SERVER,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help="Model name. Left out: the one that /v1/models lists.",
            metavar="NAME",
            rich_help_panel=_SERVER,
        ),
    ] = None,
    endpoint_type: Annotated[
        EndpointType | None,
        typer.Option(
            help="chat or completions. Left out: what --url names, else chat.", metavar="API", rich_help_panel=_SERVER
        ),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            help="Bearer token; never printed or written.",
            envvar="OPENAI_API_KEY",
            show_default=False,
            metavar="KEY",
            rich_help_panel=_SERVER,
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", help="'Name: value', repeatable.", metavar="HEADER", rich_help_panel=_SERVER),
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option(help="PEM certificates to trust.", metavar="FILE", rich_help_panel=_SERVER)
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Check no certificates.", rich_help_panel=_SERVER)
    ] = False,
    ready_timeout: Annotated[
        float, typer.Option(help="Seconds to wait for the server to be up.", metavar="S", rich_help_panel=_SERVER)
    ] = 0.0,
    request_timeout_seconds: Annotated[
        float, typer.Option(help="Seconds that one request may take.", metavar="S", rich_help_panel=_SERVER)
    ] = 600.0,
    server_metrics: Annotated[
        bool,
        typer.Option(
            "--server-metrics/--no-server-metrics",
            help="Read the server's own counters during the run.",
            rich_help_panel=_SERVER,
        ),
    ] = True,
    server_metrics_url: Annotated[
        list[str] | None,
        typer.Option(
            help="Where they are, repeatable. Left out: /metrics of --url.", metavar="URL", rich_help_panel=_SERVER
        ),
    ] = None,
    concurrency: Annotated[
        int, typer.Option(help="Requests in flight at all times.", metavar="N", rich_help_panel=_LOAD)
    ] = 1,
    request_count: Annotated[
        int | None,
        typer.Option(
            help="Requests to profile. Left out: once through the prompts.", metavar="N", rich_help_panel=_LOAD
        ),
    ] = None,
    warmup_request_count: Annotated[
        int, typer.Option(help="Requests sent before, in no figure.", metavar="N", rich_help_panel=_LOAD)
    ] = 0,
    request_rate: Annotated[
        float | None,
        typer.Option(
            help="Requests a second, on a schedule; --concurrency then caps them.", metavar="R", rich_help_panel=_LOAD
        ),
    ] = None,
    arrival_pattern: Annotated[
        ArrivalPattern, typer.Option(help="poisson or constant.", metavar="PATTERN", rich_help_panel=_LOAD)
    ] = ArrivalPattern.POISSON,
    benchmark_duration: Annotated[
        float | None, typer.Option(help="Seconds for which requests are sent.", metavar="S", rich_help_panel=_LOAD)
    ] = None,
    benchmark_grace_period: Annotated[
        float, typer.Option(help="Seconds that requests in flight then have.", metavar="S", rich_help_panel=_LOAD)
    ] = 30.0,
    workers: Annotated[
        int, typer.Option(help="Processes among which requests are split.", metavar="N", rich_help_panel=_LOAD)
    ] = 1,
    input_file: Annotated[
        list[Path] | None,
        typer.Option(
            help="Prompts: .jsonl, .json, .csv, each .gz too; - is standard input; repeatable. "
            "Left out: built-in prompts.",
            metavar="FILE",
            rich_help_panel=_PROMPTS,
        ),
    ] = None,
    custom_dataset_type: Annotated[
        str,
        typer.Option(
            help="single_turn, multi_turn, random_pool, speed_bench (or speed_bench_CATEGORY), spec_bench, mt_bench, "
            "sharegpt, raw_payload, or auto: what the first rows look like.",
            metavar="TYPE",
            rich_help_panel=_PROMPTS,
        ),
    ] = "auto",
    category: Annotated[
        list[str] | None,
        typer.Option(help="Send prompts of this category only; repeatable.", metavar="NAME", rich_help_panel=_PROMPTS),
    ] = None,
    num_prompts: Annotated[
        int | None,
        typer.Option(
            help="Take as many prompts: the first ones, or drawn by the seed.", metavar="N", rich_help_panel=_PROMPTS
        ),
    ] = None,
    skip_bad_lines: Annotated[
        bool,
        typer.Option("--skip-bad-lines", help="Count lines that are no prompts, and go on.", rich_help_panel=_PROMPTS),
    ] = False,
    dataset_sampling_strategy: Annotated[
        SamplingStrategy | None,
        typer.Option(
            help="sequential (default), shuffle or random (default of random_pool).",
            metavar="ORDER",
            rich_help_panel=_PROMPTS,
        ),
    ] = None,
    random_seed: Annotated[
        int, typer.Option(help="Seed of shuffle, random and --num-prompts.", metavar="N", rich_help_panel=_PROMPTS)
    ] = 0,
    streaming: Annotated[
        bool, typer.Option("--streaming/--no-streaming", help="Stream responses.", rich_help_panel=_REQUEST)
    ] = True,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            help="max_completion_tokens on chat, max_tokens on completions.", metavar="N", rich_help_panel=_REQUEST
        ),
    ] = None,
    use_legacy_max_tokens: Annotated[
        bool, typer.Option("--use-legacy-max-tokens", help="Send max_tokens on chat too.", rich_help_panel=_REQUEST)
    ] = False,
    temperature: Annotated[
        float | None, typer.Option(help="Not sent unless given.", metavar="T", rich_help_panel=_REQUEST)
    ] = None,
    batch_size_text: Annotated[
        int, typer.Option(help="Prompts in one completions request.", metavar="N", rich_help_panel=_REQUEST)
    ] = 1,
    extra_inputs: Annotated[
        list[str] | None,
        typer.Option(
            help="key:value pairs with commas between, or a JSON object, for the request body; repeatable.",
            metavar="INPUTS",
            rich_help_panel=_REQUEST,
        ),
    ] = None,
    use_server_token_count: Annotated[
        bool,
        typer.Option("--use-server-token-count", help="Take token counts from usage.", rich_help_panel=_OUTPUT),
    ] = False,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="tokenizer.json, its folder, or a name on the hub: counts tokens of prompts and answers.",
            metavar="PATH_OR_NAME",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    export_level: Annotated[
        ExportLevel, typer.Option(help="summary, records or raw.", metavar="LEVEL", rich_help_panel=_OUTPUT)
    ] = ExportLevel.RECORDS,
    artifact_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write. Left out: artifacts/TIME-MODEL-ENDPOINT-cN.",
            metavar="DIR",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a run that the folder holds.", rich_help_panel=_OUTPUT)
    ] = False,
    rows: Annotated[
        int, typer.Option(help="Requests to list in the last table.", metavar="N", rich_help_panel=_OUTPUT)
    ] = 20,
    draft_cost: _DraftCost = None,
    assume_chain: _AssumeChain = False,
    by_category: _ByCategory = False,
    worst: _Worst = 5,
    baseline: _Baseline = None,
    baseline_itl: _BaselineItl = None,
    require: _Require = None,
    strict: _Strict = False,
    base: _Base = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the first request, send nothing.", rich_help_panel=_OUTPUT)
    ] = False,
    ui: Annotated[
        Ui,
        typer.Option(
            help="Progress: live, simple (a line every 10 s), none, or auto: live on a terminal, else simple.",
            metavar="UI",
            rich_help_panel=_OUTPUT,
        ),
    ] = Ui.AUTO,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Print the acceptance table only; no progress.", rich_help_panel=_OUTPUT),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the summary as JSON on stdout, nothing else.", rich_help_panel=_OUTPUT),
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Profile speculative decoding on an OpenAI-compatible inference server.

    spec-profile --url http://HOST:PORT --model NAME sends requests, times them, and reads the acceptance that vLLM,
    TensorRT-LLM or SGLang reports with each response.
    """
    if context.invoked_subcommand is not None:
        return
    from aiperf_spec.cli import run
    from aiperf_spec.cli.options import settings
    from aiperf_spec.cli.terminal import translated_errors
    from aiperf_spec.config import parse_extra_inputs, parse_header

    with translated_errors():
        values: dict[str, Any] = {
            "url": url,
            "model": model,
            "endpoint_type": endpoint_type,
            "api_key": api_key or None,
            "headers": tuple(parse_header(text) for text in header or ()),
            "ca_file": ca_file,
            "insecure": insecure,
            "ready_timeout": ready_timeout,
            "request_timeout_seconds": request_timeout_seconds,
            "server_metrics": server_metrics,
            "server_metrics_url": tuple(server_metrics_url or ()),
            "concurrency": concurrency,
            "request_count": request_count,
            "request_rate": request_rate,
            "arrival_pattern": arrival_pattern,
            "benchmark_duration": benchmark_duration,
            "benchmark_grace_period": benchmark_grace_period,
            "workers": workers,
            "warmup_request_count": warmup_request_count,
            "input_file": tuple(input_file or ()) or None,
            "custom_dataset_type": custom_dataset_type,
            "category": tuple(category or ()),
            "num_prompts": num_prompts,
            "skip_bad_lines": skip_bad_lines,
            "dataset_sampling_strategy": dataset_sampling_strategy,
            "random_seed": random_seed,
            "streaming": streaming,
            "max_tokens": max_tokens,
            "use_legacy_max_tokens": use_legacy_max_tokens,
            "temperature": temperature,
            "batch_size_text": batch_size_text,
            "extra_inputs": parse_extra_inputs(extra_inputs or []),
            "use_server_token_count": use_server_token_count,
            "tokenizer": tokenizer,
            "export_level": export_level,
            "artifact_dir": artifact_dir,
            "overwrite": overwrite,
            "rows": rows,
            "draft_cost": draft_cost,
            "assume_chain": assume_chain,
            "by_category": by_category,
            "worst": worst,
            "baseline": baseline,
            "baseline_itl": baseline_itl,
            "require": tuple(require or ()),
            "strict": strict,
            "base": base,
        }
        chosen = settings(context, values, config)
    if dry_run:
        run.dry_run(chosen)
    else:
        run.run(chosen, run.Surface(ui, quiet=quiet, as_json=as_json))


@app.command()
def report(
    path: Annotated[list[Path], typer.Argument(help="Folders of runs, or folders above them.", metavar="PATH...")],
    metric: Annotated[
        ReportMetric, typer.Option(help="accept_length, accept_rate or throughput.", metavar="METRIC")
    ] = ReportMetric.ACCEPT_LENGTH,
    source: Annotated[
        ReportSource,
        typer.Option(help="auto (the best that a run has), records, summary or server-metrics.", metavar="SOURCE"),
    ] = ReportSource.AUTO,
    pool: Annotated[bool, typer.Option("--pool", help="All runs of a model as one: clients of one run.")] = False,
    intervals: Annotated[bool, typer.Option("--intervals", help="Give each figure's 95 % interval.")] = False,
    form: Annotated[
        ReportFormat, typer.Option("--format", help="table, csv, json or markdown.", metavar="FORMAT")
    ] = ReportFormat.TABLE,
    output: Annotated[Path | None, typer.Option(help="Write there instead of printing.", metavar="FILE")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with tables and charts, too (needs plots).", metavar="FILE")
    ] = None,
    analysis: Annotated[
        bool,
        typer.Option(
            "--analysis", help="Show the analysis of each run; implied by the options below.", rich_help_panel=_ANALYSIS
        ),
    ] = False,
    draft_cost: _DraftCost = None,
    assume_chain: _AssumeChain = False,
    by_category: _ByCategory = False,
    worst: _Worst = 5,
    baseline: _Baseline = None,
    baseline_itl: _BaselineItl = None,
    require: _Require = None,
    strict: _Strict = False,
    base: _Base = None,
) -> None:
    """Print the acceptance matrix of runs, ours or AIPerf's: models down, categories across."""
    from aiperf_spec.analysis import AnalysisOptions
    from aiperf_spec.cli import report as command
    from aiperf_spec.cli.examine import Examination
    from aiperf_spec.cli.terminal import translated_errors

    with translated_errors():
        examination = Examination(
            show=analysis
            or assume_chain
            or by_category
            or any(each is not None for each in (draft_cost, baseline, baseline_itl)),
            by_category=by_category,
            options=AnalysisOptions(draft_cost, assume_chain, worst, baseline_itl),
            baseline=baseline,
            require=tuple(require or ()),
            strict=strict,
            base=base,
        )
    command.report(path, command.ReportOptions(metric, source, pool, intervals, form, output, examination, html))


@app.command()
def compare(
    base: Annotated[Path, typer.Argument(help="Folder of the run to compare with.", metavar="BASE")],
    candidate: Annotated[list[Path], typer.Argument(help="Folders of the other runs.", metavar="CANDIDATE...")],
    form: Annotated[TableFormat, typer.Option("--format", help="table or json.", metavar="FORMAT")] = TableFormat.TABLE,
    require: Annotated[
        list[str] | None,
        typer.Option(
            help="Gate on each candidate, such as 'acceptance_length >= 0.97 * base'; repeatable.", metavar="EXPR"
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Gates hold for the whole 95 % interval.")] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with tables and charts, too (needs plots).", metavar="FILE")
    ] = None,
) -> None:
    """Compare runs with a base: differences with intervals, paired by prompt, corrected for many comparisons."""
    from aiperf_spec.cli import compare as command

    command.compare(base, candidate, form=form, require=require or [], strict=strict, page=html)


@app.command()
def doctor(
    url: Annotated[str, typer.Option("--url", "-u", help="The server, as for a run.", metavar="URL")],
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Left out: the one that /v1/models lists.", metavar="NAME"),
    ] = None,
    endpoint_type: Annotated[
        EndpointType | None, typer.Option(help="chat (default) or completions.", metavar="API")
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(help="Bearer token.", envvar="OPENAI_API_KEY", show_default=False, metavar="KEY"),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", help="'Name: value', repeatable.", metavar="HEADER")
    ] = None,
    ca_file: Annotated[Path | None, typer.Option(help="PEM certificates to trust.", metavar="FILE")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Check no certificates.")] = False,
    use_legacy_max_tokens: Annotated[
        bool, typer.Option("--use-legacy-max-tokens", help="Send max_tokens on chat too.")
    ] = False,
    extra_inputs: Annotated[
        list[str] | None,
        typer.Option(help="key:value pairs or a JSON object for the body; repeatable.", metavar="INPUTS"),
    ] = None,
    request_timeout_seconds: Annotated[
        float, typer.Option(help="Seconds that the request may take.", metavar="S")
    ] = 60.0,
) -> None:
    """Say what a server is, whether it reports acceptance, and what to change if not: one request of 16 tokens."""
    from aiperf_spec.cli import doctor as command
    from aiperf_spec.cli.terminal import translated_errors
    from aiperf_spec.config import parse_extra_inputs, parse_header

    with translated_errors():
        values: dict[str, Any] = {
            "url": url,
            "model": model,
            "endpoint_type": endpoint_type,
            "api_key": api_key or None,
            "headers": tuple(parse_header(text) for text in header or ()),
            "ca_file": ca_file,
            "insecure": insecure,
            "use_legacy_max_tokens": use_legacy_max_tokens,
            "extra_inputs": parse_extra_inputs(extra_inputs or []),
            "request_timeout_seconds": request_timeout_seconds,
        }
    command.doctor(values)


@app.command()
def demo(
    requests: Annotated[int, typer.Option(help="Requests for each engine.", min=1)] = 33,
    concurrency: Annotated[int, typer.Option(help="Requests in flight.", min=1)] = 4,
) -> None:
    """Profile an embedded simulator of each engine, and compare the three."""
    from aiperf_spec.cli import demo as command

    command.demo(requests, concurrency)


@app.command()
def simulate(
    engine: Annotated[Engine, typer.Option(help="Engine whose responses to imitate.")] = Engine.VLLM,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes a free one.", min=0, max=65535)] = 8000,
    model: Annotated[str, typer.Option(help="Model name to serve.")] = "simulated-model",
    num_spec_tokens: Annotated[
        int | None, typer.Option(help="Draft length. Left out: 5, 3 or 7, by engine.", min=1)
    ] = None,
    step_time_ms: Annotated[float, typer.Option(help="Time of one verify step.", min=0)] = 4.0,
    prefill_time_ms: Annotated[float, typer.Option(help="Time to the first token.", min=0)] = 8.0,
    seed: Annotated[int, typer.Option(help="Seed of the drafter.")] = 0,
    fault: Annotated[
        list[str] | None, typer.Option(help="NAME:SHARE, repeatable: a fault for this share of requests.")
    ] = None,
) -> None:
    """Serve an imitation of an engine, with a seeded drafter, until Ctrl-C."""
    from aiperf_spec.cli import simulate as command

    command.simulate(
        engine=engine,
        port=port,
        model=model,
        num_spec_tokens=num_spec_tokens,
        step_time_ms=step_time_ms,
        prefill_time_ms=prefill_time_ms,
        seed=seed,
        faults=fault or [],
    )


@app.command()
def adapters() -> None:
    """List the adapters at hand: built-in ones and plug-ins."""
    from aiperf_spec.cli import adapters as command

    command.adapters()
