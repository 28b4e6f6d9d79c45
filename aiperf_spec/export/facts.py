"""What the summary file of a run says of its configuration, ours or AIPerf's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from aiperf_spec.analysis.mismatches import RunFacts
from aiperf_spec.export import names


def load_facts(folder: Path) -> RunFacts:
    """Return the run's facts; those that the file lacks are None, and all are where there is no readable file."""
    try:
        document = orjson.loads((folder / names.SUMMARY_JSON).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return RunFacts()
    config = _dig(document, "input_config")
    dataset = _dig(config, "datasets", 0)
    extra = _dig(config, "endpoint", "extra")
    phases = _dig(config, "phases")
    profiling = [phase for phase in phases if _dig(phase, "kind") != "warmup"] if isinstance(phases, list) else []
    rate = _dig(profiling, 0, "rate")
    return RunFacts(
        model=_of(str, _dig(config, "models", "items", 0, "name")),
        endpoint=_of(str, _dig(config, "endpoint", "type")),
        streaming=_of(bool, _dig(config, "endpoint", "streaming")),
        concurrency=_of(int, _dig(profiling, 0, "concurrency")),
        rate=None if isinstance(rate, bool) or not isinstance(rate, int | float) else float(rate),
        prompts=Path(path).name if isinstance(path := _dig(dataset, "path"), str) else _of(str, _dig(dataset, "name")),
        sampling=dict(extra) if isinstance(extra, dict) else None,
    )


def load_fact(folder: Path, *path: str | int) -> Any:
    """Return one value of the summary file by its path; None where it is not there."""
    try:
        return _dig(orjson.loads((folder / names.SUMMARY_JSON).read_bytes()), *path)
    except (OSError, orjson.JSONDecodeError):
        return None


def _dig(value: Any, *path: str | int) -> Any:
    for key in path:
        if isinstance(key, int):
            value = value[key] if isinstance(value, list) and len(value) > key else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def _of(kind: type, value: Any) -> Any:
    return value if isinstance(value, kind) else None
