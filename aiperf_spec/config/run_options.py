"""The options of a run: what is sent, and where it is recorded. `ProfileConfig` validates them."""

from pathlib import Path
from typing import Annotated, Any

from aiperf_spec.config.choices import ArrivalPattern, EndpointType, ExportLevel, SamplingStrategy
from aiperf_spec.config.extra_inputs import parse_extra_inputs
from aiperf_spec.config.headers import parse_headers
from aiperf_spec.config.option import Option, Options, Panel


class RunOptions(Options):
    """Their order is that of a section of `config.yaml`, and within a panel that of help. Times are in seconds."""

    url: Annotated[
        str,
        Option(
            "The server: host, host:port or a URL, with or without /v1 or the endpoint path.",
            Panel.SERVER,
            "URL",
            "endpoint.urls",
            flags=("--url", "-u"),
            secret=True,
        ),
    ]
    model: Annotated[
        str | None,
        Option(
            "Model name. Left out: the only one that /v1/models lists.",
            Panel.SERVER,
            "NAME",
            "models",
            flags=("--model", "-m"),
            min_length=1,
        ),
    ] = None
    endpoint_type: Annotated[
        EndpointType,
        Option("chat or completions; --url decides where it names the endpoint.", Panel.SERVER, "API", "endpoint.type"),
    ] = EndpointType.CHAT
    streaming: Annotated[bool, Option("Stream responses.", Panel.REQUEST, place="endpoint.streaming")] = True
    request_timeout_seconds: Annotated[
        float,
        Option(
            "Seconds that one request may take; connecting may take 10.", Panel.SERVER, "S", "endpoint.timeout", gt=0
        ),
    ] = 600.0
    ready_timeout: Annotated[
        float, Option("Seconds to wait for the server to be up.", Panel.SERVER, "S", "endpoint.ready_timeout", ge=0)
    ] = 0.0
    api_key: Annotated[
        str | None,
        Option(
            "Bearer token; never printed or written.",
            Panel.SERVER,
            "KEY",
            None,  # a file names the variable that holds it: `api_key_env`
            env="OPENAI_API_KEY",
            secret=True,
        ),
    ] = None
    api_key_env: Annotated[
        str | None,
        Option(
            "The environment variable that holds the bearer token.",
            Panel.SERVER,
            place="endpoint.api_key_env",
            only_in_file=True,
        ),
    ] = None
    headers: Annotated[
        tuple[tuple[str, str], ...],
        Option(
            "'Name: value', repeatable.",
            Panel.SERVER,
            "HEADER",
            "endpoint.headers",
            flags=("--header", "-H"),
            read=parse_headers,
            secret=True,
        ),
    ] = ()
    ca_file: Annotated[
        Path | None,
        Option("PEM certificates to trust instead of the bundled ones.", Panel.SERVER, "FILE", "endpoint.ca_file"),
    ] = None
    insecure: Annotated[
        bool, Option("Check no certificates; the run says so.", Panel.SERVER, place="endpoint.insecure")
    ] = False

    concurrency: Annotated[
        int, Option("Requests in flight at all times.", Panel.LOAD, "N", "profiling.concurrency", ge=1)
    ] = 1
    request_count: Annotated[
        int | None,
        Option(
            "Requests to profile. Left out: once through the prompts, or until --benchmark-duration is over.",
            Panel.LOAD,
            "N",
            "profiling.requests",
            ge=1,
        ),
    ] = None
    warmup_request_count: Annotated[
        int,
        Option("Requests to send first; they count in no figure.", Panel.LOAD, "N", "warmup.requests", ge=0),
    ] = 0
    request_rate: Annotated[
        float | None,
        Option(
            "Requests a second, on a schedule that no slow response delays; --concurrency then caps them.",
            Panel.LOAD,
            "R",
            "profiling.rate",
            gt=0,
        ),
    ] = None
    arrival_pattern: Annotated[
        ArrivalPattern, Option("How --request-rate spaces requests: poisson or constant.", Panel.LOAD, "PATTERN")
    ] = ArrivalPattern.POISSON
    benchmark_duration: Annotated[
        float | None, Option("Seconds for which requests are sent.", Panel.LOAD, "S", "profiling.duration", gt=0)
    ] = None
    benchmark_grace_period: Annotated[
        float, Option("Seconds that requests in flight then have left.", Panel.LOAD, "S", ge=0)
    ] = 30.0
    workers: Annotated[int, Option("Processes among which requests are split.", Panel.LOAD, "N", ge=1, le=64)] = 1

    input_file: Annotated[
        Path | tuple[Path, ...] | None,
        Option(
            "Prompts: .jsonl, .json or .csv, also as .gz; - is standard input; repeatable. Left out: built-in prompts.",
            Panel.PROMPTS,
            "FILE",
            "datasets.path",
        ),
    ] = None
    custom_dataset_type: Annotated[
        str,
        Option(
            "single_turn, multi_turn, random_pool, speed_bench (or speed_bench_CATEGORY), spec_bench, mt_bench, "
            "sharegpt, raw_payload, or auto: what the first rows look like.",
            Panel.PROMPTS,
            "TYPE",
            "datasets.format",
        ),
    ] = "auto"
    dataset_sampling_strategy: Annotated[
        SamplingStrategy | None,
        Option(
            "sequential (default), shuffle or random (default of random_pool).",
            Panel.PROMPTS,
            "ORDER",
            "datasets.sampling",
        ),
    ] = None
    num_prompts: Annotated[
        int | None,
        Option(
            "Take this many prompts: the first ones, or those that the seed draws.",
            Panel.PROMPTS,
            "N",
            "datasets.num_prompts",
            ge=1,
        ),
    ] = None
    category: Annotated[
        tuple[str, ...],
        Option("Send prompts of this category only; repeatable.", Panel.PROMPTS, "NAME", "datasets.categories"),
    ] = ()
    skip_bad_lines: Annotated[
        bool,
        Option("Skip and count lines that are no prompts.", Panel.PROMPTS, place="datasets.skip_bad_lines"),
    ] = False

    max_tokens: Annotated[
        int | None,
        Option(
            "Sent as max_completion_tokens on chat, as max_tokens on completions.",
            Panel.REQUEST,
            "N",
            "endpoint.max_tokens",
            ge=1,
        ),
    ] = None
    use_legacy_max_tokens: Annotated[
        bool, Option("Send max_tokens on chat too.", Panel.REQUEST, place="endpoint.use_legacy_max_tokens")
    ] = False
    temperature: Annotated[
        float | None, Option("Not sent unless given.", Panel.REQUEST, "T", "endpoint.temperature", ge=0)
    ] = None
    batch_size_text: Annotated[
        int, Option("Prompts in one completions request.", Panel.REQUEST, "N", "endpoint.batch_size_text", ge=1)
    ] = 1
    extra_inputs: Annotated[
        dict[str, Any],
        Option(
            "key:value pairs with commas between, or a JSON object, for the request body; repeatable.",
            Panel.REQUEST,
            "INPUTS",
            "endpoint.extra",
            read=parse_extra_inputs,
        ),
    ] = {}  # noqa: RUF012 (pydantic copies it for each model)

    use_server_token_count: Annotated[
        bool,
        Option("Take token counts from the server's usage.", Panel.OUTPUT, place="endpoint.use_server_token_count"),
    ] = False
    tokenizer: Annotated[
        str | None,
        Option(
            "tokenizer.json, its folder, or a name on the hub: counts tokens of prompts and answers.",
            Panel.OUTPUT,
            "PATH_OR_NAME",
            min_length=1,
        ),
    ] = None
    artifact_dir: Annotated[
        Path | None,
        Option("Folder to write. Left out: artifacts/TIME-MODEL-ENDPOINT-cN.", Panel.OUTPUT, "DIR", "artifacts.dir"),
    ] = None
    export_level: Annotated[
        ExportLevel, Option("summary, records or raw.", Panel.OUTPUT, "LEVEL", "artifacts.level")
    ] = ExportLevel.RECORDS
    overwrite: Annotated[
        bool, Option("Replace a run that the folder holds.", Panel.OUTPUT, place="artifacts.overwrite")
    ] = False

    random_seed: Annotated[
        int, Option("Seed of shuffle, random, --num-prompts and the schedule.", Panel.PROMPTS, "N")
    ] = 0
    server_metrics: Annotated[bool, Option("Read the server's own counters during the run.", Panel.SERVER)] = True
    server_metrics_url: Annotated[
        tuple[str, ...],
        Option("Where the counters are; repeatable. Left out: /metrics of --url.", Panel.SERVER, "URL", secret=True),
    ] = ()
