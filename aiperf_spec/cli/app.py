"""The commands of `spec-profile` and their options. What is heavy is imported where it is used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from aiperf_spec.cli import parameters as options
from aiperf_spec.config.choices import (
    ArrivalPattern,
    EndpointType,
    ExportLevel,
    ReportFormat,
    ReportMetric,
    ReportSource,
    TableFormat,
    Ui,
)
from aiperf_spec.simulator import ENGINES, EngineName

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


@app.callback(invoke_without_command=True, epilog=_EXAMPLES)
def profile(
    context: typer.Context,
    config: options.Config = None,
    url: options.Url = None,
    model: options.Model = None,
    endpoint_type: options.Endpoint = None,
    api_key: options.ApiKey = None,
    header: options.Header = None,
    ca_file: options.CaFile = None,
    insecure: options.Insecure = False,
    ready_timeout: options.ReadyTimeout = 0.0,
    request_timeout_seconds: options.RequestTimeoutSeconds = 600.0,
    server_metrics: options.ServerMetrics = True,
    server_metrics_url: options.ServerMetricsUrl = None,
    concurrency: options.Concurrency = 1,
    request_count: options.RequestCount = None,
    warmup_request_count: options.WarmupRequestCount = 0,
    request_rate: options.RequestRate = None,
    arrival_pattern: options.Arrival = ArrivalPattern.POISSON,
    benchmark_duration: options.BenchmarkDuration = None,
    benchmark_grace_period: options.BenchmarkGracePeriod = 30.0,
    workers: options.Workers = 1,
    input_file: options.InputFile = None,
    custom_dataset_type: options.CustomDatasetType = "auto",
    category: options.Category = None,
    num_prompts: options.NumPrompts = None,
    skip_bad_lines: options.SkipBadLines = False,
    dataset_sampling_strategy: options.DatasetSamplingStrategy = None,
    random_seed: options.RandomSeed = 0,
    streaming: options.Streaming = True,
    max_tokens: options.MaxTokens = None,
    use_legacy_max_tokens: options.UseLegacyMaxTokens = False,
    temperature: options.Temperature = None,
    batch_size_text: options.BatchSizeText = 1,
    extra_inputs: options.ExtraInputs = None,
    use_server_token_count: options.UseServerTokenCount = False,
    tokenizer: options.Tokenizer = None,
    export_level: options.Level = ExportLevel.RECORDS,
    artifact_dir: options.ArtifactDir = None,
    overwrite: options.Overwrite = False,
    rows: options.Rows = 20,
    draft_cost: options.DraftCost = None,
    assume_chain: options.AssumeChain = False,
    by_category: options.ByCategory = False,
    worst: options.Worst = 5,
    baseline: options.Baseline = None,
    baseline_itl: options.BaselineItl = None,
    require: options.Require = None,
    strict: options.Strict = False,
    base: options.Base = None,
    dry_run: options.DryRun = False,
    ui: options.Progress = Ui.AUTO,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
    version: options.Version = False,
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
    from aiperf_spec.config.settings import parse_extra_inputs, parse_header

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
        chosen, shown = settings(context, values, config)
    if dry_run:
        run.dry_run(chosen)
    else:
        run.run(chosen, shown, run.OutputOptions(ui, quiet=quiet, as_json=as_json))


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
            "--analysis",
            help="Show the analysis of each run; implied by the options below.",
            rich_help_panel=options.ANALYSIS,
        ),
    ] = False,
    draft_cost: options.DraftCost = None,
    assume_chain: options.AssumeChain = False,
    by_category: options.ByCategory = False,
    worst: options.Worst = 5,
    baseline: options.Baseline = None,
    baseline_itl: options.BaselineItl = None,
    require: options.Require = None,
    strict: options.Strict = False,
    base: options.Base = None,
) -> None:
    """Print the acceptance matrix of runs, ours or AIPerf's: models down, categories across."""
    from aiperf_spec.cli import report as command
    from aiperf_spec.cli.terminal import translated_errors
    from aiperf_spec.config.settings import ReportSettings

    with translated_errors():
        settings = ReportSettings.create(
            draft_cost=draft_cost,
            assume_chain=assume_chain,
            by_category=by_category,
            worst=worst,
            baseline=baseline,
            baseline_itl=baseline_itl,
            require=tuple(require or ()),
            strict=strict,
            base=base,
        )
    implied = assume_chain or by_category or any(each is not None for each in (draft_cost, baseline, baseline_itl))
    options = command.ReportOptions(
        metric, source, pool, intervals, form, output, settings, analysis=analysis or implied, page=html
    )
    command.report(path, options)


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
    from aiperf_spec.config.settings import parse_extra_inputs, parse_header

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
    engine: Annotated[EngineName, typer.Option(help="Engine whose responses to imitate.")] = ENGINES[0],
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


@app.command()
def docs(
    topic: Annotated[str | None, typer.Argument(help="Page to show. Left out: lists them.", metavar="[TOPIC]")] = None,
) -> None:
    """Show a page of the reference, or list the pages."""
    from aiperf_spec.cli import docs as command

    command.docs(topic)
