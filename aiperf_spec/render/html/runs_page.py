"""The page of one or several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime

from aiperf_spec.analysis.answer import Answer, answer_of, setup_of
from aiperf_spec.analysis.clusters import measured
from aiperf_spec.analysis.matrix import Matrix
from aiperf_spec.analysis.positions import PositionCurve
from aiperf_spec.analysis.report import Analysis
from aiperf_spec.metrics.summary import Summary
from aiperf_spec.models.response import PromptAndAnswer
from aiperf_spec.models.run import RequestRecord, RunResult
from aiperf_spec.render import analysis as of_analysis
from aiperf_spec.render import tables
from aiperf_spec.render.answer import answer_block, setup_parts
from aiperf_spec.render.html import charts, time_charts
from aiperf_spec.render.html.cards import cards_of
from aiperf_spec.render.html.page import Facts, Group, Page, Part, Section
from aiperf_spec.render.html.several import categories_of, latencies_of, positions_of
from aiperf_spec.render.html.time_charts import Times, times_of
from aiperf_spec.render.notices import notice_text
from aiperf_spec.render.run_header import run_table, tags_text
from aiperf_spec.render.run_report import brief_report
from aiperf_spec.render.server_side import reconciliation_table, server_timing_table
from aiperf_spec.render.side_by_side import RunRow, runs_table
from aiperf_spec.render.text import middle, plural

_RUNS = 6
"""Runs that get charts of their own: more would make a page of megabytes."""
_CATEGORIES = 12
"""Categories that get a chart each."""


@dataclass(slots=True, frozen=True)
class PageRun:
    """A run of the page. `analysis` is None where its records were not read; `configuration` is its file's text.

    `command` is what makes the run, and `started` when its first request was sent, in UTC, where those are known.
    """

    name: str
    result: RunResult
    summary: Summary
    analysis: Analysis | None
    configuration: str = ""
    texts: Mapping[int, PromptAndAnswer] = field(default_factory=dict)
    command: Sequence[str] = ()
    started: datetime | None = None

    @property
    def good(self) -> list[RequestRecord]:
        """Return its successful profiled records."""
        return measured(self.result.records)

    @property
    def answer(self) -> Answer:
        """Return the figures that are looked for first."""
        return answer_of(self.result, self.summary, self.analysis)

    @property
    def about(self) -> str:
        """Return engine, load and prompts in a line."""
        setup = ", ".join(setup_parts(self.answer.setup))
        heading = answer_block(self.result, self.answer).heading
        return " · ".join(part for part in (setup, *heading[-2:]) if part)

    @property
    def when(self) -> str:
        """Return when it started; "" where that is not known."""
        return "" if self.started is None else f"{self.started:%d %B %Y, %H:%M} UTC".lstrip("0")


def runs_page(runs: Sequence[PageRun], matrix: Matrix | None = None) -> bytes:
    """Return the page of runs; `matrix` is the acceptance matrix over all of them, where there are categories."""
    return (_page_of_one(runs[0], matrix) if len(runs) == 1 else _page_of_several(runs, matrix)).html()


def _page_of_one(run: PageRun, matrix: Matrix | None) -> Page:
    part = _part(run, "r0", time_charts.POINTS, matrix)
    known = {each.name: getattr(part, each.name) for each in fields(part)}
    return Page(kicker=" · ".join(filter(None, (run.when, run.name))), about=[run.about], **known)


def _page_of_several(runs: Sequence[PageRun], matrix: Matrix | None) -> Page:
    drawn = runs[:_RUNS]
    models = dict.fromkeys(run.result.model for run in runs)
    parts = [_part(run, f"r{i}", time_charts.POINTS // len(drawn), None, title=run.name) for i, run in enumerate(drawn)]
    sections = [
        Section("Runs side by side", [_side_by_side(runs)]),
        Section("Acceptance by category", [] if matrix is None else [categories_of(matrix)]),
        Section("Position acceptance", [_positions_of(drawn)]),
        Section("Latency", [latencies_of("all-", [(run.name, _times(run)) for run in drawn])]),
        Section("Each run", runs=parts),
    ]
    left_out = f"The first {_RUNS} have charts. The tables have all." if len(runs) > _RUNS else ""
    return Page(
        kicker=plural(len(runs), "run"),
        title=", ".join(models),
        about=[left_out] if left_out else [],
        warnings=[f"{run.name}: {text}" for run in runs for text in _warnings(run)],
        sections=sections,
    )


def _part(run: PageRun, prefix: str, points: int, matrix: Matrix | None, title: str = "") -> Part:
    return Part(
        title=title or run.result.model,
        warnings=_warnings(run),
        cards=cards_of(run.answer, None if run.analysis is None else run.analysis.speed_up.measured),
        facts=_facts(run, alone=not title),
        sections=_sections(run, prefix, points, matrix),
    )


def _warnings(run: PageRun) -> list[str]:
    said = (*run.result.notices, *(() if run.analysis is None else run.analysis.cautions))
    return [notice_text(notice) for notice in said]


def _facts(run: PageRun, *, alone: bool) -> Facts:
    head = () if alone else (("Date", run.when), ("Run", run.about))
    tags = tags_text(run.result.config.tags)
    facts: Facts = [*head, ("Tags", tags), ("Server", run.result.url), ("Command", run.command)]
    return [(name, value) for name, value in facts if value]


def _sections(run: PageRun, prefix: str, points: int, matrix: Matrix | None) -> list[Section]:
    result, summary, analysis = run.result, run.summary, run.analysis
    errors = [tables.errors_table(summary)] if summary.errors else []
    reconciled = result.reconciliation
    counted = [tables.coverage_table(summary), None if reconciled is None else reconciliation_table(reconciled)]
    sections = [Section("Failed requests", [Group(tables=errors)])]
    if matrix is not None:
        each = tables.categories_table(summary.categories, analysis)
        sections.append(Section("Acceptance by category", [categories_of(matrix, each, run.good)]))
    if summary.succeeded:
        sections += [
            Section("Position acceptance", _acceptance(run, prefix, with_categories=matrix is not None)),
            Section("Draft length", [_draft_length(analysis, prefix)]),
            Section("Acceptance within responses and by ITL", [_within(run, prefix, points)]),
            Section("Latency", [_latency(run, prefix)]),
            Section("Over time", [Group(charts=time_charts.over_time(f"{prefix}t", run.good, points))]),
        ]
    sections += [
        Section("Records and the server's counters", [Group(tables=counted)]),
        Section("Worst requests", [Group(tables=_worst(run))]),
        Section(
            "The run",
            [Group(folded=[("Requests, load and throughput", [run_table(result, summary)])])],
            "Configuration file",
            run.configuration,
        ),
    ]
    return sections


def _acceptance(run: PageRun, prefix: str, *, with_categories: bool) -> list[Group]:
    summary, analysis = run.summary, run.analysis
    if not summary.acceptance.requests:
        counted = run.answer.counted
        curve = [] if counted is None else charts.positions(f"{prefix}p", [("all traffic", charts.counted(counted))])
        return [Group(charts=curve, tables=[brief_report(run.result, summary)])]
    groups = {} if analysis is None else {n: g for n, g in analysis.categories.items() if g.length.value is not None}
    ranked = sorted(groups, key=lambda name: groups[name].length.value or 0)
    extremes = {f"{ranked[0]} (worst)": ranked[0], f"{ranked[-1]} (best)": ranked[-1]} if len(ranked) > 1 else {}
    whole = None if analysis is None else analysis.run.curve
    histograms = [("all requests", summary.acceptance.histogram, whole)]
    histograms += [
        (label, summary.categories[name].acceptance.histogram, groups[name].curve) for label, name in extremes.items()
    ]
    drawn = [charts.histograms(f"{prefix}h", histograms)]
    folded: list[tuple[str, list[object]]] = [("Table: acceptance", [tables.acceptance_table(summary)])]
    if whole is not None and analysis is not None and analysis.run.requests:
        curves = [("all requests", whole), *((label, groups[name].curve) for label, name in extremes.items())]
        drawn += charts.positions(f"{prefix}p", curves)
        folded.append(("Table: position acceptance", [of_analysis.curve_table(whole, "All requests")]))
        folded.append(("Table: pooled figures and intervals", [of_analysis.figures_table(analysis)]))
    legend = charts.names_of([label for label, *_ in histograms])
    note = "Bands and ranges are 95 % intervals." if whole is not None else ""
    found = [Group(charts=drawn, legend=legend, note=note, folded=folded)]
    if whole is not None and len(ranked) > 1 and with_categories:
        found.append(_each_category(prefix, {name: groups[name].curve for name in ranked}, whole))
    return found


def _each_category(prefix: str, curves: Mapping[str, PositionCurve], whole: PositionCurve) -> Group:
    names = list(curves)
    # The worst and the best, whatever lies between.
    shown = names if len(names) <= _CATEGORIES else [*names[: _CATEGORIES // 2], *names[-_CATEGORIES // 2 :]]
    marks = {names[0]: " (worst)", names[-1]: " (best)"}
    small = [
        charts.position_small(f"{prefix}c{i}", f"{middle(name, 30)}{marks.get(name, '')}", curves[name], whole)
        for i, name in enumerate(shown)
    ]
    left_out = f" {len(names) - len(shown)} between them are in the table alone." if len(shown) < len(names) else ""
    table = [
        of_analysis.curve_table(curve, middle(name, 40), explains=not number)
        for number, (name, curve) in enumerate(curves.items())
    ]
    return Group(
        title="Position acceptance by category, worst to best",
        charts=small,
        is_small=True,
        note=f"% of all verify steps that accepted the draft at a position. Dashes: all requests.{left_out}",
        folded=[("Table: position acceptance, each category", table)],
    )


def _draft_length(analysis: Analysis | None, prefix: str) -> Group:
    if analysis is None or not analysis.run.requests:
        return Group()
    modelled = analysis.run.what_if
    estimates = charts.what_if_charts(f"{prefix}w", modelled)
    note = "Modelled from this run for a chain drafter, not measured."
    if not modelled.drafting.full:
        note += " Circles: every step proposes k. Squares: short drafts stay short."
    table = ("Table: draft length", [of_analysis.what_if_table(modelled)])
    return Group(charts=estimates, note=note if estimates else "", folded=[table])


def _within(run: PageRun, prefix: str, points: int) -> Group:
    scatter = time_charts.acceptance_by_itl(f"{prefix}s", run.good, points)
    drift = None if run.analysis is None or not run.analysis.run.requests else run.analysis.drift
    drawn = [] if drift is None else charts.drift_charts(f"{prefix}d", drift)
    folded = [] if drift is None else [("Table: acceptance within responses", [of_analysis.drift_table(drift)])]
    return Group(charts=[*drawn, scatter], folded=folded)


def _latency(run: PageRun, prefix: str) -> Group:
    folded = [("Table: latency", [tables.latency_table(run.summary)])]
    if (timing := server_timing_table(run.result)) is not None:
        folded.append(("Table: what the server measured", [timing]))
    return Group(charts=time_charts.distributions(f"{prefix}l", [("all requests", _times(run))]), folded=folded)


def _times(run: PageRun) -> dict[str, Times]:
    return times_of(run.good, run.summary.record_stats)


def _worst(run: PageRun) -> list[object]:
    if run.analysis is None or not run.analysis.outliers.requests:
        return []
    return [of_analysis.outliers_table(run.analysis.outliers, run.texts)]


def _side_by_side(runs: Sequence[PageRun]) -> Group:
    known = [
        (run.name, rate, length)
        for run in runs
        if (rate := run.summary.run_values.get("output_token_throughput")) is not None
        and (length := run.summary.acceptance.length) is not None
    ]
    chart = time_charts.length_by_throughput("length-rate", known)
    return Group(
        charts=[chart],
        legend=charts.names_of([name for name, *_ in known]) if chart else (),
        tables=[runs_table([RunRow(run.name, setup_of(run.result, run.summary), run.summary) for run in runs])],
    )


def _positions_of(runs: Sequence[PageRun]) -> Group:
    return positions_of(
        "all-",
        [
            (run.name, run.summary.acceptance.histogram, None if run.analysis is None else run.analysis.run.curve)
            for run in runs
        ],
    )
