"""The charts of a page, each from figures that were made before; one without data is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from aiperf_spec.analysis.drift import Drift
from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.analysis.positions import PositionCurve
from aiperf_spec.analysis.speed import step_terms
from aiperf_spec.analysis.whatif import WhatIf
from aiperf_spec.metrics.latency import inter_token_latency, request_latency, time_to_first_token
from aiperf_spec.models.run import RequestRecord
from aiperf_spec.models.units import NS_PER_S
from aiperf_spec.render.histogram import folded
from aiperf_spec.render.html.svg_plots import COLOURS, MARKERS, MUTED, SERIES, draw
from aiperf_spec.render.missing import figure
from aiperf_spec.render.text import count, middle, number, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

T = TypeVar("T")

POINTS = 700
"""Points of a scatter; of more requests so many are drawn, evenly in time."""
_LATENCIES: tuple[tuple[str, Callable[[RequestRecord], float | None]], ...] = (
    ("TTFT", time_to_first_token),
    ("ITL", inter_token_latency),
    ("Request latency", request_latency),
)


def names_of(series: Sequence[tuple[str, Any]]) -> list[str]:
    """Return the legend of a chart's series."""
    return [middle(name, 40) for name, _ in series[:SERIES]]


def _left_out(series: Sequence[object]) -> str:
    return f"{len(series) - SERIES} more are in the tables alone." if len(series) > SERIES else ""


def histograms(name: str, series: Sequence[tuple[str, Mapping[int, int]]], title: str) -> str:
    """Return the share of verify steps by accepted drafts, a line a series."""
    kept = [(label, histogram) for label, histogram in series if sum(histogram.values())]
    if not kept:
        return ""
    labels = [label for label, _ in folded(max((h for _, h in kept), key=lambda h: max(h)))]
    shares = [_shares(histogram, labels) for _, histogram in kept]

    def paint(axes: Axes, shares: Sequence[Sequence[float]]) -> None:
        axes.bar(range(len(labels)), shares[0], color=COLOURS[0], alpha=0.25, width=0.7)
        for i, each in enumerate(shares[:SERIES]):
            axes.plot(range(len(labels)), each, color=COLOURS[i], marker=MARKERS[i])
        axes.set_xticks(range(len(labels)), labels)
        axes.set(xlabel="accepted drafts of a verify step", ylabel="% of steps", ylim=(0, None))

    said = ", ".join(f"{label}: {share:.0f} %" for label, share in zip(labels, shares[0], strict=True))
    description = f"Share of verify steps by accepted drafts. {middle(kept[0][0], 40)}: {said}."
    return draw(name, title, description, [shares], paint, names_of(kept), _left_out(kept))


def _shares(histogram: Mapping[int, int], labels: Sequence[str]) -> list[float]:
    total = sum(histogram.values())
    by_label = dict(folded(histogram))
    return [100 * by_label.get(label, 0) / total for label in labels]


def curves(name: str, series: Sequence[tuple[str, PositionCurve]], title: str) -> str:
    """Return S(i), and c(i) where it is known, by position in the draft, a line a series."""
    kept = [(label, curve) for label, curve in series if curve.positions]
    if not kept:
        return ""
    panels = [("S(i): accepted at least i, of all steps", "survival")]
    if any(curve.drafting.at_risk_known for _, curve in kept):
        panels.append(("c(i): accepted i, of those that got to it", "conditional"))

    def paint(axes: Axes, panel: tuple[str, str]) -> None:
        heading, share = panel
        for i, (_, curve) in enumerate(kept[:SERIES]):
            if share == "survival" or curve.drafting.at_risk_known:
                at = [each.position for each in curve.positions]
                _line(axes, at, [getattr(each, share) for each in curve.positions], i, factor=100, band=i == 0)
        axes.set(title=heading, xlabel="position i in the draft", ylabel="% of steps", ylim=(0, 105))
        _whole(axes)

    first, curve = kept[0]
    said = ", ".join(f"{each.position}: {figure(each.survival, 2, 100)} %" for each in curve.positions[:16])
    description = f"Share of steps that accepted at least i drafts. {middle(first, 40)}: {said}."
    note = f"The band is the 95 % interval of the first. {_left_out(kept)}".strip()
    return draw(name, title, description, panels, paint, names_of(kept), note)


def drift_chart(name: str, drift: Drift) -> str:
    """Return acceptance length by tenth of the verify steps and by tokens put out before."""
    if not drift.tenths and len(drift.buckets) < 2:
        return ""
    buckets = ("tokens put out before", [bucket.length for bucket in drift.buckets])
    panels = [panel for panel in (("tenth of the verify steps", list(drift.tenths)), buckets) if panel[1]]

    def paint(axes: Axes, panel: tuple[str, list[Estimate]]) -> None:
        label, lengths = panel
        at = range(1, len(lengths) + 1)
        _line(axes, at, lengths, 0, band=True)
        axes.set(xlabel=label, ylabel="acceptance length")
        if panel is buckets:
            axes.set_xticks(at, [f"{count(bucket.start)}+" for bucket in drift.buckets])
        else:
            _whole(axes)

    said = ", ".join(figure(tenth) for tenth in drift.tenths)
    description = f"Acceptance length by tenth of the verify steps of {plural(drift.responses, 'response')}: {said}."
    title = "Acceptance length within responses"
    return draw(name, title, description, panels, paint, note="Bands are 95 % intervals.")


def what_if_chart(name: str, modelled: WhatIf) -> str:
    """Return what shorter drafts would have given, modelled."""
    if modelled.reason is not None or not modelled.lengths:
        return ""
    panels = ["acceptance length"]
    if any(each.speedup is not None for each in modelled.lengths):
        panels.append("speed-up")
    at = [each.k for each in modelled.lengths]

    def paint(axes: Axes, label: str) -> None:
        if label == "speed-up":
            _line(axes, at, [each.speedup or Estimate(None) for each in modelled.lengths], 0, band=True)
            axes.axhline(1, color=MUTED, linewidth=1, linestyle="--")
        else:
            _line(axes, at, [each.length for each in modelled.lengths], 0, band=True)
            if not modelled.drafting.full:
                _line(axes, at, [each.as_drafted for each in modelled.lengths], 1)
        axes.set(xlabel="draft length k'", ylabel=label)
        _whole(axes)

    said = ", ".join(f"{each.k}: {figure(each.length)}" for each in modelled.lengths[:16])
    legend = ["every step proposes k'"] if modelled.drafting.full else ["every step proposes k'", "as drafted"]
    title = "What a shorter draft would have given (estimate)"
    modelled_from = "histograms (rough)" if modelled.rough else "this run"
    note = f"Modelled from {modelled_from} for a chain drafter, not measured. The band is the 95 % interval."
    return draw(name, title, f"Modelled acceptance length by draft length: {said}.", panels, paint, legend, note)


def distributions(name: str, series: Sequence[tuple[str, Sequence[RequestRecord]]], title: str) -> str:
    """Return TTFT, ITL and request latency: a histogram of one run, cumulative shares of several."""
    found = [
        (label, [[value for record in records if (value := read(record)) is not None] for label, records in series])
        for label, read in _LATENCIES
    ]
    found = [(label, values) for label, values in found if any(values)]
    if not found:
        return ""

    def paint(axes: Axes, panel: tuple[str, list[list[float]]]) -> None:
        label, values = panel
        axes.set(title=label, xlabel="ms")
        if len(series) == 1:
            axes.hist(values[0], bins=min(40, max(5, round(len(values[0]) ** 0.5) * 2)), color=COLOURS[0])
            _whole(axes, vertical=True)
        else:
            for i, each in enumerate(values[:SERIES]):
                ordered, _ = _thinned(sorted(each), 200)
                shares = [100 * (j + 1) / len(ordered) for j in range(len(ordered))]
                axes.step(ordered, shares, where="post", color=COLOURS[i])
            axes.set_ylim(0, 101)
        if panel is found[0]:
            axes.set_ylabel("requests" if len(series) == 1 else "% of requests at most")

    said = "; ".join(f"{label} of {plural(sum(map(len, values)), 'request')}" for label, values in found)
    legend = names_of(series) if len(series) > 1 else []
    return draw(name, title, f"Distributions: {said}. The table has figures.", found, paint, legend)


def over_time(name: str, records: Sequence[RequestRecord], most: int = POINTS) -> str:
    """Return TTFT and ITL by the time at which requests started."""
    good = sorted((record for record in records if record.succeeded), key=lambda record: record.start_ns)
    reads = [(label, read) for label, read in _LATENCIES[:2] if any(read(record) is not None for record in good)]
    if not reads or good[0].start_ns == good[-1].start_ns:
        return ""
    (drawn, note), start = _thinned(good, most), good[0].start_ns

    def paint(axes: Axes, panel: tuple[str, Callable[[RequestRecord], float | None]]) -> None:
        label, read = panel
        pairs = [((r.start_ns - start) / NS_PER_S, value) for r in drawn if (value := read(r)) is not None]
        _scatter(axes, pairs)
        axes.set(title=label, xlabel="s since the first request", ylabel="ms", ylim=(0, None))

    span = (good[-1].start_ns - start) / NS_PER_S
    description = f"A point a request, by its start, over {number(span, 1)} s."
    return draw(name, "TTFT and ITL over time", description, reads, paint, note=note)


def acceptance_by_step_time(name: str, records: Sequence[RequestRecord], most: int = POINTS) -> str:
    """Return each request's acceptance length against its time per decode step."""
    pairs = []
    for record in records:
        report, times = record.acceptance, step_terms(record)
        if report is not None and times is not None and report.length is not None:
            pairs.append((times[0] / times[1], report.length))
    if not pairs:
        return ""
    drawn, note = _thinned(pairs, most)

    def paint(axes: Axes, pairs: Sequence[tuple[float, float]]) -> None:
        _scatter(axes, pairs)
        axes.set(xlabel="time per decode step, ms", ylabel="acceptance length")

    description = f"A point for each of {plural(len(drawn), 'request')}."
    return draw(name, "Acceptance against step time", description, [drawn], paint, note=note)


def _thinned(values: Sequence[T], most: int) -> tuple[Sequence[T], str]:
    """Return at most so many of the values, evenly, and a note where that is not all."""
    if len(values) <= most:
        return values, ""
    drawn = [values[i * (len(values) - 1) // (most - 1)] for i in range(most)]
    return drawn, f"{count(most)} of {count(len(values))} requests are drawn, evenly."


def _scatter(axes: Axes, pairs: Sequence[tuple[float, float]]) -> None:
    x, y = [x for x, _ in pairs], [y for _, y in pairs]
    axes.plot(x, y, linestyle="none", marker="o", markersize=4, color=COLOURS[0], alpha=0.6, markeredgewidth=0)


def _line(
    axes: Axes, at: Sequence[float], figures: Sequence[Estimate], series: int, *, factor: float = 1, band: bool = False
) -> None:
    known = [(x, each) for x, each in zip(at, figures, strict=True) if each.value is not None]
    values = [factor * (each.value or 0) for _, each in known]
    axes.plot([x for x, _ in known], values, color=COLOURS[series], marker=MARKERS[series])
    spans = [
        (x, factor * each.low, factor * each.high)
        for x, each in known
        if each.low is not None and each.high is not None
    ]
    if band and spans:
        x, low, high = zip(*spans, strict=True)
        axes.fill_between(x, low, high, color=COLOURS[series], alpha=0.18, linewidth=0)


def _whole(axes: Axes, *, vertical: bool = False) -> None:
    from matplotlib.ticker import MaxNLocator

    (axes.yaxis if vertical else axes.xaxis).set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
