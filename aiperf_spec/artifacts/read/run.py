"""A run read back from its folder: for the tables that it printed, and to be compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from aiperf_spec.analysis.clusters import overlap
from aiperf_spec.analysis.comparison.mismatches import RunSettings
from aiperf_spec.artifacts.read.clients import clients_of, share_of
from aiperf_spec.artifacts.read.configuration import own_config
from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.artifacts.read.summary_file import SummaryFile
from aiperf_spec.config.choices import EndpointType
from aiperf_spec.config.command_line import command_line
from aiperf_spec.config.settings import ProfileConfig, ReportSettings
from aiperf_spec.errors import ConfigError
from aiperf_spec.metrics.goodput import objectives
from aiperf_spec.metrics.summary import Summary, summarise
from aiperf_spec.metrics.table import RUN_METRICS
from aiperf_spec.models.run import DatasetInfo, Notice, NoticeKind, Phase, RequestRecord, RunResult
from aiperf_spec.models.units import NS_PER_S
from aiperf_spec.render.notices import notice_text

N = TypeVar("N", int, float)
_NOWHERE = "http://unknown"
_OF_EACH_CLIENT = ("warmup_request_count", "request_count", "request_rate")
"""What clients without shares have of their own, and together the sum of."""


@dataclass(slots=True, frozen=True)
class LoadedRun:
    """A run, what was shown of it, and the number of lines of its records that could not be read."""

    result: RunResult
    settings: ReportSettings
    unreadable: int
    overlapped: bool = True
    """Whether all of its clients sent at the same time, for some time."""

    def summary(self, limits: Mapping[str, float] | None = None) -> Summary:
        """Return the figures of its records; clients that did not overlap have no throughput and no duration.

        `limits` are those of goodput, in place of the run's own.
        """
        goals = objectives(limits or self.settings.goodput)
        found = summarise(self.result.records, unsent=self.result.unsent, goals=goals)
        if self.overlapped:
            return found
        timed = {metric.tag for metric in RUN_METRICS if metric.is_timed}
        return replace(found, run_values={tag: v for tag, v in found.run_values.items() if tag not in timed})


def load_run(folders: Sequence[RunFolder], *, with_records: bool = True) -> LoadedRun:
    """Return one run with the records of all the folders: those of one run's several clients, or of one.

    Configuration and prompts are the first folder's, prompts and load those of all clients together; times of several
    machines are as comparable as their clocks. Raises `SpecProfileError` naming a file that cannot be read.
    """
    records: list[RequestRecord] = []
    parts: list[list[RequestRecord]] = []
    unreadable = 0
    for folder in folders if with_records else ():
        if folder.has_records:
            loaded = folder.records()
            unreadable += len(loaded.unreadable)
            # Shares are numbered as one run, and any other client counts from 0.
            records += loaded.records if share_of(folder) else _numbered_after(records, loaded.records)
            parts.append(loaded.records)
    first, alone = folders[0], len(folders) == 1
    summary = first.described
    config, settings = _config(folders, records)
    notices = [notice for folder in folders for notice in notices_of(folder)]
    overlapped = overlap(parts)
    if not overlapped:
        notices.append(Notice(NoticeKind.NO_COMMON_TIME, {"count": len(folders)}))
    result = RunResult(
        config=config,
        url=summary.server_url or summary.endpoint_url or _NOWHERE,
        model=first.model,
        owned_by=summary.server_owner,
        server_version=summary.server_version,
        drafter=summary.drafter,
        dataset=_dataset(folders),
        wall_offset_ns=0,
        records=records,
        unsent=unsent_of(folders),
        notices=notices,
        stopped_by=next((by for each in folders if (by := each.described.stopped_by)), None),
        artifact_dir=first.path if alone else None,
        run_id=summary.benchmark_id,
        clients=None if alone or len(parts) < len(folders) else clients_of(folders, parts),
        reconciliation=summary.reconciliation if alone else None,
    )
    return LoadedRun(result, settings, unreadable, overlapped)


def taken_over(settings: ReportSettings, run: RunFolder) -> ReportSettings:
    """Return the settings of a report, with the draft cost that the run was given where the report has none."""
    own = own_config(run) if settings.draft_cost is None else None
    return settings if own is None else settings.model_copy(update={"draft_cost": own[1].draft_cost})


def limits_of(runs: Sequence[RunFolder]) -> dict[str, float]:
    """Return the limits of goodput that runs were given, where all have the same; else none."""
    found = [{} if (own := own_config(run)) is None else own[1].goodput for run in runs]
    return found[0] if found and all(each == found[0] for each in found) else {}


def tags_of(run: RunFolder) -> dict[str, str]:
    """Return the run's tags, of a killed run from its configuration."""
    if run.summary is not None:
        return run.summary.tags
    own = own_config(run)
    return {} if own is None else own[0].tags


def command_of(run: RunFolder) -> list[str]:
    """Return the command that makes the run, by option and without secrets; empty without its configuration."""
    own = own_config(run)
    return [] if own is None else command_line(*own)


def started_at(run: RunFolder) -> datetime | None:
    """Return when the run's first profiled request was sent, in UTC: by its summary, else by its records."""
    try:
        if told := run.described.start_time:
            when = datetime.fromisoformat(told)
            return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
        stamps = [record.start_ns for record in run.stream() if record.phase is Phase.PROFILING]
        return datetime.fromtimestamp(min(stamps) / NS_PER_S, UTC) if stamps else None
    except (ValueError, OverflowError, OSError):
        return None


def _numbered_after(before: Sequence[RequestRecord], records: list[RequestRecord]) -> list[RequestRecord]:
    # Each client counts from 0; together every request has a number of its own.
    if not before:
        return records
    start = {phase: 1 + max((r.index for r in before if r.phase is phase), default=-1) for phase in Phase}
    return [replace(record, index=record.index + start[record.phase]) for record in records]


def _config(folders: Sequence[RunFolder], records: list[RequestRecord]) -> tuple[ProfileConfig, ReportSettings]:
    found = [own_config(folder) or (_summary_config(folder, records), ReportSettings()) for folder in folders]
    if len(found) == 1:
        return found[0]
    configs = [config for config, _ in found]
    together: dict[str, Any] = {}
    if configs[0].concurrency_cap is not None:  # on a schedule, saying it would set a limit
        together["concurrency"] = sum(config.concurrency for config in configs)
    if configs[0].share is not None:
        # All the rest was told to each as that of all.
        together |= {"share": None, "start_at": None}
    else:
        together |= {name: _sum([getattr(each, name) for each in configs]) for name in _OF_EACH_CLIENT}
    return configs[0].model_copy(update=together), found[0][1]


def _summary_config(folder: RunFolder, records: list[RequestRecord]) -> ProfileConfig:
    summary = folder.described
    by_kind = {phase.kind: phase for phase in summary.phases if phase}
    profiling, warmup = by_kind.get("profiling"), by_kind.get("warmup")
    streaming = summary.streaming
    if streaming is None:
        streaming = any(record.streaming for record in records if record.succeeded)
    values = {
        "url": summary.endpoint_url or _NOWHERE,
        "model": folder.model,
        "endpoint_type": EndpointType.COMPLETIONS if summary.endpoint_type == "completions" else EndpointType.CHAT,
        "streaming": streaming,
        "concurrency": (profiling and profiling.concurrency) or 1,
        "warmup_request_count": (warmup and warmup.requests) or 0,
        "use_server_token_count": summary.use_server_token_count,
        "tags": summary.tags,
    }
    try:
        return ProfileConfig.create(**values)
    except ConfigError:
        return ProfileConfig.create(**{**values, "url": _NOWHERE})


def _dataset(folders: Sequence[RunFolder]) -> DatasetInfo:
    # Each share is one of the same prompts.
    counted = folders[:1] if share_of(folders[0]) else folders
    summaries = [folder.described for folder in counted]
    found = [summary.dataset for summary in summaries]
    return DatasetInfo(
        name=found[0].name or "unknown",
        path=found[0].path or None,
        entries=_sum([dataset.entries for dataset in found]),
        has_categories=folders[0].selector_category is not None,
        type=summaries[0].prompts_type,
        turns=_sum([summary.prompts_turns for summary in summaries]),
    )


def _sum(counts: Sequence[N | None]) -> N | None:
    known = [count for count in counts if count is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(counts) else None


def unsent_of(folders: Sequence[RunFolder]) -> int | None:
    """Return how many requests of runs were due and never went out; None where one does not say."""
    counts = [folder.described.metric("unsent_request_count") for folder in folders]
    return _sum([None if number is None else round(number) for number in counts])


def notices_of(folder: RunFolder) -> list[Notice]:
    """Return the notices that the run gave, from its summary; one that no wording fits is left out."""
    notices = []
    for values in folder.described.notices:
        try:
            given = dict(values or {})
            notice = Notice(NoticeKind(given.pop("kind")), given)
            notice_text(notice)
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
        notices.append(notice)
    return notices


def run_settings(summary: SummaryFile) -> RunSettings:
    """Return what a run's summary says of its settings, to be compared; None for those that it lacks."""
    dataset, phases = summary.dataset, [phase for phase in summary.phases if phase and phase.kind != "warmup"]
    return RunSettings(
        model=summary.model,
        endpoint=summary.endpoint_type,
        streaming=summary.streaming,
        concurrency=phases[0].concurrency if phases else None,
        rate=phases[0].rate if phases else None,
        is_traced=bool(phases) and phases[0].type == "fixed_schedule",
        prompts=dataset.name if dataset.path is None else Path(dataset.path).name,
        prompts_path=dataset.path,
        prompt_hashes=tuple(summary.prompt_file_hashes) or None,
        sampling=summary.extra_inputs,
        cached_share=None if summary.reconciliation is None else summary.reconciliation.cached_share,
    )
