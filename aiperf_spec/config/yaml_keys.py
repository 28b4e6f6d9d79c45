"""Where each setting stands in a configuration file: the one table, read when a file is parsed and when one is written.

The nesting is AIPerf's (0.13.0) for what it shares with us.
"""

from __future__ import annotations

from aiperf_spec.config.settings import ProfileConfig, ReportSettings

ENDPOINT: dict[str, str] = {
    "urls": "url",
    "type": "endpoint_type",
    "streaming": "streaming",
    "timeout": "request_timeout_seconds",
    "ready_timeout": "ready_timeout",
    "api_key_env": "api_key_env",
    "headers": "headers",
    "ca_file": "ca_file",
    "insecure": "insecure",
    "max_tokens": "max_tokens",
    "use_legacy_max_tokens": "use_legacy_max_tokens",
    "temperature": "temperature",
    "batch_size_text": "batch_size_text",
    "extra": "extra_inputs",
    "use_server_token_count": "use_server_token_count",
}
DATASET: dict[str, str] = {
    "path": "input_file",
    "format": "custom_dataset_type",
    "sampling": "dataset_sampling_strategy",
    "num_prompts": "num_prompts",
    "categories": "category",
    "skip_bad_lines": "skip_bad_lines",
}
WARMUP: dict[str, str] = {"requests": "warmup_request_count"}
PROFILING: dict[str, str] = {
    "concurrency": "concurrency",
    "requests": "request_count",
    "rate": "request_rate",
    "duration": "benchmark_duration",
}
ARTIFACTS: dict[str, str] = {
    "dir": "artifact_dir",
    "level": "export_level",
    "overwrite": "overwrite",
    "rows": "rows",
}
SECTIONS = {"endpoint": ENDPOINT, "artifacts": ARTIFACTS}
LISTS = ("datasets", "phases")

_ELSEWHERE = {
    "model",
    "api_key",  # never in a file: `api_key_env` names the variable that holds it
    *(field for section in (ENDPOINT, DATASET, WARMUP, PROFILING, ARTIFACTS) for field in section.values()),
}


def plain_fields() -> list[str]:
    """Return the settings that stand under `benchmark` by their own names: all that have no other place."""
    names = [name for name in (*ProfileConfig.model_fields, *ReportSettings.model_fields) if name not in _ELSEWHERE]
    # A file ends with them.
    return sorted(names, key=lambda name: name.startswith("server_metrics"))
