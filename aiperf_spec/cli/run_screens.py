"""What `report` shows of runs from their folders: each as it ended, and several side by side."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice

from rich.console import RenderableType
from rich.text import Text

from aiperf_spec.analysis.answer import Setup, setup_of
from aiperf_spec.analysis.comparison.mismatches import Run
from aiperf_spec.analysis.labels import labels
from aiperf_spec.analysis.report import Analysis
from aiperf_spec.artifacts.read.baseline import analysed, load_baseline
from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.artifacts.read.run import load_run, run_settings, tags_of, taken_over
from aiperf_spec.artifacts.read.summary_file import summary_of
from aiperf_spec.cli.terminal import note
from aiperf_spec.config.settings import ReportSettings
from aiperf_spec.errors import SpecProfileError
from aiperf_spec.metrics.pooled import pool
from aiperf_spec.metrics.summary import Summary
from aiperf_spec.models.response import PromptAndAnswer
from aiperf_spec.models.run import NoticeKind, RequestRecord
from aiperf_spec.render.answer import setup_parts
from aiperf_spec.render.notices import notice_text
from aiperf_spec.render.run_header import tags_text
from aiperf_spec.render.run_report import run_report
from aiperf_spec.render.side_by_side import RunRow, runs_table
from aiperf_spec.render.text import plural, printable

_LOOKED_AT = 1000
"""Requests in which the engine and k are looked for where no summary says them."""


@dataclass(frozen=True)
class RunScreens:
    """Makes the tables of runs as the settings say; `analysis` shows those of the analysis whatever they say."""

    settings: ReportSettings
    analysis: bool

    @cached_property
    def _baseline(self) -> Run | None:
        return load_baseline(self.settings)

    def analysed(
        self, group: Sequence[RunFolder], records: Sequence[RequestRecord]
    ) -> tuple[Analysis, Mapping[int, PromptAndAnswer]]:
        """Return the analysis of the records of folders, and the texts of outliers where those were kept."""
        first = group[0]
        settings = taken_over(self.settings, first)
        found = analysed(records, settings, self._baseline, partial(run_settings, first.described))
        return found, first.answers(found.outliers.indexes) if len(group) == 1 else {}

    def of_run(self, group: Sequence[RunFolder], *, several: bool) -> Iterator[RenderableType]:
        """Yield what one run printed as it ended: that of a folder, or of the folders of its clients.

        Notices go to stderr as the tables are taken.
        """
        names = ", ".join(run.name for run in group)
        if several or len(group) > 1:
            title = str(group[0].path) if len(group) == 1 else f"{plural(len(group), 'run')} as one: {names}"
            yield Text(printable(title, 400), style="bold")
        if len(group) == 1 and group[0].shown_from_summary:
            loaded = load_run(group, with_records=False)
            yield run_report(loaded.result, summary_of(group[0].described), settings=self.settings)
            return
        if missing := [run.name for run in group if not run.has_records]:
            raise SpecProfileError(
                f"{missing[0]!r} has no records, which pooling needs",
                "give runs exported at records or raw level, or leave out --pool",
            )
        loaded = load_run(group)
        analysis, texts = self.analysed(group, loaded.result.records)
        if loaded.unreadable:
            note(printable(f"{names}: {plural(loaded.unreadable, 'unreadable line')} left out", 400))
        said = [notice for notice in loaded.result.notices if notice.kind is NoticeKind.NO_COMMON_TIME]
        for notice in (*said, *analysis.cautions):
            note(f"{printable(names, 400)}: {notice_text(notice)}")
        summary = loaded.summary(self.settings.goodput)
        yield run_report(
            loaded.result, summary, analysis, settings=self.settings, with_analysis=self.analysis, texts=texts
        )


def has_figures(run: RunFolder) -> bool:
    """Say whether a run has anything to show."""
    return run.has_records or summary_of(run.described).total > 0


def side_by_side(runs: Sequence[RunFolder]) -> tuple[RenderableType, dict[str, str]]:
    """Return runs in one table, and their labels by name."""
    found = [_figures(run) for run in runs]
    properties = [_properties(run, setup) for run, (setup, _) in zip(runs, found, strict=True)]
    shown = labels([run.name for run in runs], properties)
    rows = [RunRow(label, *figures) for label, figures in zip(shown, found, strict=True)]
    return runs_table(rows), dict(zip([run.name for run in runs], shown, strict=True))


def _figures(run: RunFolder) -> tuple[Setup, Summary]:
    result = load_run([run], with_records=False).result
    if run.summary is not None and (run.shown_from_summary or run.described.metric("total_spec_decode_steps")):
        summary = summary_of(run.described)
        if not summary.acceptance.engines and run.has_records:
            # Another program's summary names neither engine nor k, which its records do.
            some = pool(record for record in islice(run.stream(), _LOOKED_AT) if record.succeeded)
            summary.acceptance.engines, summary.acceptance.draft_lengths = some.engines, some.draft_lengths
    else:
        summary = load_run([run]).summary()
    return setup_of(result, summary), summary


def _properties(run: RunFolder, setup: Setup) -> dict[str, str]:
    known = run_settings(run.described)
    found = {
        **{f"tag {name}": tags_text({name: value}) for name, value in tags_of(run).items()},
        "model": run.model,
        "server": ", ".join(setup_parts(setup, with_length=False)),
        "k": f"k {', '.join(map(str, setup.draft_lengths))}" if setup.draft_lengths else "",
        "rate": "" if known.rate is None else f"{known.rate:g}/s",
        "concurrency": "" if known.concurrency is None else f"concurrency {known.concurrency}",
    }
    return {name: printable(text, 60) for name, text in found.items() if text}
