"""Find the folders of runs, ours or AIPerf's, and open what is in them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiperf_spec.artifacts import names
from aiperf_spec.artifacts.read.files import existing, load_json
from aiperf_spec.errors import SpecProfileError

_PREFIXES = ("speed_bench_", "spec_al_")
"""What AIPerf's dataset selectors begin with, before the category."""
_OLD_SELECTORS = ("custom_dataset_type", "public_dataset")
"""Where AIPerf had them before its second configuration format."""


@dataclass(slots=True, frozen=True)
class RunFolder:
    """A run's folder and its summary; `summary` is empty where a killed run left none, or it cannot be read."""

    path: Path
    summary: dict[str, Any]
    summary_only: bool = False
    """Whether records are left alone though there are some."""

    @property
    def name(self) -> str:
        """Return the name that tells it from others beside it."""
        return self.path.name or str(self.path)

    @property
    def has_records(self) -> bool:
        """Say whether it holds a line a request."""
        return not self.summary_only and existing(self.path, names.RECORDS_JSONL) is not None

    @property
    def model(self) -> str:
        """Return the model's name, of a killed run from its configuration; "unknown" where nothing says it."""
        items = dig(self.summary, "input_config", "models", "items")
        found = [dig(item, "name") for item in items] if isinstance(items, list) else []
        # AIPerf before its second configuration format.
        before = dig(self.summary, "input_config", "endpoint", "model_names")
        found += before if isinstance(before, list) else []
        found += [] if self.summary else _configured_models(self.path)
        return next((name for name in found if isinstance(name, str) and name), "unknown")

    @property
    def selector_category(self) -> str | None:
        """Return the category that the dataset's selector names: of records without one, and of the whole run."""
        datasets = dig(self.summary, "input_config", "datasets")
        entries = datasets if isinstance(datasets, list) else ()
        selectors = [dig(dataset, "format") or dig(dataset, "dataset") for dataset in entries]
        selectors += [dig(self.summary, "input_config", "input", key) for key in _OLD_SELECTORS]
        for selector in selectors:
            for prefix in _PREFIXES:
                if isinstance(selector, str) and selector.startswith(prefix):
                    return selector.removeprefix(prefix)
        return None

    def server_metrics(self) -> dict[str, Any] | None:
        """Return what the server counted, as exported; None where the run has no such file, or it cannot be read."""
        return load_json(self.path, names.SERVER_METRICS_JSON) or None


def dig(value: Any, *path: str | int) -> Any:
    """Return a value within nested objects and lists by its keys and places; None where one is missing."""
    for key in path:
        if isinstance(key, int):
            value = value[key] if isinstance(value, list) and len(value) > key else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def _configured_models(folder: Path) -> list[Any]:
    import yaml

    try:
        document = yaml.safe_load((folder / names.CONFIG_YAML).read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return []
    models = dig(document, "benchmark", "models")
    return models if isinstance(models, list) else []


def find_runs(paths: Iterable[Path]) -> list[RunFolder]:
    """Return the runs that are at the paths or beneath them, each once, in the order of the paths and by name.

    Raises `SpecProfileError` naming a path that is no folder or holds no run. A run's own sub-folders are not looked
    into: AIPerf keeps its phases there.
    """
    found: dict[Path, RunFolder] = {}
    for path in paths:
        if not path.is_dir():
            what = "is a file" if path.exists() else "there is no such folder"
            raise SpecProfileError(f"{str(path)!r}: {what}", "give the folder of a run, or a folder above several")
        runs = list(_runs_beneath(path))
        if not runs:
            raise SpecProfileError(
                f"{str(path)!r}: no run in it: neither {names.SUMMARY_JSON} nor {names.RECORDS_JSONL}",
                "give the folder of a run, or a folder above several",
            )
        for run in runs:
            found.setdefault(run.resolve(), RunFolder(run, load_json(run, names.SUMMARY_JSON)))
    return list(found.values())


def _runs_beneath(path: Path) -> Iterator[Path]:
    for folder, children, _ in os.walk(path):
        children.sort()
        here = Path(folder)
        if any(existing(here, name) for name in (names.SUMMARY_JSON, names.RECORDS_JSONL)):
            children.clear()
            yield here
