"""The charts of acceptance, each from figures that were made before; one without data is None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from aiperf_spec.analysis.drift import Drift
from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.analysis.positions import Drafting, Position, PositionCurve
from aiperf_spec.analysis.server_acceptance import ServerAcceptance
from aiperf_spec.analysis.whatif import WhatIf
from aiperf_spec.render.histogram import folded
from aiperf_spec.render.html.page import Chart
from aiperf_spec.render.html.svg_plots import COLOURS, MARKERS, MUTED, SERIES, Tips, draw
from aiperf_spec.render.missing import figure, interval
from aiperf_spec.render.text import count, middle, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

UNCONDITIONAL = "Position acceptance, unconditional"
CONDITIONAL = "Position acceptance, conditional"
NONE = PositionCurve(Drafting(None, full=False, at_risk_known=False), ())
"""The curve of a run of which none is known."""
_Curves = Sequence[tuple[str, PositionCurve]]


def counted(found: ServerAcceptance) -> PositionCurve:
    """Return the curve of a server's own counters, without intervals."""
    pairs = zip(found.reached, found.positions, strict=True)
    positions = (
        Position(i, accepted, found.steps, Estimate(share), None, Estimate(None))
        for i, (accepted, share) in enumerate(pairs, 1)
    )
    return PositionCurve(NONE.drafting, tuple(positions))


def names_of(series: Sequence[str]) -> list[str]:
    """Return the legend of charts of these series; one alone needs none."""
    return [middle(name, 40) for name in series[:SERIES]] if len(series) > 1 else []


def proposed(curve: PositionCurve) -> list[Position]:
    """Return the positions that some draft is known to have reached; what no step proposed was not rejected."""
    return [each for each in curve.positions if each.at_risk != 0 or curve.drafting.full]


def histograms(name: str, series: Sequence[tuple[str, Mapping[int, int], PositionCurve | None]]) -> Chart | None:
    """Return the share of verify steps by accepted drafts, bars of the series side by side."""
    kept = [each for each in series if sum(each[1].values())][:SERIES]
    if not kept:
        return None
    longest = [max(max(histogram), 0 if curve is None else len(proposed(curve))) for _, histogram, curve in kept]
    labels = [label for label, _ in folded({max(longest): 1})]
    width = 0.8 / len(kept)

    def paint(axes: Axes, tips: Tips) -> None:
        for i, ((label, histogram, _), last) in enumerate(zip(kept, longest, strict=True)):
            shares = _shares(histogram, labels[: last + 1])
            at = [x + (i - (len(kept) - 1) / 2) * width for x in range(len(shares))]
            bars = axes.bar(at, [share for share, _ in shares], width=0.9 * width, color=COLOURS[i])
            for bar, (share, steps), accepted in zip(bars, shares, labels, strict=False):
                tips.add(bar, [f"{middle(label, 40)}, {accepted} accepted: {share:.1f} % ({plural(steps, 'step')})"])
        axes.set_xticks(range(len(labels)), labels)
        axes.set(xlabel="accepted drafts in a verify step", ylabel="% of verify steps", ylim=(0, None))
        axes.grid(visible=False, axis="x")

    first = _shares(kept[0][1], labels)
    said = ", ".join(f"{label}: {share:.0f} %" for label, (share, _) in zip(labels, first, strict=True))
    description = f"Share of verify steps by accepted drafts. {middle(kept[0][0], 40)}: {said}."
    return draw(name, "Accepted drafts per verify step", description, paint)


def _shares(histogram: Mapping[int, int], labels: Sequence[str]) -> list[tuple[float, int]]:
    total = sum(histogram.values())
    by_label = dict(folded(histogram))
    return [(100 * by_label.get(label, 0) / total, by_label.get(label, 0)) for label in labels]


def positions(name: str, series: _Curves, *, side_by_side: bool = False) -> list[Chart]:
    """Return the unconditional acceptance by position in the draft, and the conditional one where it is known.

    A line a series, the first with its interval; with `side_by_side`, points with intervals beside each other.
    """
    return [
        chart
        for suffix, title, share in (("u", UNCONDITIONAL, "survival"), ("c", CONDITIONAL, "conditional"))
        if (chart := _positions(f"{name}{suffix}", title, share, series, side_by_side=side_by_side)) is not None
    ]


def _positions(name: str, title: str, share: str, series: _Curves, *, side_by_side: bool) -> Chart | None:
    known = [(i, label, curve) for i, (label, curve) in enumerate(series[:SERIES]) if proposed(curve)]
    if share == "conditional":
        known = [each for each in known if each[2].drafting.at_risk_known]
    if not known:
        return None
    gap = 0.7 / len(series[:SERIES]) if side_by_side else 0.0

    def paint(axes: Axes, tips: Tips) -> None:
        for i, label, curve in known:
            found = [(each.position, getattr(each, share)) for each in proposed(curve)]
            shift = (i - (len(series[:SERIES]) - 1) / 2) * gap
            at = [position + shift for position, _ in found]
            texts = [f"{middle(label, 40)}, position {position}: {_percent(each)}" for position, each in found]
            figures = [each for _, each in found]
            if side_by_side:
                _points(axes, tips, at, figures, texts, i)
            else:
                line(axes, tips, at, figures, texts, i, factor=100, band=i == 0)
        axes.set(xlabel="position in the draft", ylabel=_OF[share], ylim=(0, 105))
        _whole(axes)
        if side_by_side:
            axes.set_xlim(0.5, max(len(proposed(curve)) for *_, curve in known) + 0.5)
            axes.grid(visible=False, axis="x")

    label, curve = known[0][1:]
    said = ", ".join(f"{each.position}: {_percent(getattr(each, share))}" for each in proposed(curve)[:16])
    return draw(name, title, f"{title}. {middle(label, 40)}: {said}.", paint)


_OF = {"survival": "% of all verify steps", "conditional": "% of steps that reached it"}


def _percent(each: Estimate) -> str:
    beside = f" ({interval(each, 1, 100)})" if each.low is not None else ""
    return f"{figure(each, 1, 100)} %{beside}"


def position_small(name: str, label: str, curve: PositionCurve, whole: PositionCurve) -> Chart | None:
    """Return one category's unconditional position acceptance over the whole run's, which is grey."""
    if not proposed(curve):
        return None

    def paint(axes: Axes, tips: Tips) -> None:
        behind = [(each.position, 100 * each.survival.value) for each in proposed(whole) if each.survival.value]
        axes.plot([x for x, _ in behind], [y for _, y in behind], color=MUTED, linewidth=1.2, linestyle="--")
        found = proposed(curve)
        texts = [f"{middle(label, 40)}, position {each.position}: {_percent(each.survival)}" for each in found]
        at, figures = [each.position for each in found], [each.survival for each in found]
        line(axes, tips, at, figures, texts, 0, factor=100, band=True)
        axes.set(ylim=(0, 105), xlim=(0.7, len(proposed(whole)) + 0.3))
        _whole(axes)

    said = ", ".join(f"{each.position}: {_percent(each.survival)}" for each in proposed(curve)[:16])
    return draw(name, label, f"{UNCONDITIONAL}: {said}.", paint, small=True)


def drift_charts(name: str, drift: Drift) -> list[Chart]:
    """Return acceptance length by tenth of the verify steps, and by tokens put out before."""
    charts = []
    if drift.tenths:
        label = "tenth of a response's verify steps"
        ticks = [str(i + 1) for i in range(len(drift.tenths))]
        charts.append(_lengths(f"{name}t", "Acceptance length within responses", label, drift.tenths, ticks))
    if sum(each.length.value is not None for each in drift.buckets) > 1:
        lengths, ticks = [each.length for each in drift.buckets], [f"{count(each.start)}+" for each in drift.buckets]
        title = "Acceptance length by output so far"
        charts.append(_lengths(f"{name}b", title, "output tokens before the step", lengths, ticks))
    return charts


def _lengths(name: str, title: str, label: str, lengths: Sequence[Estimate], ticks: Sequence[str]) -> Chart:
    texts = [f"{tick}: {_with_interval(each)}" for tick, each in zip(ticks, lengths, strict=True)]

    def paint(axes: Axes, tips: Tips) -> None:
        at = range(1, len(lengths) + 1)
        line(axes, tips, at, lengths, texts, 0, band=True)
        axes.set(xlabel=label, ylabel="acceptance length")
        axes.set_xticks(at, ticks)

    return draw(name, title, f"Acceptance length by {label}: {', '.join(texts)}.", paint)


def _with_interval(each: Estimate) -> str:
    return f"{figure(each)} ({interval(each)})" if each.low is not None else figure(each)


def what_if_charts(name: str, modelled: WhatIf) -> list[Chart]:
    """Return what shorter drafts would have given, modelled: acceptance length, and speed-up at a draft cost."""
    if modelled.reason is not None or not modelled.lengths:
        return []
    at = [each.k for each in modelled.lengths]

    def draw_line(axes: Axes, tips: Tips, found: Sequence[Estimate], series: int = 0, of: str = "") -> None:
        texts = [f"k {k}{of}: {_with_interval(each)}" for k, each in zip(at, found, strict=True)]
        line(axes, tips, at, found, texts, series, band=not series)
        _whole(axes)

    def lengths(axes: Axes, tips: Tips) -> None:
        draw_line(axes, tips, [each.length for each in modelled.lengths])
        if not modelled.drafting.full:
            draw_line(axes, tips, [each.as_drafted for each in modelled.lengths], 1, ", as drafted")
        axes.set(xlabel="draft length k", ylabel="acceptance length")

    def speed_ups(axes: Axes, tips: Tips) -> None:
        draw_line(axes, tips, [each.speedup or Estimate(None) for each in modelled.lengths])
        axes.axhline(1, color=MUTED, linewidth=1, linestyle="--")
        axes.set(xlabel="draft length k", ylabel="speed-up")

    said = ", ".join(f"{each.k}: {figure(each.length)}" for each in modelled.lengths[:16])
    title = "Acceptance length by draft length (estimate)"
    charts = [draw(f"{name}l", title, f"Modelled acceptance length by draft length: {said}.", lengths)]
    if any(each.speedup is not None for each in modelled.lengths):
        title = f"Speed-up at a draft cost of {modelled.draft_cost:g} (estimate)"
        said = ", ".join(f"{each.k}: {figure(each.speedup or Estimate(None))}" for each in modelled.lengths[:16])
        charts.append(draw(f"{name}s", title, f"Modelled speed-up by draft length: {said}.", speed_ups))
    return charts


def line(
    axes: Axes,
    tips: Tips,
    at: Sequence[float],
    figures: Sequence[Estimate],
    texts: Sequence[str],
    series: int,
    *,
    factor: float = 1,
    band: bool = False,
) -> None:
    """Draw the figures that are known, times a factor, with the texts as tips, and with `band` their intervals."""
    known = [(x, each, text) for x, each, text in zip(at, figures, texts, strict=True) if each.value is not None]
    values = [factor * (each.value or 0) for _, each, _ in known]
    (drawn,) = axes.plot([x for x, *_ in known], values, color=COLOURS[series], marker=MARKERS[series])
    tips.add(drawn, [text for *_, text in known])
    spans = [
        (x, factor * each.low, factor * each.high)
        for x, each, _ in known
        if each.low is not None and each.high is not None
    ]
    if band and spans:
        x, low, high = zip(*spans, strict=True)
        axes.fill_between(x, low, high, color=COLOURS[series], alpha=0.15, linewidth=0)


def _points(
    axes: Axes, tips: Tips, at: Sequence[float], figures: Sequence[Estimate], texts: Sequence[str], series: int
) -> None:
    known = [
        (x, 100 * each.value, each, text)
        for x, each, text in zip(at, figures, texts, strict=True)
        if each.value is not None
    ]
    for x, _, each, _ in known:
        if each.low is not None and each.high is not None:
            axes.plot([x, x], [100 * each.low, 100 * each.high], color=COLOURS[series], linewidth=1.4)
    across, up = [x for x, *_ in known], [y for _, y, *_ in known]
    (drawn,) = axes.plot(across, up, color=COLOURS[series], marker=MARKERS[series], linestyle="none", markersize=5.5)
    tips.add(drawn, [text for *_, text in known])


def _whole(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
