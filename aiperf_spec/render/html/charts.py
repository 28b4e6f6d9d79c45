"""The charts of a page, each from figures that were made before; one without data is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aiperf_spec.analysis.drift import Drift
from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.analysis.positions import PositionCurve
from aiperf_spec.analysis.whatif import WhatIf
from aiperf_spec.metrics.latency import inter_token_latency, request_latency, time_to_first_token
from aiperf_spec.models.run import RequestRecord
from aiperf_spec.models.units import NS_PER_MS, NS_PER_S
from aiperf_spec.render.histogram import folded
from aiperf_spec.render.html.svg_plots import COLOURS, MARKERS, MUTED, SERIES, draw
from aiperf_spec.render.missing import figure
from aiperf_spec.render.text import count, middle, number, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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

    def paint(axes: Sequence[Axes]) -> None:
        for i, (_, histogram) in enumerate(kept[:SERIES]):
            shares = _shares(histogram, labels)
            if i == 0:
                axes[0].bar(range(len(labels)), shares, color=COLOURS[0], alpha=0.25, width=0.7)
            axes[0].plot(range(len(labels)), shares, color=COLOURS[i], marker=MARKERS[i])
        axes[0].set_xticks(range(len(labels)), labels)
        axes[0].set_xlabel("accepted drafts of a verify step")
        axes[0].set_ylabel("% of steps")
        axes[0].set_ylim(bottom=0)

    first, histogram = kept[0]
    said = ", ".join(f"{label}: {share:.0f} %" for label, share in zip(labels, _shares(histogram, labels), strict=True))
    return draw(
        name,
        1,
        paint,
        title=title,
        description=f"Share of verify steps by accepted drafts. {middle(first, 40)}: {said}.",
        legend=names_of(kept),
        note=_left_out(kept),
    )


def _shares(histogram: Mapping[int, int], labels: Sequence[str]) -> list[float]:
    total = sum(histogram.values())
    by_label = dict(folded(histogram))
    return [100 * by_label.get(label, 0) / total for label in labels]


def curves(name: str, series: Sequence[tuple[str, PositionCurve]], title: str) -> str:
    """Return S(i), and c(i) where it is known, by position in the draft, a line a series."""
    kept = [(label, curve) for label, curve in series if curve.positions]
    if not kept:
        return ""
    panels = 2 if any(curve.drafting.at_risk_known for _, curve in kept) else 1

    def paint(axes: Sequence[Axes]) -> None:
        for i, (_, curve) in enumerate(kept[:SERIES]):
            at = [float(each.position) for each in curve.positions]
            _line(axes[0], at, [each.survival for each in curve.positions], i, factor=100, band=i == 0)
            if panels == 2 and curve.drafting.at_risk_known:
                _line(axes[1], at, [each.conditional for each in curve.positions], i, factor=100, band=i == 0)
        axes[0].set_title("S(i): accepted at least i, of all steps")
        if panels == 2:
            axes[1].set_title("c(i): accepted i, of those that got to it")
        for each in axes:
            each.set_xlabel("position i in the draft")
            each.set_ylabel("% of steps")
            each.set_ylim(0, 105)
            _whole(each)

    first, curve = kept[0]
    said = ", ".join(f"{each.position}: {figure(each.survival, 2, 100)} %" for each in curve.positions[:16])
    return draw(
        name,
        panels,
        paint,
        title=title,
        description=f"Share of steps that accepted at least i drafts. {middle(first, 40)}: {said}.",
        legend=names_of(kept),
        note=f"The band is the 95 % interval of the first. {_left_out(kept)}".strip(),
    )


def drift_chart(name: str, drift: Drift) -> str:
    """Return acceptance length by tenth of the response and by tokens put out before."""
    if not drift.tenths and len(drift.buckets) < 2:
        return ""
    panels = [part for part in ("tenths", "buckets") if (part == "tenths" and drift.tenths) or part != "tenths"]

    def paint(axes: Sequence[Axes]) -> None:
        for axis, part in zip(axes, panels, strict=True):
            found = drift.tenths if part == "tenths" else [bucket.length for bucket in drift.buckets]
            _line(axis, [float(i + 1) for i in range(len(found))], list(found), 0, band=True)
            axis.set_ylabel("acceptance length")
            if part == "tenths":
                axis.set_xlabel("tenth of the response")
                _whole(axis)
            else:
                labels = [f"{count(bucket.start)}+" for bucket in drift.buckets]
                axis.set_xticks(range(1, len(labels) + 1), labels)
                axis.set_xlabel("tokens put out before")

    said = ", ".join(figure(tenth) for tenth in drift.tenths)
    return draw(
        name,
        len(panels),
        paint,
        title="Acceptance length against output position",
        description=f"Acceptance length by tenth of {plural(drift.responses, 'response')}: {said}.",
        note="Bands are 95 % intervals.",
    )


def what_if_chart(name: str, modelled: WhatIf) -> str:
    """Return what shorter drafts would have given, modelled."""
    if modelled.reason is not None or not modelled.lengths:
        return ""
    panels = 2 if any(each.speedup is not None for each in modelled.lengths) else 1
    at = [float(each.k) for each in modelled.lengths]

    def paint(axes: Sequence[Axes]) -> None:
        _line(axes[0], at, [each.length for each in modelled.lengths], 0, band=True)
        if not modelled.drafting.full:
            _line(axes[0], at, [each.as_drafted for each in modelled.lengths], 1)
        axes[0].set_ylabel("acceptance length")
        if panels == 2:
            speeds = [each.speedup or Estimate(None) for each in modelled.lengths]
            _line(axes[1], at, speeds, 0, band=True)
            axes[1].axhline(1, color=MUTED, linewidth=1, linestyle="--")
            axes[1].set_ylabel("speed-up")
        for each in axes:
            each.set_xlabel("draft length k'")
            _whole(each)

    said = ", ".join(f"{each.k}: {figure(each.length)}" for each in modelled.lengths[:16])
    legend = ["every step proposes k'"] if modelled.drafting.full else ["every step proposes k'", "as drafted"]
    return draw(
        name,
        panels,
        paint,
        title="What a shorter draft would have given (estimate)",
        description=f"Modelled acceptance length by draft length: {said}.",
        legend=legend,
        note="Modelled from this run for a chain drafter, not measured. The band is the 95 % interval.",
    )


def distributions(name: str, series: Sequence[tuple[str, Sequence[RequestRecord]]], title: str) -> str:
    """Return TTFT, ITL and request latency: a histogram of one run, cumulative shares of several."""
    found = [
        (label, [[value for record in records if (value := read(record)) is not None] for label, records in series])
        for label, read in _LATENCIES
    ]
    found = [(label, values) for label, values in found if any(values)]
    if not found:
        return ""

    def paint(axes: Sequence[Axes]) -> None:
        for axis, (label, values) in zip(axes, found, strict=True):
            axis.set_title(label)
            axis.set_xlabel("ms")
            if len(series) == 1:
                axis.hist(values[0], bins=min(40, max(5, round(len(values[0]) ** 0.5) * 2)), color=COLOURS[0])
                _whole(axis, vertical=True)
                continue
            for i, each in enumerate(values[:SERIES]):
                ordered = _thinned(sorted(each), 200)
                shares = [100 * (j + 1) / len(ordered) for j in range(len(ordered))]
                axis.step(ordered, shares, where="post", color=COLOURS[i])
            axis.set_ylim(0, 101)
        axes[0].set_ylabel("requests" if len(series) == 1 else "% of requests at most")

    said = "; ".join(f"{label} of {plural(sum(map(len, values)), 'request')}" for label, values in found)
    legend = names_of(series) if len(series) > 1 else []
    return draw(
        name,
        len(found),
        paint,
        title=title,
        description=f"Distributions: {said}. The table has figures.",
        legend=legend,
    )


def over_time(name: str, records: Sequence[RequestRecord], most: int = POINTS) -> str:
    """Return TTFT and ITL by the time at which requests started."""
    good = sorted((record for record in records if record.succeeded), key=lambda record: record.start_ns)
    reads = [(label, read) for label, read in _LATENCIES[:2] if any(read(record) is not None for record in good)]
    if not reads or good[0].start_ns == good[-1].start_ns:
        return ""
    drawn = _thinned(good, most)
    start = good[0].start_ns

    def paint(axes: Sequence[Axes]) -> None:
        for axis, (label, read) in zip(axes, reads, strict=True):
            pairs = [(r.start_ns, value) for r in drawn if (value := read(r)) is not None]
            _scatter(axis, [(at - start) / NS_PER_S for at, _ in pairs], [value for _, value in pairs])
            axis.set_title(label)
            axis.set_xlabel("s since the first request")
            axis.set_ylabel("ms")
            axis.set_ylim(bottom=0)

    span = (good[-1].start_ns - start) / NS_PER_S
    return draw(
        name,
        len(reads),
        paint,
        title="TTFT and ITL over time",
        description=f"A point a request, by its start, over {number(span, 1)} s.",
        note=_thinning(good, drawn),
    )


def acceptance_by_step_time(name: str, records: Sequence[RequestRecord], most: int = POINTS) -> str:
    """Return each request's acceptance length against its time per verify step."""
    pairs = []
    for record in records:
        report, first, last = record.acceptance, record.first_content_ns, record.last_content_ns
        if report is not None and report.num_spec_steps and first is not None and last is not None and last > first:
            pairs.append(((last - first) / report.num_spec_steps / NS_PER_MS, report.mean_acceptance_length))
    if not pairs:
        return ""
    drawn = _thinned(pairs, most)

    def paint(axes: Sequence[Axes]) -> None:
        _scatter(axes[0], [at for at, _ in drawn], [length for _, length in drawn])
        axes[0].set_xlabel("time per verify step, ms")
        axes[0].set_ylabel("acceptance length")

    return draw(
        name,
        1,
        paint,
        title="Acceptance against step time",
        description=f"A point for each of {plural(len(drawn), 'request')}.",
        note=_thinning(pairs, drawn),
    )


def _thinned(values: Sequence[Any], most: int) -> list[Any]:
    if len(values) <= most:
        return list(values)
    return [values[i * (len(values) - 1) // (most - 1)] for i in range(most)]


def _thinning(values: Sequence[Any], drawn: Sequence[Any]) -> str:
    if len(drawn) == len(values):
        return ""
    return f"{count(len(drawn))} of {count(len(values))} requests are drawn, evenly."


def _scatter(axis: Axes, x: Sequence[float], y: Sequence[float]) -> None:
    axis.plot(x, y, linestyle="none", marker="o", markersize=4, color=COLOURS[0], alpha=0.6, markeredgewidth=0)


def _line(
    axis: Axes, at: Sequence[float], figures: Sequence[Estimate], series: int, *, factor: float = 1, band: bool = False
) -> None:
    known = [(x, each) for x, each in zip(at, figures, strict=True) if each.value is not None]
    xs = [x for x, _ in known]
    axis.plot(xs, [factor * (each.value or 0) for _, each in known], color=COLOURS[series], marker=MARKERS[series])
    spans = [(x, each.low, each.high) for x, each in known if each.low is not None and each.high is not None]
    if band and spans:
        axis.fill_between(
            [x for x, _, _ in spans],
            [factor * low for _, low, _ in spans],
            [factor * high for _, _, high in spans],
            color=COLOURS[series],
            alpha=0.18,
            linewidth=0,
        )


def _whole(axis: Axes, *, vertical: bool = False) -> None:
    from matplotlib.ticker import MaxNLocator

    (axis.yaxis if vertical else axis.xaxis).set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
