"""A run read back from its folder, for the tables that it printed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiperf_spec.artifacts import names
from aiperf_spec.artifacts.read.files import existing
from aiperf_spec.artifacts.read.folders import RunFolder, dig
from aiperf_spec.artifacts.read.records import RecordStream
from aiperf_spec.config.choices import EndpointType, ExportLevel
from aiperf_spec.config.settings import ProfileConfig, ReportSettings, create_settings
from aiperf_spec.config.yaml_file import parse_config
from aiperf_spec.errors import ConfigError
from aiperf_spec.models.run import DatasetInfo, Phase, RequestRecord, RunResult
from aiperf_spec.models.server_metrics import Agreement, ReconciledCount, Reconciliation

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)")
_NOWHERE = "http://unknown"


@dataclass(slots=True, frozen=True)
class LoadedRun:
    """A run, what was shown of it, and the number of lines of its records that could not be read."""

    result: RunResult
    settings: ReportSettings
    unreadable: int


def load_run(folders: Sequence[RunFolder]) -> LoadedRun:
    """Return one run with the records of all the folders: those of one run's several clients, or of one.

    Configuration and prompts are the first folder's, prompts and load those of all clients together; times of several
    machines are as comparable as their clocks. Raises `SpecProfileError` naming a file that cannot be read.
    """
    first = folders[0]
    records: list[RequestRecord] = []
    unreadable = 0
    for folder in folders:
        if not folder.has_records:
            continue
        stream = RecordStream(folder.path)
        mine = list(stream)
        unreadable += len(stream.unreadable)
        _renumber(mine, records)
        records += mine
    config, settings = _config(folders, records)
    result = RunResult(
        config=config,
        url=_text(dig(first.summary, "spec_profile", "server", "url")) or _url(first.summary),
        model=first.model,
        owned_by=_text(dig(first.summary, "spec_profile", "server", "owned_by")),
        dataset=_dataset(folders),
        wall_offset_ns=0,
        records=records,
        stopped_by=_stopped_by(folders),
        artifact_dir=first.path if len(folders) == 1 else None,
        run_id=_text(first.summary.get("benchmark_id")) or "",
        reconciliation=_reconciliation(dig(first.summary, "spec_profile", "reconciliation"))
        if len(folders) == 1
        else None,
    )
    return LoadedRun(result, settings, unreadable)


def _renumber(records: list[RequestRecord], before: list[RequestRecord]) -> None:
    # Each client counts from 0; together every request has a number of its own.
    for phase in Phase:
        start = 1 + max((r.index for r in before if r.phase is phase), default=-1)
        if start:
            for record in records:
                if record.phase is phase:
                    record.index += start


def _config(folders: Sequence[RunFolder], records: list[RequestRecord]) -> tuple[ProfileConfig, ReportSettings]:
    found = [_own_config(folder) or (_summary_config(folder, records), ReportSettings()) for folder in folders]
    if len(found) == 1:
        return found[0]
    configs = [config for config, _ in found]
    together = {
        "concurrency": sum(config.concurrency for config in configs),
        "warmup_request_count": sum(config.warmup_request_count for config in configs),
    }
    return configs[0].model_copy(update=together), found[0][1]


def _own_config(folder: RunFolder) -> tuple[ProfileConfig, ReportSettings] | None:
    path = existing(folder.path, names.CONFIG_YAML)
    if path is None or path.suffix == ".gz":
        return None
    try:
        text = path.read_text()
        # What the environment held then is not needed to say what was run.
        unset = dict.fromkeys(_VARIABLE.findall(text), "unset")
        values = parse_config(text, str(path), unset, folder.path)
        level = ExportLevel.RECORDS if folder.has_records else ExportLevel.SUMMARY
        return create_settings({**values, "export_level": level})
    except (OSError, UnicodeDecodeError, ConfigError):
        return None


def _summary_config(folder: RunFolder, records: list[RequestRecord]) -> ProfileConfig:
    summary = folder.summary
    endpoint = dig(summary, "input_config", "endpoint")
    phases = dig(summary, "input_config", "phases")
    by_kind = {dig(phase, "kind"): phase for phase in phases} if isinstance(phases, list) else {}
    streaming = dig(endpoint, "streaming")
    if not isinstance(streaming, bool):
        streaming = any(record.streaming for record in records if record.succeeded)
    values: dict[str, Any] = {
        "url": _url(summary),
        "model": folder.model,
        "endpoint_type": EndpointType.COMPLETIONS if dig(endpoint, "type") == "completions" else EndpointType.CHAT,
        "streaming": streaming,
        "concurrency": _count(dig(by_kind.get("profiling"), "concurrency")) or 1,
        "warmup_request_count": _count(dig(by_kind.get("warmup"), "requests")) or 0,
        "use_server_token_count": dig(endpoint, "use_server_token_count") is True,
    }
    try:
        return ProfileConfig.create(**values)
    except ConfigError:
        return ProfileConfig.create(**{**values, "url": _NOWHERE})


def _url(summary: dict[str, Any]) -> str:
    urls = dig(summary, "input_config", "endpoint", "urls")
    return urls[0] if isinstance(urls, list) and urls and isinstance(urls[0], str) and urls[0] else _NOWHERE


def _dataset(folders: Sequence[RunFolder]) -> DatasetInfo:
    found = [_first(dig(folder.summary, "input_config", "datasets")) for folder in folders]
    entries = [_count(dig(dataset, "entries")) for dataset in found]
    known = [number for number in entries if number is not None]
    turns = [_count(dig(folder.summary, "spec_profile", "prompts", "turns")) for folder in folders]
    known_turns = [number for number in turns if number is not None]
    first = found[0]
    return DatasetInfo(
        name=_text(dig(first, "name")) or "unknown",
        path=_text(dig(first, "path")),
        entries=sum(known) if len(known) == len(entries) else None,
        has_categories=folders[0].selector_category is not None,
        type=_text(dig(folders[0].summary, "spec_profile", "prompts", "type")),
        turns=sum(known_turns) if len(known_turns) == len(turns) else None,
    )


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else None


def _stopped_by(folders: Sequence[RunFolder]) -> str | None:
    for folder in folders:
        if (signal := _text(dig(folder.summary, "spec_profile", "stopped_by"))) is not None:
            return signal
    return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _reconciliation(value: Any) -> Reconciliation | None:
    if not isinstance(value, dict):
        return None
    try:
        counts = tuple(
            ReconciledCount(count["name"], count["metric"], int(count["requests"]), count["server"])
            for count in value["counts"]
        )
        return Reconciliation(
            counts=counts,
            agreement=Agreement(value["agreement"]),
            reported=int(value["requests_reported"]),
            silent=dict(value["requests_silent"]),
            server_requests=value["server_requests"],
            settled=bool(value["settled"]),
        )
    except (KeyError, TypeError, ValueError):
        return None
