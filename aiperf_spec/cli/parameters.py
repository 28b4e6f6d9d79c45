"""The options of `spec-profile`, each with its help: what several commands share, and what a run takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aiperf_spec.config.choices import ArrivalPattern, EndpointType, ExportLevel, SamplingStrategy, Ui
from aiperf_spec.version import __version__

SERVER, LOAD, PROMPTS, REQUEST, OUTPUT = "Server", "Load", "Prompts", "Request", "Output"
ANALYSIS, GATES = "Analysis", "Gates"


def _version(show: bool) -> None:
    if show:
        typer.echo(f"spec-profile {__version__}")
        raise typer.Exit


Config = Annotated[
    Path | None,
    typer.Option(help="YAML that says what options say; options win.", metavar="FILE", rich_help_panel=SERVER),
]
Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        "-u",
        help="host, host:port or URL, with /v1 or the endpoint path or not.",
        metavar="URL",
        rich_help_panel=SERVER,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="Model name. Left out: the one that /v1/models lists.",
        metavar="NAME",
        rich_help_panel=SERVER,
    ),
]
Endpoint = Annotated[
    EndpointType | None,
    typer.Option(
        help="chat or completions. Left out: what --url names, else chat.", metavar="API", rich_help_panel=SERVER
    ),
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        help="Bearer token; never printed or written.",
        envvar="OPENAI_API_KEY",
        show_default=False,
        metavar="KEY",
        rich_help_panel=SERVER,
    ),
]
Header = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", help="'Name: value', repeatable.", metavar="HEADER", rich_help_panel=SERVER),
]
CaFile = Annotated[Path | None, typer.Option(help="PEM certificates to trust.", metavar="FILE", rich_help_panel=SERVER)]
Insecure = Annotated[bool, typer.Option("--insecure", help="Check no certificates.", rich_help_panel=SERVER)]
ReadyTimeout = Annotated[
    float, typer.Option(help="Seconds to wait for the server to be up.", metavar="S", rich_help_panel=SERVER)
]
RequestTimeoutSeconds = Annotated[
    float, typer.Option(help="Seconds that one request may take.", metavar="S", rich_help_panel=SERVER)
]
ServerMetrics = Annotated[
    bool,
    typer.Option(
        "--server-metrics/--no-server-metrics",
        help="Read the server's own counters during the run.",
        rich_help_panel=SERVER,
    ),
]
ServerMetricsUrl = Annotated[
    list[str] | None,
    typer.Option(
        help="Where they are, repeatable. Left out: /metrics of --url.", metavar="URL", rich_help_panel=SERVER
    ),
]
Concurrency = Annotated[int, typer.Option(help="Requests in flight at all times.", metavar="N", rich_help_panel=LOAD)]
RequestCount = Annotated[
    int | None,
    typer.Option(help="Requests to profile. Left out: once through the prompts.", metavar="N", rich_help_panel=LOAD),
]
WarmupRequestCount = Annotated[
    int, typer.Option(help="Requests sent before, in no figure.", metavar="N", rich_help_panel=LOAD)
]
RequestRate = Annotated[
    float | None,
    typer.Option(
        help="Requests a second, on a schedule; --concurrency then caps them.", metavar="R", rich_help_panel=LOAD
    ),
]
Arrival = Annotated[ArrivalPattern, typer.Option(help="poisson or constant.", metavar="PATTERN", rich_help_panel=LOAD)]
BenchmarkDuration = Annotated[
    float | None, typer.Option(help="Seconds for which requests are sent.", metavar="S", rich_help_panel=LOAD)
]
BenchmarkGracePeriod = Annotated[
    float, typer.Option(help="Seconds that requests in flight then have.", metavar="S", rich_help_panel=LOAD)
]
Workers = Annotated[
    int, typer.Option(help="Processes among which requests are split.", metavar="N", rich_help_panel=LOAD)
]
InputFile = Annotated[
    list[Path] | None,
    typer.Option(
        help="Prompts: .jsonl, .json, .csv, each .gz too; - is standard input; repeatable. Left out: built-in prompts.",
        metavar="FILE",
        rich_help_panel=PROMPTS,
    ),
]
CustomDatasetType = Annotated[
    str,
    typer.Option(
        help="single_turn, multi_turn, random_pool, speed_bench (or speed_bench_CATEGORY), spec_bench, mt_bench, "
        "sharegpt, raw_payload, or auto: what the first rows look like.",
        metavar="TYPE",
        rich_help_panel=PROMPTS,
    ),
]
Category = Annotated[
    list[str] | None,
    typer.Option(help="Send prompts of this category only; repeatable.", metavar="NAME", rich_help_panel=PROMPTS),
]
NumPrompts = Annotated[
    int | None,
    typer.Option(
        help="Take as many prompts: the first ones, or drawn by the seed.", metavar="N", rich_help_panel=PROMPTS
    ),
]
SkipBadLines = Annotated[
    bool,
    typer.Option("--skip-bad-lines", help="Count lines that are no prompts, and go on.", rich_help_panel=PROMPTS),
]
DatasetSamplingStrategy = Annotated[
    SamplingStrategy | None,
    typer.Option(
        help="sequential (default), shuffle or random (default of random_pool).",
        metavar="ORDER",
        rich_help_panel=PROMPTS,
    ),
]
RandomSeed = Annotated[
    int, typer.Option(help="Seed of shuffle, random and --num-prompts.", metavar="N", rich_help_panel=PROMPTS)
]
Streaming = Annotated[
    bool, typer.Option("--streaming/--no-streaming", help="Stream responses.", rich_help_panel=REQUEST)
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        help="max_completion_tokens on chat, max_tokens on completions.", metavar="N", rich_help_panel=REQUEST
    ),
]
UseLegacyMaxTokens = Annotated[
    bool, typer.Option("--use-legacy-max-tokens", help="Send max_tokens on chat too.", rich_help_panel=REQUEST)
]
Temperature = Annotated[float | None, typer.Option(help="Not sent unless given.", metavar="T", rich_help_panel=REQUEST)]
BatchSizeText = Annotated[
    int, typer.Option(help="Prompts in one completions request.", metavar="N", rich_help_panel=REQUEST)
]
ExtraInputs = Annotated[
    list[str] | None,
    typer.Option(
        help="key:value pairs with commas between, or a JSON object, for the request body; repeatable.",
        metavar="INPUTS",
        rich_help_panel=REQUEST,
    ),
]
UseServerTokenCount = Annotated[
    bool,
    typer.Option("--use-server-token-count", help="Take token counts from usage.", rich_help_panel=OUTPUT),
]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        help="tokenizer.json, its folder, or a name on the hub: counts tokens of prompts and answers.",
        metavar="PATH_OR_NAME",
        rich_help_panel=OUTPUT,
    ),
]
Level = Annotated[ExportLevel, typer.Option(help="summary, records or raw.", metavar="LEVEL", rich_help_panel=OUTPUT)]
ArtifactDir = Annotated[
    Path | None,
    typer.Option(
        help="Folder to write. Left out: artifacts/TIME-MODEL-ENDPOINT-cN.",
        metavar="DIR",
        rich_help_panel=OUTPUT,
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace a run that the folder holds.", rich_help_panel=OUTPUT)
]
Rows = Annotated[int, typer.Option(help="Requests to list in the last table.", metavar="N", rich_help_panel=OUTPUT)]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the first request, send nothing.", rich_help_panel=OUTPUT)
]
Progress = Annotated[
    Ui,
    typer.Option(
        help="Progress: live, simple (a line every 10 s), none, or auto: live on a terminal, else simple.",
        metavar="UI",
        rich_help_panel=OUTPUT,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Print the acceptance table only; no progress.", rich_help_panel=OUTPUT),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print the summary as JSON on stdout, nothing else.", rich_help_panel=OUTPUT),
]
Version = Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)]
DraftCost = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Draft time per token / target time per step: adds the best draft length.",
        metavar="C",
        rich_help_panel=ANALYSIS,
    ),
]
AssumeChain = Annotated[
    bool,
    typer.Option("--assume-chain", help="Take drafts for chains where that is not shown.", rich_help_panel=ANALYSIS),
]
ByCategory = Annotated[
    bool, typer.Option("--by-category", help="Show the position curve of each category.", rich_help_panel=ANALYSIS)
]
Worst = Annotated[
    int, typer.Option(min=0, help="Requests of least acceptance to list.", metavar="N", rich_help_panel=ANALYSIS)
]
Baseline = Annotated[
    Path | None,
    typer.Option(
        help="Folder of a run without speculation, for the speed-up.", metavar="DIR", rich_help_panel=ANALYSIS
    ),
]
BaselineItl = Annotated[
    float | None,
    typer.Option(
        min=0, help="Inter-token latency without speculation, instead.", metavar="MS", rich_help_panel=ANALYSIS
    ),
]
Require = Annotated[
    list[str] | None,
    typer.Option(
        help="Gate, such as 'acceptance_length >= 2.1'; repeatable. Exit code 3 where one is not met.",
        metavar="EXPR",
        rich_help_panel=GATES,
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Gates hold for the whole 95 % interval.", rich_help_panel=GATES)
]
Base = Annotated[
    Path | None,
    typer.Option(help="Folder of the run that `base` in a gate means.", metavar="DIR", rich_help_panel=GATES),
]
