"""The page of a sweep."""

from __future__ import annotations

from collections.abc import Sequence

from aiperf_spec.analysis.sweep.schedule import configurations
from aiperf_spec.analysis.sweep.sweep import SweepAnalysis
from aiperf_spec.models.schedule import Configuration
from aiperf_spec.render.html.page import Card, Group, Page, Section
from aiperf_spec.render.html.svg_plots import SERIES
from aiperf_spec.render.html.sweep_charts import over_load, series_of, speed_up_curves, speed_ups
from aiperf_spec.render.missing import figure, interval
from aiperf_spec.render.sweep import (
    categories_table,
    choices_table,
    configuration_reason,
    economy_table,
    payoffs_table,
    points_table,
    slo_table,
    speed_up_notes,
    speed_up_table,
)
from aiperf_spec.render.sweep_sentences import best_name, load_text, loads_text, sentences
from aiperf_spec.render.text import middle, plural, printable

_CARDS = 6
_CATEGORIES = 12
"""Heat maps of categories; the table has all."""


def sweep_page(analysis: SweepAnalysis) -> bytes:
    """Return the page: the answers first, then speed-up over draft length and load, and figures over the load."""
    sections = [
        Section("Speed-up over k = 0", [_speed_ups(analysis)]),
        Section(f"{best_name(analysis.answers)} at each load", [_choices(analysis)]),
        Section("Figures over the load", [_figures(analysis)]),
        Section("By category", [_categories(analysis)]),
        Section("Under the objectives", [_slo(analysis)]),
        Section("Predicted and measured", [_economy(analysis)]),
        *_configurations(analysis),
    ]
    lengths = f"k {', '.join(map(str, analysis.lengths))} at " if analysis.lengths else ""
    loads = loads_text(analysis.loads) if analysis.loads else "no load"
    return Page(
        kicker=f"Sweep of {plural(len(analysis.points), 'cell')}, each run {plural(analysis.fewest_repeats, 'time')}",
        title=lengths + (loads if len(loads) < 120 else plural(len(analysis.loads), "load")),
        about=list(sentences(analysis)),
        warnings=[f"{cell.name} has no figures: {printable(reason, 400)}" for cell, reason in analysis.failed],
        cards=_cards(analysis),
        sections=sections,
    ).html()


def _cards(analysis: SweepAnalysis) -> list[Card]:
    cards = []
    chosen = analysis.answers.choices
    for choice in chosen if len(chosen) <= _CARDS else (*chosen[: _CARDS - 1], chosen[-1]):
        found = analysis.answers.speed_up(choice.load, choice.best)
        speed = "" if found is None else f"{figure(found.speed_up)} times as fast ({interval(found.speed_up)})"
        ties = f"\nno difference shown to {', '.join(map(str, choice.ties))}" if choice.ties else ""
        name = f"{best_name(analysis.answers)} at {load_text(choice.load)}"
        cards.append(Card(name, str(choice.best), beside=(speed or "no faster than without") + ties))
    return cards


def _legend(lengths: Sequence[int | None]) -> list[str]:
    return [f"k {k}" for k in lengths[:SERIES]] if len(lengths) > 1 else []


def _speed_ups(analysis: SweepAnalysis) -> Group:
    lengths = [payoff.k for payoff in analysis.answers.payoffs]
    if not lengths:
        return Group()
    charts = [
        speed_ups("hm", "Speed-up by k and load", analysis.answers, analysis.loads, lengths),
        speed_up_curves("sc", analysis),
    ]
    folded = [("Table: speed-up", [speed_up_table(analysis)])]
    if analysis.answers.is_judged:
        folded.append(("Table: where each k pays", [payoffs_table(analysis.answers)]))
    notes = " ".join(speed_up_notes(analysis))
    return Group(charts=charts, legend=_legend(lengths), note=notes, folded=folded)


def _choices(analysis: SweepAnalysis) -> Group:
    return Group(tables=[choices_table(analysis)]) if analysis.answers.choices else Group()


def _figures(analysis: SweepAnalysis) -> Group:
    steps = [point for point in analysis.points if point.k != 0 and point.tokens_per_step.value is not None]
    charts = [
        over_load("tp", "Output throughput", "tokens/s", analysis, lambda point: point.throughput),
        over_load("gp", "Goodput", "requests/s", analysis, lambda point: point.goodput),
        over_load("il", "ITL, pooled", "ms", analysis, lambda point: point.itl_ms),
        over_load("tt", "TTFT, p50", "ms", analysis, lambda point: point.ttft_p50_ms),
        over_load("al", "Acceptance length", "tokens per verify step", analysis, lambda point: point.length),
        over_load("td", "Tokens per decode step", "tokens", analysis, lambda point: point.tokens_per_step)
        if steps
        else None,
        over_load("st", "Time per decode step", "ms", analysis, lambda point: point.step_time_ms) if steps else None,
        over_load("rb", "Running batch", "requests", analysis, lambda point: point.running),
    ]
    lengths = series_of(analysis)
    folded = [("Table: cells", [points_table(analysis.points)])]
    note = (
        "Bands are 95 % intervals: over prompts, wider where repeats scatter more; for throughputs, over repeats only."
    )
    return Group(charts=charts, legend=_legend(lengths), note=note, folded=folded)


def _categories(analysis: SweepAnalysis) -> Group:
    if not analysis.has_telling_categories:
        return Group()
    lengths = [payoff.k for payoff in analysis.answers.payoffs]
    maps = [
        speed_ups(f"c{i}", middle(name, 40), answers, analysis.loads, lengths)
        for i, (name, answers) in enumerate([*analysis.categories.items()][:_CATEGORIES])
    ]
    title = f"Table: {best_name(analysis.answers).lower()} of each category"
    return Group(charts=maps, folded=[(title, [categories_table(analysis)])])


def _slo(analysis: SweepAnalysis) -> Group:
    return Group() if analysis.slo is None else Group(tables=[slo_table(analysis.slo)])


def _economy(analysis: SweepAnalysis) -> Group:
    found = analysis.economy
    return Group(tables=[economy_table(found)]) if found is not None and found.predictions else Group()


def _configurations(analysis: SweepAnalysis) -> list[Section]:
    sections = []
    for engine, found in configurations(analysis).items():
        if isinstance(found, Configuration):
            note = f"To use it, {found.use}. To be known: {'; '.join(found.limits)}."
            sections.append(Section(f"Configuration for {engine}", [Group(note=note)], found.file_name, found.text))
        else:
            reason = f"None: {configuration_reason(found)}."
            sections.append(Section(f"Configuration for {engine}", [Group(tables=[reason])]))
    return sections
