"""Profile a server, start to end: the recipe behind the command and the Python entry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from aiperf_spec.config.settings import ProfileConfig, ReportSettings
from aiperf_spec.errors import ConfigError, standing_alone
from aiperf_spec.load.event_loop import run_in_loop
from aiperf_spec.load.run import Hooks, first_request, measure_run
from aiperf_spec.metrics.goodput import objectives
from aiperf_spec.metrics.rows import request_row
from aiperf_spec.metrics.summary import Summary, summarise
from aiperf_spec.models.run import RunResult

if TYPE_CHECKING:
    from aiperf_spec.analysis.report import Analysis

__all__ = ["Hooks", "ProfileResult", "first_request", "profile", "profile_async"]


@dataclass(slots=True, frozen=True, kw_only=True, repr=False)
class ProfileResult(RunResult):
    """A run with its figures.

    `analysis` is None where it could not be made; `faults` say why that is so, and which files could not be written.
    """

    summary: Summary
    analysis: Analysis | None = None

    def __repr__(self) -> str:
        """Say in a line what a notebook would show."""
        summary, length = self.summary, None if self.analysis is None else self.analysis.run.length
        found = [f"{summary.succeeded} of {summary.succeeded + summary.failed} requests succeeded"]
        if length is not None and length.value is not None:
            found.append(f"acceptance length {length.value:.2f}")
            if length.low is not None and length.high is not None:
                found.append(f"95 % interval {length.low:.2f} to {length.high:.2f} over {length.n} prompts")
        found += [fault.message for fault in self.faults]
        return f"<ProfileResult {self.model}: {'; '.join(found)}>"

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return a flat row for each profiled request, in order, as `pandas.DataFrame` and `polars.DataFrame` take it.

        Keys are the tags of the files, values numbers, texts or None; see `request_row`.
        """
        return [request_row(record) for record in self.profiled()]


def profile(config: ProfileConfig, hooks: Hooks | None = None, settings: ReportSettings | None = None) -> ProfileResult:
    """Profile a server and return the run: every record, its figures, and what is to be said of them.

    Writes the artifact folder where `config.artifact_dir` names one, with the analysis that `settings` ask for. Raises
    a `SpecProfileError` for what keeps the run from starting. Failed requests are records, and what fails after the
    last of them is told by the result's `faults`: neither costs what was measured.
    """
    # Outside of the handler: what is raised in it would have the missing loop for its context.
    try:
        within = asyncio.get_running_loop() is not None
    except RuntimeError:
        within = False
    if within:
        raise ConfigError(
            "profile() cannot run inside a running event loop, such as a notebook's", "await profile_async(...) instead"
        )
    with _recipe(config, hooks, settings) as (hooks, finished):
        return finished(run_in_loop(measure_run(config, hooks)))


async def profile_async(
    config: ProfileConfig, hooks: Hooks | None = None, settings: ReportSettings | None = None
) -> ProfileResult:
    """Do what `profile` does, within the caller's event loop."""
    with _recipe(config, hooks, settings) as (hooks, finished):
        return finished(await measure_run(config, hooks))


@contextmanager
def _recipe(
    config: ProfileConfig, hooks: Hooks | None, settings: ReportSettings | None
) -> Iterator[tuple[Hooks, Callable[[RunResult], ProfileResult]]]:
    """Yield the hooks of a run, and what summarises, analyses and writes it."""
    from aiperf_spec.artifacts.read.baseline import load_baseline

    settings, hooks = settings or ReportSettings(), hooks or Hooks()
    goals = objectives(settings.goodput)
    finished = partial(_finished, settings=settings, goals=goals, baseline=load_baseline(settings))
    if hooks.writer is not None or config.artifact_dir is None:
        yield hooks, partial(finished, writer=hooks.writer)
        return
    from aiperf_spec.artifacts.write.writer import ArtifactWriter

    with ArtifactWriter(config, settings) as writer:
        yield replace(hooks, writer=writer), partial(finished, writer=writer)


def _finished(run: RunResult, *, settings: ReportSettings, goals: Any, baseline: Any, writer: Any) -> ProfileResult:
    from aiperf_spec.artifacts.read.baseline import analysed, settings_of

    summary, analysis, faults = summarise(run.records, unsent=run.unsent, goals=goals), None, [*run.faults]
    with standing_alone("the analysis", faults):
        analysis = analysed(run.records, settings, baseline, partial(settings_of, run, summary))
    if writer is not None:
        faults += writer.finish(run, summary, analysis)
    known = {field.name: getattr(run, field.name) for field in fields(run)}
    return ProfileResult(**{**known, "faults": faults}, summary=summary, analysis=analysis)
