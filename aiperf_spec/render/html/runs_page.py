"""The page of one or several runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.analysis.matrix import Matrix
from aiperf_spec.analysis.report import Analysis
from aiperf_spec.metrics.summary import Summary
from aiperf_spec.models.response import PromptAndAnswer
from aiperf_spec.models.run import RequestRecord, RunResult
from aiperf_spec.render import analysis as of_analysis
from aiperf_spec.render import tables
from aiperf_spec.render.html import charts
from aiperf_spec.render.html.document import cards, document, folded_part, medians
from aiperf_spec.render.html.heat_map import heat_map
from aiperf_spec.render.html.rich_to_html import html, safe
from aiperf_spec.render.missing import figure, interval
from aiperf_spec.render.notices import notice_text
from aiperf_spec.render.server_side import reconciliation_table, server_timing_table
from aiperf_spec.render.text import count, middle, number, plural, printable

_RUNS = 6
"""Runs that get charts of their own: more would make a page of megabytes."""


@dataclass(slots=True, frozen=True)
class PageRun:
    """A run of the page. `analysis` is None where its records were not read; `configuration` is its file's text."""

    name: str
    result: RunResult
    summary: Summary
    analysis: Analysis | None
    configuration: str = ""
    texts: Mapping[int, PromptAndAnswer] = field(default_factory=dict)


def runs_page(runs: Sequence[PageRun], matrix: Matrix | None = None) -> bytes:
    """Return the page of runs; `matrix` is the acceptance matrix over all of them, where there are categories."""
    heat = [] if matrix is None else [("Acceptance by category", heat_map(matrix))]
    if len(runs) == 1:
        (run,) = runs
        title = f"{run.result.model}: speculative decoding"
        return document(
            title, _facts(run), [*_sections(run, "r0", heat, charts.POINTS)], f" · {printable(run.name, 200)}"
        )
    sections, points = list(heat), charts.POINTS // min(len(runs), _RUNS)
    for i, run in enumerate(runs[:_RUNS]):
        body = "\n".join(
            f"<h3>{safe(heading)}</h3>\n{part}" for heading, part in _sections(run, f"r{i}", [], points) if part
        )
        sections.append((run.name, f"{_facts(run)}\n{body}"))
    lead = f"<p>{safe(plural(len(runs), 'run'))}</p>"
    if len(runs) > _RUNS:
        lead += f"<p class='dim'>The first {_RUNS} have tables and charts of their own.</p>"
    return document("Speculative decoding", lead, sections)


def _facts(run: PageRun) -> str:
    return html(tables.run_table(run.result, run.summary)) + headline(run)


def headline(run: PageRun) -> str:
    """Return the figures that are looked for first, with their intervals."""
    summary, analysis = run.summary, run.analysis
    pooled = summary.acceptance
    found: list[tuple[str, str, str]] = []
    if analysis is not None and analysis.run.length.value is not None:
        found.append(("Acceptance length, pooled", figure(analysis.run.length), _between(analysis.run.length)))
        found.append(("Draft acceptance rate", f"{figure(analysis.run.rate)} %", _between(analysis.run.rate)))
        coverage = analysis.coverage
        if coverage.value is not None:
            beside = _between(coverage, 100)
            found.append(("Output that speculation gave", f"{figure(coverage, 1, 100)} %", beside))
        if analysis.speed_up.measured.value is not None:
            found.append(
                ("Speed-up, measured", figure(analysis.speed_up.measured), _between(analysis.speed_up.measured))
            )
    elif pooled.length is not None:
        found.append(("Acceptance length, pooled", number(pooled.length), "no interval without records"))
    found += medians(summary)
    if (tokens := summary.run_values.get("output_token_throughput")) is not None:
        found.append(("Output tokens", f"{number(tokens, 1)}/s", "of the whole run"))
    said = f"{count(pooled.requests)} of {count(summary.succeeded)}"
    found.append(("Requests with acceptance", said, f"{count(summary.total)} in all, {count(summary.failed)} failed"))
    return cards(found)


def _between(estimate: Estimate, factor: float = 1.0) -> str:
    found = interval(estimate, 2, factor)
    return f"95 %: {found}" if estimate.low is not None else found


def _sections(run: PageRun, prefix: str, heat: list[tuple[str, str]], points: int) -> list[tuple[str, str]]:
    result, summary, analysis = run.result, run.summary, run.analysis
    good = [record for record in result.profiled() if record.succeeded]
    sections = list(heat)
    if summary.succeeded:
        sections.append(("Acceptance", html(tables.acceptance_table(summary)) + _drafts(run, prefix)))
    if analysis is not None and analysis.run.requests:
        sections.append(("Positions, drift and draft length", _positions(analysis, prefix)))
    if summary.succeeded:
        latency = html(tables.latency_table(summary))
        if (timing := server_timing_table(result)) is not None:
            latency += html(timing)
        sections.append(("Latency", latency + _latencies(good, prefix, points)))
    counted = html(tables.coverage_table(summary))
    if result.reconciliation is not None:
        counted += html(reconciliation_table(result.reconciliation))
    sections.append(("Coverage and reconciliation", counted))
    if analysis is not None and analysis.outliers.requests:
        sections.append(("Worst requests", html(of_analysis.outliers_table(analysis.outliers, run.texts))))
    if summary.errors:
        sections.append(("Failed requests", html(tables.errors_table(summary))))
    said = (*result.notices, *(() if analysis is None else analysis.cautions))
    notices = "".join(f"<p>{safe(notice_text(notice))}</p>" for notice in said)
    sections.append(("Notices", notices))
    if run.configuration.strip():
        configuration = folded_part("The run's configuration file", f"<pre>{safe(run.configuration)}</pre>")
        sections.append(("Configuration", configuration))
    return sections


def _drafts(run: PageRun, prefix: str) -> str:
    summary = run.summary
    series = [("all requests", summary.acceptance.histogram)]
    series += [(name, category.acceptance.histogram) for name, category in summary.categories.items()]
    chart = charts.histograms(f"{prefix}h", series, "Accepted drafts per verify step")
    return chart + (html(tables.categories_table(summary.categories)) if summary.categories else "")


def _positions(analysis: Analysis, prefix: str) -> str:
    curves = [(name, group.curve) for name, group in analysis.categories.items() if group.requests]
    by_category = "".join(html(of_analysis.curve_table(curve, middle(name, 40))) for name, curve in curves)
    parts = [
        charts.curves(
            f"{prefix}p", [("all requests", analysis.run.curve), *curves], "Acceptance by position in the draft"
        ),
        html(of_analysis.curve_table(analysis.run.curve, "Acceptance by position, all requests")),
        folded_part("Acceptance by position, each category", by_category) if by_category else "",
        charts.drift_chart(f"{prefix}d", analysis.drift),
        html(of_analysis.drift_table(analysis.drift)),
        charts.what_if_chart(f"{prefix}w", analysis.run.what_if),
        html(of_analysis.what_if_table(analysis.run.what_if)),
        html(of_analysis.figures_table(analysis)),
    ]
    return "\n".join(part for part in parts if part)


def _latencies(good: Sequence[RequestRecord], prefix: str, points: int) -> str:
    parts = [
        charts.distributions(f"{prefix}l", [("all requests", good)], "Latency distributions"),
        charts.over_time(f"{prefix}t", good, points),
        charts.acceptance_by_step_time(f"{prefix}s", good, points),
    ]
    return "\n".join(part for part in parts if part)
