"""The commands of `spec-profile` and their options. What is heavy is imported where it is used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from aiperf_spec.choices import EndpointType, Engine, ExportLevel, SamplingStrategy
from aiperf_spec.version import __version__

_SERVER, _LOAD, _PROMPTS, _REQUEST, _OUTPUT = "Server", "Load", "Prompts", "Request", "Output"

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


@app.callback(invoke_without_command=True)
def profile(
    context: typer.Context,
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
    input_file: Annotated[
        Path | None,
        typer.Option(
            help='JSONL of {"text"}, {"prompt"} or {"messages"}, each with optional "category". '
            "Left out: built-in prompts.",
            metavar="FILE",
            rich_help_panel=_PROMPTS,
        ),
    ] = None,
    dataset_sampling_strategy: Annotated[
        SamplingStrategy, typer.Option(help="sequential, shuffle or random.", metavar="ORDER", rich_help_panel=_PROMPTS)
    ] = SamplingStrategy.SEQUENTIAL,
    random_seed: Annotated[
        int, typer.Option(help="Seed of shuffle and random.", metavar="N", rich_help_panel=_PROMPTS)
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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the first request, send nothing.", rich_help_panel=_OUTPUT)
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
    from aiperf_spec.cli.terminal import translated_errors
    from aiperf_spec.config import ProfileConfig, parse_extra_inputs, parse_header
    from aiperf_spec.errors import ConfigError

    with translated_errors():
        if url is None:
            raise ConfigError("--url is missing", "spec-profile --url http://HOST:PORT --model NAME")
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
            "concurrency": concurrency,
            "request_count": request_count,
            "warmup_request_count": warmup_request_count,
            "input_file": input_file,
            "dataset_sampling_strategy": dataset_sampling_strategy,
            "random_seed": random_seed,
            "streaming": streaming,
            "max_tokens": max_tokens,
            "use_legacy_max_tokens": use_legacy_max_tokens,
            "temperature": temperature,
            "batch_size_text": batch_size_text,
            "extra_inputs": parse_extra_inputs(extra_inputs or []),
            "use_server_token_count": use_server_token_count,
            "export_level": export_level,
            "artifact_dir": artifact_dir,
            "overwrite": overwrite,
            "rows": rows,
        }
        config = ProfileConfig.create(**values)
    (run.dry_run if dry_run else run.run)(config)


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
