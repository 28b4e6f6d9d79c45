"""What a run prints on stdout: what spoils it, its tables, and its answer at the end."""

from collections.abc import Iterator, Mapping

from rich.console import Group as Renderables
from rich.console import RenderableType

from aiperf_spec.analysis.answer import answer_of
from aiperf_spec.analysis.report import Analysis
from aiperf_spec.config.settings import ReportSettings
from aiperf_spec.metrics.summary import Summary
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.response import PromptAndAnswer
from aiperf_spec.models.run import RunResult
from aiperf_spec.models.server_metrics import Agreement
from aiperf_spec.render.analysis import analysis_parts
from aiperf_spec.render.answer import answer_block
from aiperf_spec.render.draft_totals import totals_table
from aiperf_spec.render.histogram import histogram_table
from aiperf_spec.render.layout import Part, spaced, standing
from aiperf_spec.render.requests import requests_table
from aiperf_spec.render.run_header import run_table
from aiperf_spec.render.server_side import reconciliation_table, server_acceptance_table, server_timing_table
from aiperf_spec.render.tables import acceptance_table, categories_table, coverage_table, errors_table, latency_table


def run_report(
    result: RunResult,
    summary: Summary,
    analysis: Analysis | None = None,
    *,
    settings: ReportSettings,
    with_analysis: bool = False,
    texts: Mapping[int, PromptAndAnswer] | None = None,
) -> RenderableType:
    """Return everything that a run prints on stdout, as its settings say.

    The tables of the analysis are among them where the settings ask for them, or `with_analysis`. `texts` are prompt
    and answer of outliers by index.
    """

    def parts() -> Iterator[Part]:
        yield from _parts(result, summary, analysis, full=settings.full)
        if analysis is not None and (settings.shows_analysis or with_analysis):
            yield from analysis_parts(analysis, texts or {}, by_category=settings.by_category)
        if settings.rows and result.records and summary.succeeded:
            yield lambda: requests_table(result, settings.rows)

    answer = standing(lambda: answer_block(result, answer_of(result, summary, analysis)))
    tables = spaced(parts())
    tables.renderables.pop()  # a rule parts the answer from what is above it, with no empty line
    return Renderables(tables, answer or "")


def brief_report(result: RunResult, summary: Summary) -> RenderableType:
    """Return the acceptance table alone; where nothing succeeded, what failed."""
    if summary.errors and not summary.succeeded:
        return errors_table(summary, has_key=bool(result.config.api_key))
    return _acceptance(result, summary, full=True)


def _acceptance(result: RunResult, summary: Summary, *, full: bool) -> RenderableType:
    counted = None if summary.acceptance.requests else result.reconciliation
    if counted is not None:
        return server_acceptance_table(counted, summary.succeeded)
    return acceptance_table(summary, full=full)


def _parts(result: RunResult, summary: Summary, analysis: Analysis | None, *, full: bool) -> Iterator[Part]:
    yield lambda: run_table(result, summary, full=full)
    if summary.errors:
        yield lambda: errors_table(summary, has_key=bool(result.config.api_key))
    if not summary.succeeded:
        return
    if summary.drop_reasons.keys() - {DropReason.FAILED}:
        yield lambda: coverage_table(summary)
    found = result.reconciliation
    differs = found is not None and summary.acceptance.requests and found.agreement is not Agreement.EXACT
    if found is not None and (full or differs):
        yield lambda: reconciliation_table(found)
    yield lambda: latency_table(summary, full=full)
    if full:
        yield lambda: server_timing_table(result)
    yield lambda: _acceptance(result, summary, full=full)
    yield lambda: totals_table(result, summary)
    if full and summary.acceptance.steps:
        yield lambda: histogram_table(summary.acceptance.histogram)
    if summary.categories:
        yield lambda: categories_table(summary.categories, analysis, full=full)
