"""The run without speculation against which speed is measured.

Every run passes through here, and few have a baseline: what reads one is imported where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson

from aiperf_spec.analysis.clusters import measured
from aiperf_spec.analysis.comparison.mismatches import Run, RunSettings, mismatches, same_prompts
from aiperf_spec.analysis.comparison.pairing import pair_up
from aiperf_spec.analysis.report import Analysis, analyse
from aiperf_spec.config.settings import ReportSettings
from aiperf_spec.errors import ConfigError
from aiperf_spec.metrics.summary import Summary
from aiperf_spec.models.run import Notice, NoticeKind, RequestRecord, RunResult

if TYPE_CHECKING:
    from aiperf_spec.artifacts.read.folders import RunFolder


def load_baseline(settings: ReportSettings) -> Run | None:
    """Return the run that `--baseline` names, None without it; raise `ConfigError` where that run speculated."""
    if settings.baseline is None:
        return None
    from aiperf_spec.artifacts.read.folders import RunFolder
    from aiperf_spec.artifacts.read.run import run_settings

    folder = RunFolder(settings.baseline)
    records = folder.records().records
    if (sign := _speculation(folder, records)) is not None:
        raise ConfigError(
            f"--baseline {str(settings.baseline)!r} is a run with speculation: {sign}",
            "name a run of the same server without speculation; --base is for gates that compare two such runs",
        )
    return Run(str(settings.baseline), records, run_settings(folder.described))


def _speculation(folder: RunFolder, records: Sequence[RequestRecord]) -> str | None:
    """Return what shows that a run's server speculated; None where nothing does."""
    if any(record.acceptance is not None or record.draft_totals is not None for record in records):
        return "its requests report acceptance"
    compared = folder.described.reconciliation
    steps = folder.server_metrics.verify_steps() if compared is None else compared.steps.server
    return f"its server counted verify steps ({steps:,})" if steps else None


def settings_of(result: RunResult, summary: Summary) -> RunSettings:
    """Return the settings of a run that is at hand, as its summary will say them."""
    from aiperf_spec.artifacts.read.run import run_settings
    from aiperf_spec.artifacts.read.summary_file import SummaryFile
    from aiperf_spec.artifacts.write.summary_files import summary_json

    return run_settings(SummaryFile.model_validate(orjson.loads(summary_json(result, summary))))


def analysed(
    records: Sequence[RequestRecord],
    settings: ReportSettings,
    baseline: Run | None,
    of_run: Callable[[], RunSettings],
) -> Analysis:
    """Return the analysis of a run of the settings that `of_run` gives; cautions say where the baseline misleads."""
    if baseline is None:
        return analyse(records, settings)
    run = Run("this run", records, of_run())
    same = same_prompts(baseline.settings, run.settings)
    pairing = pair_up(measured(baseline.records), measured(records), same_prompts=same)
    notices = [
        Notice(NoticeKind.BASELINE_MISLEADS, {"mismatch": each.kind, "base": each.base, "candidate": each.candidate})
        for each in mismatches(baseline, run, pairing)
    ]
    analysis = analyse(records, settings, baseline=baseline.records)
    return replace(analysis, cautions=(*analysis.cautions, *notices))
