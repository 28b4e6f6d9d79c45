"""What the summary file of a run says of its configuration, ours or AIPerf's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aiperf_spec.analysis.comparison.mismatches import RunSettings
from aiperf_spec.artifacts import names
from aiperf_spec.artifacts.read.files import load_json
from aiperf_spec.artifacts.read.folders import dig


def load_run_settings(folder: Path) -> RunSettings:
    """Return the run's settings; those that the file lacks are None, and all are where there is no readable file."""
    document = load_json(folder, names.SUMMARY_JSON)
    if not document:
        return RunSettings()
    config = dig(document, "input_config")
    dataset = dig(config, "datasets", 0)
    extra = dig(config, "endpoint", "extra")
    phases = dig(config, "phases")
    profiling = [phase for phase in phases if dig(phase, "kind") != "warmup"] if isinstance(phases, list) else []
    rate = dig(profiling, 0, "rate")
    return RunSettings(
        model=_of(str, dig(config, "models", "items", 0, "name")),
        endpoint=_of(str, dig(config, "endpoint", "type")),
        streaming=_of(bool, dig(config, "endpoint", "streaming")),
        concurrency=_of(int, dig(profiling, 0, "concurrency")),
        rate=None if isinstance(rate, bool) or not isinstance(rate, int | float) else float(rate),
        prompts=Path(path).name if isinstance(path := dig(dataset, "path"), str) else _of(str, dig(dataset, "name")),
        sampling=dict(extra) if isinstance(extra, dict) else None,
    )


def load_summary_value(folder: Path, *path: str | int) -> Any:
    """Return one value of the summary file by its path; None where it is not there."""
    return dig(load_json(folder, names.SUMMARY_JSON), *path)


def _of(kind: type, value: Any) -> Any:
    return value if isinstance(value, kind) else None
