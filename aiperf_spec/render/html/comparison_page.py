"""The page of runs held against a base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aiperf_spec.analysis.answer import reported_setup
from aiperf_spec.analysis.clusters import measured
from aiperf_spec.analysis.comparison.compare import Comparison, ComparisonSet, Verdict
from aiperf_spec.analysis.comparison.compare import Row as ComparedRow
from aiperf_spec.analysis.comparison.mismatches import Run
from aiperf_spec.analysis.comparison.outputs import OutputComparison
from aiperf_spec.analysis.gates import GateResult
from aiperf_spec.analysis.matrix import Matrix
from aiperf_spec.analysis.report import Analysis
from aiperf_spec.metrics.summary import Summary
from aiperf_spec.render.comparison_sentences import sentences
from aiperf_spec.render.comparison_tables import comparison_report, method, mismatch_text
from aiperf_spec.render.course import short
from aiperf_spec.render.gates import gates_table
from aiperf_spec.render.html import time_charts
from aiperf_spec.render.html.forest import Line, forest
from aiperf_spec.render.html.page import Forest, Group, Page, Point, Section
from aiperf_spec.render.html.several import categories_of, latencies_of, positions_of
from aiperf_spec.render.missing import interval, signed
from aiperf_spec.render.outputs import outputs_sentences, outputs_tables
from aiperf_spec.render.side_by_side import RunRow, runs_table
from aiperf_spec.render.text import middle, number, plural

TONES = {Verdict.BETTER: "good", Verdict.WORSE: "bad", Verdict.DIFFERENT: "warn"}


@dataclass(slots=True, frozen=True)
class ComparedRun:
    """A run with its figures; the first is the base."""

    run: Run
    summary: Summary
    analysis: Analysis

    @property
    def name(self) -> str:
        """Return what it is called on the page."""
        return short(self.run.name, 60)


def comparison_page(
    comparisons: ComparisonSet,
    runs: Sequence[ComparedRun],
    *,
    gates: Sequence[Sequence[GateResult]] = (),
    outputs: Sequence[OutputComparison] = (),
    strict: bool = False,
    matrix: Matrix | None = None,
) -> bytes:
    """Return the page: what misleads and what differs, then the runs' curves beside each other."""
    sections = []
    names = [run.name for run in runs]
    for i, compared in enumerate(comparisons.comparisons):
        groups = [_differences(compared)]
        if i < len(outputs):
            said, tables = list(outputs_sentences(outputs[i])), outputs_tables(outputs[i])
            groups.append(Group(title="Answers", sentences=said, tables=tables))
        if i < len(gates):
            groups.append(Group(title="Gates", tables=[gates_table(gates[i], strict=strict, title="")]))
        groups.append(Group(note=method(comparisons)))
        sections.append(Section(f"{names[i + 1]} against {names[0]}", groups))
    table = runs_table([RunRow(run.name, reported_setup(run.summary.acceptance), run.summary) for run in runs])
    sections.append(Section("Runs side by side", [Group(tables=[table])]))
    if matrix is not None:
        sections.append(Section("Acceptance by category", [categories_of(matrix)]))
    curves = [(run.name, run.summary.acceptance.histogram, run.analysis.run.curve) for run in runs]
    times = [(run.name, time_charts.times_of(measured(run.run.records), run.summary.record_stats)) for run in runs]
    sections += [
        Section("Position acceptance", [positions_of("c", curves)]),
        Section("Latency", [latencies_of("c", times)]),
    ]
    return Page(
        kicker=f"Comparison of {plural(len(runs), 'run')}",
        title=f"{', '.join(names[1:])} against {names[0]}",
        warnings=_warnings(comparisons, names),
        facts=_facts(runs),
        sections=sections,
    ).html()


def _warnings(comparisons: ComparisonSet, names: Sequence[str]) -> list[str]:
    several = len(comparisons.comparisons) > 1
    return [
        f"{f'{name}: ' if several else ''}{mismatch_text(mismatch)}"
        for name, compared in zip(names[1:], comparisons.comparisons, strict=True)
        for mismatch in compared.mismatches
    ]


def _facts(runs: Sequence[ComparedRun]) -> list[tuple[str, str]]:
    facts = []
    for i, each in enumerate(runs):
        settings = each.run.settings
        known = ((key, getattr(settings, key)) for key in ("model", "endpoint", "prompts", "concurrency"))
        parts = [f"{key} {middle(str(value), 80)}" for key, value in known if value is not None]
        facts.append(("Base" if i == 0 else "Candidate", f"{middle(each.run.name, 200)}: {', '.join(parts)}"))
    return facts


def _differences(compared: Comparison) -> Group:
    forests = [_forest("Difference from the base, by metric", "Metric", [(row.label, row) for row in compared.rows])]
    tags = dict.fromkeys(row.tag for rows in compared.categories.values() for row in rows)
    for tag in tags:
        rows = [(name, row) for name, rows in compared.categories.items() for row in rows if row.tag == tag]
        rows.sort(key=lambda each: -(each[1].relative or 0))
        forests.append(_forest(f"{rows[0][1].label}: difference by category", "Category", rows))
    folded = [("Tables: differences", [comparison_report(compared)])]
    return Group(sentences=list(sentences(compared)), forests=forests, folded=folded)


def _forest(title: str, first: str, rows: Sequence[tuple[str, ComparedRow]]) -> Forest | None:
    lines = [Line(middle(name, 40), "", [point]) for name, row in rows if (point := _point(name, row)) is not None]
    note = "In % of the base's figure, with 95 % intervals. Green is better, red is worse, grey is no difference shown."
    return forest(title, first, "difference, %", lines, zero=True, note=note)


def _point(name: str, row: ComparedRow) -> Point | None:
    relative, found = row.relative, row.difference
    if relative is None or not found.base:
        return None
    factor = 100 / abs(found.base)
    ends = (found.estimate.low, found.estimate.high)
    low, high = (None if end is None else factor * end for end in ends)
    shown = _signed(100 * relative)
    between = f"{_signed(low)} to {_signed(high)}" if low is not None and high is not None else interval(found.estimate)
    said = (
        f"{middle(name, 40)}: {number(found.base)} to {number(found.candidate)}, {shown} % ({between}), {row.verdict}"
    )
    tone = TONES.get(row.verdict, "muted")
    return Point(100 * relative, low, high, shown, between, said, tone=tone)


def _signed(value: float) -> str:
    return signed(round(value, 1) + 0.0, 1)  # adding turns -0.0 into 0.0
