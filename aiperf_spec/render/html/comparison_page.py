"""The page of runs held against a base."""

from collections.abc import Sequence
from dataclasses import dataclass

from aiperf_spec.analysis.comparison.compare import ComparisonSet
from aiperf_spec.analysis.comparison.mismatches import Run
from aiperf_spec.analysis.gates import GateResult
from aiperf_spec.analysis.matrix import Matrix
from aiperf_spec.analysis.report import Analysis
from aiperf_spec.metrics.summary import Summary
from aiperf_spec.models.run import Phase
from aiperf_spec.render.comparison_tables import comparison_report, method
from aiperf_spec.render.gates import gates_table
from aiperf_spec.render.html import charts
from aiperf_spec.render.html.document import cards, document, medians
from aiperf_spec.render.html.heat_map import heat_map
from aiperf_spec.render.html.rich_to_html import html, safe
from aiperf_spec.render.missing import figure, interval
from aiperf_spec.render.text import count, middle, plural, printable


@dataclass(slots=True, frozen=True)
class ComparedRun:
    """A run with its figures; the first is the base."""

    run: Run
    summary: Summary
    analysis: Analysis


def comparison_page(
    comparisons: ComparisonSet,
    runs: Sequence[ComparedRun],
    *,
    gates: Sequence[Sequence[GateResult]] = (),
    strict: bool = False,
    matrix: Matrix | None = None,
) -> bytes:
    """Return the page: what differs and what misleads, then the runs' curves on top of each other."""
    sections = [("Runs", "".join(_headline(run) for run in runs))]
    for compared in comparisons.comparisons:
        heading = f"{_short(compared.candidate)} against {_short(compared.base)}"
        sections.append((heading, html(comparison_report(compared))))
    for compared, judged in zip(comparisons.comparisons, gates, strict=False):
        title = f"Gates, {_short(compared.candidate)}"
        sections.append((title, html(gates_table(judged, strict=strict, title=""))))
    if matrix is not None:
        sections.append(("Acceptance by category", heat_map(matrix)))
    sections.append(("Acceptance", _acceptance(runs)))
    sections.append(("Latency", _latency(runs)))
    lead = f"<p>{safe(f'{_short(runs[0].run.name)} is the base')}</p><p class='dim'>{safe(method(comparisons))}</p>"
    return document(f"Comparison of {plural(len(runs), 'run')}", lead, sections)


def _short(name: str) -> str:
    return middle(name.rstrip("/").rpartition("/")[2] or name, 60)


def _headline(run: ComparedRun) -> str:
    found = run.analysis.run
    settings = run.run.settings
    figures = [
        ("Acceptance length, pooled", figure(found.length), interval(found.length)),
        ("Draft acceptance rate", f"{figure(found.rate)} %", interval(found.rate)),
    ]
    figures += medians(run.summary)
    said = f"{count(run.summary.acceptance.requests)} of {count(run.summary.succeeded)}"
    figures.append(("Requests with acceptance", said, f"{count(run.summary.total)} in all"))
    known = ((key, getattr(settings, key)) for key in ("model", "endpoint", "prompts", "concurrency"))
    beside = ", ".join(f"{key} {printable(str(value), 80)}" for key, value in known if value is not None)
    return (
        f"<h3>{safe(_short(run.run.name))}</h3><p class='dim'>{safe(printable(run.run.name, 400))}</p>"
        + (f"<p>{safe(beside)}</p>" if beside else "")
        + cards(figures)
    )


def _acceptance(runs: Sequence[ComparedRun]) -> str:
    histograms = [(_short(run.run.name), run.summary.acceptance.histogram) for run in runs]
    curves = [(_short(run.run.name), run.analysis.run.curve) for run in runs]
    return charts.histograms("ch", histograms, "Accepted drafts per verify step") + charts.curves(
        "cp", curves, "Acceptance by position in the draft"
    )


def _latency(runs: Sequence[ComparedRun]) -> str:
    series = [
        (_short(run.run.name), [each for each in run.run.records if each.succeeded and each.phase is Phase.PROFILING])
        for run in runs
    ]
    return charts.distributions("cl", series, "Latency: share of requests at most as slow")
