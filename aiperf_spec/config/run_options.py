"""The options of a run: what is sent, and where it is recorded. `ProfileConfig` validates them."""

from pathlib import Path
from typing import Any

from aiperf_spec.config.choices import ArrivalPattern, EndpointType, ExportLevel, SamplingStrategy
from aiperf_spec.config.extra_inputs import parse_extra_inputs
from aiperf_spec.config.headers import parse_headers
from aiperf_spec.config.option import LOAD, OUTPUT, PROMPTS, REQUEST, SERVER, Options, option
from aiperf_spec.config.tags import parse_tags, tag_texts


class RunOptions(Options):
    """Their order is that of a section of `config.yaml`, and within a panel that of help. Times are in seconds."""

    url: str = option(
        "Server address: host, host:port or URL, with or without /v1 or the endpoint path.",
        SERVER,
        "URL",
        "endpoint.urls",
        flags=("--url", "-u"),
        secret=True,
    )
    model: str | None = option(
        "Model name. Default: the server's model, if it has only one.",
        SERVER,
        "NAME",
        "models",
        flags=("--model", "-m"),
        min_length=1,
        default=None,
    )
    endpoint_type: EndpointType = option(
        "API to use: chat or completions. An endpoint path in --url overrides it.",
        SERVER,
        "API",
        "endpoint.type",
        default=EndpointType.CHAT,
    )
    streaming: bool = option("Stream responses.", REQUEST, place="endpoint.streaming", default=True)
    request_timeout_seconds: float = option(
        "Time limit for one request, in seconds. Connecting may take 10 of them.",
        SERVER,
        "S",
        "endpoint.timeout",
        gt=0,
        default=600.0,
    )
    ready_timeout: float = option(
        "Wait up to this many seconds until the server lists the model and answers one token.",
        SERVER,
        "S",
        "endpoint.ready_timeout",
        ge=0,
        default=0.0,
    )
    api_key: str | None = option(
        "Bearer token. It is never printed or written to a file.",
        SERVER,
        "KEY",
        None,
        env="OPENAI_API_KEY",
        secret=True,
        default=None,
    )
    api_key_env: str | None = option(
        "Name of the environment variable that holds the bearer token.",
        SERVER,
        place="endpoint.api_key_env",
        only_in_file=True,
        default=None,
    )
    headers: tuple[tuple[str, str], ...] = option(
        "Extra request header, 'Name: value'. Repeatable.",
        SERVER,
        "HEADER",
        "endpoint.headers",
        flags=("--header", "-H"),
        read=parse_headers,
        secret=True,
        default=(),
    )
    ca_file: Path | None = option(
        "PEM certificates to trust instead of the bundled ones.", SERVER, "FILE", "endpoint.ca_file", default=None
    )
    insecure: bool = option("Do not verify TLS certificates.", SERVER, place="endpoint.insecure", default=False)

    concurrency: int = option(
        "Number of requests to keep in flight.", LOAD, "N", "profiling.concurrency", ge=1, default=1
    )
    request_count: int | None = option(
        "Number of requests to profile. Default: each prompt once, or as many as --benchmark-duration allows.",
        LOAD,
        "N",
        "profiling.requests",
        ge=1,
        default=None,
    )
    warmup_request_count: int = option(
        "Number of requests to send first. No figure includes them.", LOAD, "N", "warmup.requests", ge=0, default=0
    )
    request_rate: float | None = option(
        "Requests (or conversations) to start each second, however slow responses are. --concurrency caps them.",
        LOAD,
        "R",
        "profiling.rate",
        gt=0,
        default=None,
    )
    arrival_pattern: ArrivalPattern = option(
        "Spacing of requests under --request-rate: poisson or constant.",
        LOAD,
        "PATTERN",
        default=ArrivalPattern.POISSON,
    )
    fixed_schedule: bool = option(
        "Send each row at its timestamp. --concurrency caps the requests in flight.",
        LOAD,
        place="profiling.fixed_schedule",
        default=False,
    )
    fixed_schedule_auto_offset: bool = option(
        "Start the run at the earliest timestamp rather than at 0.",
        LOAD,
        place="profiling.auto_offset",
        default=True,
    )
    fixed_schedule_start_offset: int | None = option(
        "Start at this timestamp and skip earlier rows.", LOAD, "MS", "profiling.start_offset", ge=0, default=None
    )
    fixed_schedule_end_offset: int | None = option(
        "Skip rows after this timestamp.", LOAD, "MS", "profiling.end_offset", ge=0, default=None
    )
    benchmark_duration: float | None = option(
        "Stop sending requests, and turns of conversations, after this many seconds.",
        LOAD,
        "S",
        "profiling.duration",
        gt=0,
        default=None,
    )
    benchmark_grace_period: float = option(
        "After --benchmark-duration, wait this many seconds for requests still in flight.",
        LOAD,
        "S",
        ge=0,
        default=30.0,
    )
    keep_going: bool = option(
        "Send all requests even if the first ones are refused or find no server.",
        LOAD,
        place="profiling.keep_going",
        default=False,
    )
    max_error_rate: float | None = option(
        "End the run with exit code 1 if more than this share of requests fails (0 to 1).",
        LOAD,
        "R",
        "profiling.max_error_rate",
        ge=0,
        le=1,
        default=None,
    )
    workers: int = option("Number of client processes that share the requests.", LOAD, "N", ge=1, le=64, default=1)
    share: str | None = option(
        "Send only this client's share: of N clients, client I (from 0) sends requests I, I+N, ... of one schedule.",
        LOAD,
        "I/N",
        default=None,
    )
    start_at: str | None = option(
        "Start to profile at this time, after the warm-up: 2026-12-01T12:00:00Z, or seconds since 1970.",
        LOAD,
        "TIME",
        default=None,
    )

    input_file: Path | tuple[Path, ...] | None = option(
        "File of prompts: .jsonl, .json or .csv, also .gz; - is standard input. Repeatable. Default: built-in prompts.",
        PROMPTS,
        "FILE",
        "datasets.path",
        default=None,
    )
    custom_dataset_type: str = option(
        "Format of --input-file: single_turn, multi_turn, random_pool, speed_bench (or speed_bench_CATEGORY), "
        "spec_bench, mt_bench, sharegpt, raw_payload, or auto, which looks at the first rows.",
        PROMPTS,
        "TYPE",
        "datasets.format",
        default="auto",
    )
    dataset_sampling_strategy: SamplingStrategy | None = option(
        "Order of prompts: sequential (default), shuffle or random (default for random_pool).",
        PROMPTS,
        "ORDER",
        "datasets.sampling",
        default=None,
    )
    num_prompts: int | None = option(
        "Use only this many prompts: the first ones, or a random sample under shuffle and random.",
        PROMPTS,
        "N",
        "datasets.num_prompts",
        ge=1,
        default=None,
    )
    category: tuple[str, ...] = option(
        "Use only prompts of this category. Repeatable.", PROMPTS, "NAME", "datasets.categories", default=()
    )
    skip_bad_lines: bool = option(
        "Skip lines that cannot be read as prompts, and count them.",
        PROMPTS,
        place="datasets.skip_bad_lines",
        default=False,
    )

    max_tokens: int | None = option(
        "Output limit. Sent as max_completion_tokens for chat, as max_tokens for completions.",
        REQUEST,
        "N",
        "endpoint.max_tokens",
        ge=1,
        default=None,
    )
    use_legacy_max_tokens: bool = option(
        "Send the output limit as max_tokens for chat too.",
        REQUEST,
        place="endpoint.use_legacy_max_tokens",
        default=False,
    )
    temperature: float | None = option(
        "Sampling temperature. Default: the server's.",
        REQUEST,
        "T",
        "endpoint.temperature",
        sent=True,
        ge=0,
        default=None,
    )
    include_usage: bool = option(
        "Ask for token counts (usage) in streams. Some older engines reject this (stream_options).",
        REQUEST,
        place="endpoint.include_usage",
        default=True,
    )
    batch_size_text: int = option(
        "Number of prompts in each completions request.", REQUEST, "N", "endpoint.batch_size_text", ge=1, default=1
    )
    extra_inputs: dict[str, Any] = option(
        "More fields for the request body: key:value pairs separated by commas, or a JSON object. Repeatable.",
        REQUEST,
        "INPUTS",
        "endpoint.extra",
        read=parse_extra_inputs,
        secret=True,
        default={},
    )

    use_server_token_count: bool = option(
        "Use the server's token counts (usage) even where --tokenizer counts too.",
        OUTPUT,
        place="endpoint.use_server_token_count",
        default=False,
    )
    tokenizer: str | None = option(
        "Count tokens with this tokenizer: a tokenizer.json, its folder, or a name on the Hugging Face hub.",
        OUTPUT,
        "PATH_OR_NAME",
        min_length=1,
        default=None,
    )
    artifact_dir: Path | None = option(
        "Folder for the results. Default: artifacts/TIME-MODEL-ENDPOINT-cN.",
        OUTPUT,
        "DIR",
        "artifacts.dir",
        default=None,
    )
    tags: dict[str, str] = option(
        "Tag of the run, such as step=3000. Reports and comparisons tell runs apart by it. Repeatable.",
        OUTPUT,
        "NAME=VALUE",
        flags=("--tag",),
        read=parse_tags,
        write=tag_texts,
        default={},
    )
    export_level: ExportLevel = option(
        "How much to write: summary, records or raw.", OUTPUT, "LEVEL", "artifacts.level", default=ExportLevel.RECORDS
    )
    keep_outputs: bool = option(
        "Keep the text of each answer in the records. Level raw does too.",
        OUTPUT,
        place="artifacts.keep_outputs",
        default=False,
    )
    overwrite: bool = option(
        "Overwrite a run that is already in the folder.", OUTPUT, place="artifacts.overwrite", default=False
    )

    random_seed: int = option(
        "Seed for shuffle, random, --num-prompts and the times of requests.", PROMPTS, "N", default=0
    )
    server_metrics: bool = option("Read the server's own counters during the run.", SERVER, default=True)
    server_metrics_url: tuple[str, ...] = option(
        "Address of the server's counters. Repeatable. Default: /metrics of --url.",
        SERVER,
        "URL",
        secret=True,
        default=(),
    )
