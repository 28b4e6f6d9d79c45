"""The options of a run: what is sent, and where it is recorded. `ProfileConfig` validates them."""

from pathlib import Path
from typing import Any

from aiperf_spec.config.choices import ArrivalPattern, EndpointType, ExportLevel, SamplingStrategy
from aiperf_spec.config.extra_inputs import parse_extra_inputs
from aiperf_spec.config.headers import parse_headers
from aiperf_spec.config.option import LOAD, OUTPUT, PROMPTS, REQUEST, SERVER, Options, option


class RunOptions(Options):
    """Their order is that of a section of `config.yaml`, and within a panel that of help. Times are in seconds."""

    url: str = option(
        "The server: host, host:port or a URL, with or without /v1 or the endpoint path.",
        SERVER,
        "URL",
        "endpoint.urls",
        flags=("--url", "-u"),
        secret=True,
    )
    model: str | None = option(
        "Model name. Default: the only one that /v1/models lists.",
        SERVER,
        "NAME",
        "models",
        flags=("--model", "-m"),
        min_length=1,
        default=None,
    )
    endpoint_type: EndpointType = option(
        "chat or completions; --url decides where it names the endpoint.",
        SERVER,
        "API",
        "endpoint.type",
        default=EndpointType.CHAT,
    )
    streaming: bool = option("Stream responses.", REQUEST, place="endpoint.streaming", default=True)
    request_timeout_seconds: float = option(
        "Seconds that one request may take; connecting may take 10.",
        SERVER,
        "S",
        "endpoint.timeout",
        gt=0,
        default=600.0,
    )
    ready_timeout: float = option(
        "Seconds to wait until the server lists the model and has answered one token.",
        SERVER,
        "S",
        "endpoint.ready_timeout",
        ge=0,
        default=0.0,
    )
    api_key: str | None = option(
        "Bearer token; never printed or written.", SERVER, "KEY", None, env="OPENAI_API_KEY", secret=True, default=None
    )
    api_key_env: str | None = option(
        "The environment variable that holds the bearer token.",
        SERVER,
        place="endpoint.api_key_env",
        only_in_file=True,
        default=None,
    )
    headers: tuple[tuple[str, str], ...] = option(
        "'Name: value', repeatable.",
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
    insecure: bool = option("Check no certificates; the run says so.", SERVER, place="endpoint.insecure", default=False)

    concurrency: int = option("Requests in flight at all times.", LOAD, "N", "profiling.concurrency", ge=1, default=1)
    request_count: int | None = option(
        "Requests to profile. Default: each prompt once, or until --benchmark-duration is over.",
        LOAD,
        "N",
        "profiling.requests",
        ge=1,
        default=None,
    )
    warmup_request_count: int = option(
        "Requests to send first; they count in no figure.", LOAD, "N", "warmup.requests", ge=0, default=0
    )
    request_rate: float | None = option(
        "Requests, or conversations, that start each second, however slow responses are; --concurrency then caps them.",
        LOAD,
        "R",
        "profiling.rate",
        gt=0,
        default=None,
    )
    arrival_pattern: ArrivalPattern = option(
        "How --request-rate spaces requests: poisson or constant.", LOAD, "PATTERN", default=ArrivalPattern.POISSON
    )
    fixed_schedule: bool = option(
        "Send each row at its timestamp; --concurrency then caps the requests in flight.",
        LOAD,
        place="profiling.fixed_schedule",
        default=False,
    )
    fixed_schedule_auto_offset: bool = option(
        "The earliest timestamp is the start of the run; otherwise 0 is.",
        LOAD,
        place="profiling.auto_offset",
        default=True,
    )
    fixed_schedule_start_offset: int | None = option(
        "Start at this timestamp, without the rows before it.", LOAD, "MS", "profiling.start_offset", ge=0, default=None
    )
    fixed_schedule_end_offset: int | None = option(
        "Leave out the rows after this timestamp.", LOAD, "MS", "profiling.end_offset", ge=0, default=None
    )
    benchmark_duration: float | None = option(
        "Seconds for which requests, and turns of conversations, are sent.",
        LOAD,
        "S",
        "profiling.duration",
        gt=0,
        default=None,
    )
    benchmark_grace_period: float = option(
        "Seconds that requests still in flight then get to finish.", LOAD, "S", ge=0, default=30.0
    )
    keep_going: bool = option(
        "Send all requests, also where the first ones find no server, no admission, no such path or model.",
        LOAD,
        place="profiling.keep_going",
        default=False,
    )
    max_error_rate: float | None = option(
        "Share of failed requests, 0 to 1, above which the run ends with exit code 1.",
        LOAD,
        "R",
        "profiling.max_error_rate",
        ge=0,
        le=1,
        default=None,
    )
    workers: int = option("Processes among which requests are split.", LOAD, "N", ge=1, le=64, default=1)

    input_file: Path | tuple[Path, ...] | None = option(
        "Prompts: .jsonl, .json or .csv, also as .gz; - is standard input; repeatable. Default: built-in prompts.",
        PROMPTS,
        "FILE",
        "datasets.path",
        default=None,
    )
    custom_dataset_type: str = option(
        "single_turn, multi_turn, random_pool, speed_bench (or speed_bench_CATEGORY), spec_bench, mt_bench, "
        "sharegpt, raw_payload, or auto: what the first rows look like.",
        PROMPTS,
        "TYPE",
        "datasets.format",
        default="auto",
    )
    dataset_sampling_strategy: SamplingStrategy | None = option(
        "sequential (default), shuffle or random (default of random_pool).",
        PROMPTS,
        "ORDER",
        "datasets.sampling",
        default=None,
    )
    num_prompts: int | None = option(
        "Take this many prompts: the first ones, or those that the seed draws.",
        PROMPTS,
        "N",
        "datasets.num_prompts",
        ge=1,
        default=None,
    )
    category: tuple[str, ...] = option(
        "Send prompts of this category only; repeatable.", PROMPTS, "NAME", "datasets.categories", default=()
    )
    skip_bad_lines: bool = option(
        "Skip lines that are not prompts, and count them.", PROMPTS, place="datasets.skip_bad_lines", default=False
    )

    max_tokens: int | None = option(
        "Sent as max_completion_tokens on chat, as max_tokens on completions.",
        REQUEST,
        "N",
        "endpoint.max_tokens",
        ge=1,
        default=None,
    )
    use_legacy_max_tokens: bool = option(
        "Send max_tokens on chat too.", REQUEST, place="endpoint.use_legacy_max_tokens", default=False
    )
    temperature: float | None = option(
        "Not sent unless given.", REQUEST, "T", "endpoint.temperature", sent=True, ge=0, default=None
    )
    include_usage: bool = option(
        "Ask for usage in streams (stream_options), which some older engines refuse.",
        REQUEST,
        place="endpoint.include_usage",
        default=True,
    )
    batch_size_text: int = option(
        "Prompts in one completions request.", REQUEST, "N", "endpoint.batch_size_text", ge=1, default=1
    )
    extra_inputs: dict[str, Any] = option(
        "key:value pairs with commas between, or a JSON object, for the request body; repeatable.",
        REQUEST,
        "INPUTS",
        "endpoint.extra",
        read=parse_extra_inputs,
        secret=True,
        default={},
    )

    use_server_token_count: bool = option(
        "Take token counts from the server's usage.", OUTPUT, place="endpoint.use_server_token_count", default=False
    )
    tokenizer: str | None = option(
        "tokenizer.json, its folder, or a name on the hub: counts tokens of prompts and answers.",
        OUTPUT,
        "PATH_OR_NAME",
        min_length=1,
        default=None,
    )
    artifact_dir: Path | None = option(
        "Folder to write. Default: artifacts/TIME-MODEL-ENDPOINT-cN.", OUTPUT, "DIR", "artifacts.dir", default=None
    )
    export_level: ExportLevel = option(
        "summary, records or raw.", OUTPUT, "LEVEL", "artifacts.level", default=ExportLevel.RECORDS
    )
    overwrite: bool = option("Replace a run that the folder holds.", OUTPUT, place="artifacts.overwrite", default=False)

    random_seed: int = option("Seed of shuffle, random, --num-prompts and the schedule.", PROMPTS, "N", default=0)
    server_metrics: bool = option("Read the server's own counters during the run.", SERVER, default=True)
    server_metrics_url: tuple[str, ...] = option(
        "Where the counters are; repeatable. Default: /metrics of --url.", SERVER, "URL", secret=True, default=()
    )
