"""The charts of times and of what a run did over time. What they draw is bounded, however many requests there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiperf_spec.analysis.timeline import output_rates
from aiperf_spec.metrics.latency import inter_token_latency, request_latency, time_to_first_token
from aiperf_spec.metrics.stats import Stats, percentile
from aiperf_spec.models.run import RequestRecord
from aiperf_spec.models.units import NS_PER_S
from aiperf_spec.render.html.page import Chart
from aiperf_spec.render.html.svg_plots import COLOURS, MARKERS, MUTED, SERIES, Tips, draw
from aiperf_spec.render.text import middle, number, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 400
"""Requests up to which a chart has a point for each; of more it has medians and percentiles."""
_QUANTILES = 200
_PARTS = 40
_MARKED = (50, 90, 99)

Read = Callable[[RequestRecord], float | None]
TIMES: tuple[tuple[str, str, Read], ...] = (
    ("TTFT", "time_to_first_token", time_to_first_token),
    ("ITL", "inter_token_latency", inter_token_latency),
    ("Request latency", "request_latency", request_latency),
)
"""Label, tag and reader of the times that are drawn."""


@dataclass(slots=True, frozen=True)
class Times:
    """One time of a run: its statistics, and its values in order where records give them."""

    stats: Stats
    values: Sequence[float] = ()

    def curve(self) -> list[tuple[float, float]]:
        """Return (value, per cent of requests with at most it), at most `_QUANTILES` of them."""
        if self.values:
            last = len(self.values) - 1
            places = range(last + 1) if last < _QUANTILES else [i * last // _QUANTILES for i in range(_QUANTILES + 1)]
            return [(self.values[i], 100 * (i + 1) / (last + 1)) for i in places]
        shares = sorted(self.stats.percentiles.items())
        return [(self.stats.min, 0.0), *((value, float(q)) for q, value in shares), (self.stats.max, 100.0)]


def times_of(records: Sequence[RequestRecord], stats: dict[str, Stats]) -> dict[str, Times]:
    """Return the times of a run by tag, of successful requests; without records, of its statistics alone."""
    found = {}
    for _, tag, read in TIMES:
        if (described := stats.get(tag)) is not None:
            found[tag] = Times(described, sorted(v for r in records if (v := read(r)) is not None))
    return found


def distributions(name: str, series: Sequence[tuple[str, dict[str, Times]]]) -> list[Chart]:
    """Return the cumulative distributions of TTFT, ITL and request latency, with p50, p90 and p99 marked."""
    charts = []
    for i, (label, tag, _) in enumerate(TIMES):
        found = [(place, run, times[tag]) for place, (run, times) in enumerate(series[:SERIES]) if tag in times]
        if found:
            charts.append(_distribution(f"{name}{i}", label, found))
    return charts


def _distribution(name: str, label: str, found: Sequence[tuple[int, str, Times]]) -> Chart:
    alone = len(found) == 1

    def paint(axes: Axes, tips: Tips) -> None:
        for i, run, times in found:
            curve = times.curve()
            x, y = [x for x, _ in curve], [y for _, y in curve]
            axes.plot(x, y, color=COLOURS[i], drawstyle="steps-post" if times.values else "default")
            if alone:
                axes.fill_between(
                    x, 0, y, color=COLOURS[i], alpha=0.1, linewidth=0, step="post" if times.values else None
                )
            at = [times.stats.percentiles[q] for q in _MARKED]
            (marks,) = axes.plot(at, _MARKED, color=COLOURS[i], marker=MARKERS[i], linestyle="none", markersize=6)
            of = "" if alone else f"{middle(run, 40)}, "
            tips.add(marks, [f"{of}p{q}: {number(value)} ms" for q, value in zip(_MARKED, at, strict=True)])
        axes.set(xlabel=f"{label}, ms", ylabel="% of requests", ylim=(0, 103))
        axes.set_yticks([0, 25, 50, 75, 90, 99], ["0", "25", "50", "75", "90", "99"])
        # One request that took ten times as long as all others would leave them a line at the edge.
        longest = max(times.stats.percentiles[99] for *_, times in found)
        most = max(times.stats.max for *_, times in found)
        if most > 1.5 * longest > 0:
            axes.set_xlim(right=1.25 * longest)

    said = "; ".join(f"{middle(run, 40)}: {_marked(times.stats)}" for _, run, times in found)
    note = _marked(found[0][2].stats) if alone else ""
    return draw(name, label, f"Cumulative share of requests by {label}. {said}.", paint, note=note)


def _marked(stats: Stats) -> str:
    parts = [f"p{q} {number(stats.percentiles[q])}" for q in _MARKED]
    return f"{', '.join(parts)}, max {number(stats.max)} ms"


@dataclass(slots=True, frozen=True)
class _Point:
    x: float
    y: float
    record: RequestRecord


def over_time(name: str, records: Sequence[RequestRecord], most: int = POINTS) -> list[Chart]:
    """Return TTFT and ITL by the start of requests, and output tokens a second."""
    good = [record for record in records if record.succeeded]
    start = min((record.start_ns for record in good), default=0)
    charts = []
    for i, (label, _, read) in enumerate(TIMES[:2]):
        points = [_Point((r.start_ns - start) / NS_PER_S, v, r) for r in good if (v := read(r)) is not None]
        if points and max(point.x for point in points) > 0:
            title, across = f"{label} over time", "seconds since the first request"
            charts.append(_points(f"{name}{i}", title, across, f"{label}, ms", points, most))
    rates = output_rates(good, min(_PARTS, max(len(good) // 4, 8)))
    if rates:
        charts.append(_rates(f"{name}r", rates))
    return charts


def _rates(name: str, rates: Sequence[tuple[float, float]]) -> Chart:
    x, y = [x for x, _ in rates], [y for _, y in rates]

    def paint(axes: Axes, tips: Tips) -> None:
        (drawn,) = axes.plot(x, y, color=COLOURS[0], marker="o", markersize=3)
        tips.add(drawn, [f"{number(at, 1)} s: {number(rate, 0)} tokens/s" for at, rate in rates])
        axes.fill_between(x, 0, y, color=COLOURS[0], alpha=0.1, linewidth=0)
        axes.set(xlabel="seconds since the first request", ylabel="output tokens/s", ylim=(0, None))

    description = f"From {number(min(y), 0)} to {number(max(y), 0)} output tokens a second over {number(x[-1], 1)} s."
    return draw(name, "Output tokens per second over time", description, paint)


def acceptance_by_itl(name: str, records: Sequence[RequestRecord], most: int = POINTS) -> Chart | None:
    """Return each request's acceptance length against its ITL."""
    points = []
    for record in records:
        report, itl = record.acceptance, inter_token_latency(record)
        if report is not None and itl is not None and report.length is not None:
            points.append(_Point(itl, report.length, record))
    return (
        _points(name, "Acceptance length by ITL", "ITL, ms", "acceptance length", points, most, 1) if points else None
    )


def _points(name: str, title: str, across: str, up: str, points: Sequence[_Point], most: int, lowest: int = 0) -> Chart:
    ordered = sorted(points, key=lambda point: point.x)

    def each(axes: Axes, tips: Tips) -> None:
        x, y = [point.x for point in ordered], [point.y for point in ordered]
        (drawn,) = axes.plot(x, y, "o", color=COLOURS[0], markersize=4, alpha=0.55, markeredgewidth=0)
        tips.add(drawn, [f"request {p.record.index}: {across} {number(p.x)}, {up} {number(p.y)}" for p in ordered])

    def summed(axes: Axes, tips: Tips) -> None:
        parts = [ordered[i * len(ordered) // _PARTS : (i + 1) * len(ordered) // _PARTS] for i in range(_PARTS)]
        columns = [sorted(point.y for point in part) for part in parts]
        x = [part[len(part) // 2].x for part in parts]
        low, half, high, top = ([percentile(column, q) for column in columns] for q in (10, 50, 90, 99))
        axes.fill_between(x, low, high, color=COLOURS[0], alpha=0.2, linewidth=0)
        axes.plot(x, top, color=MUTED, linewidth=1, linestyle="--")
        (drawn,) = axes.plot(x, half, color=COLOURS[0], marker="o", markersize=3)
        found = zip(x, low, half, high, top, strict=True)
        tips.add(
            drawn,
            [
                f"{across} {number(at)}: {up} p10 {number(a)}, p50 {number(b)}, p90 {number(c)}, p99 {number(d)}"
                for at, a, b, c, d in found
            ],
        )

    def paint(axes: Axes, tips: Tips) -> None:
        (each if len(ordered) <= most else summed)(axes, tips)
        axes.set(xlabel=across, ylabel=up, ylim=(lowest, None))

    drawn = plural(len(ordered), "request")
    if len(ordered) <= most:
        return draw(name, title, f"{up} by {across}, a point for each of {drawn}.", paint)
    note = f"{drawn} in {_PARTS} parts: the line is the median, the band p10 to p90, the dashes p99."
    return draw(name, title, f"{up} by {across}. {note}", paint, note=note)


def length_by_throughput(name: str, runs: Sequence[tuple[str, float, float]]) -> Chart | None:
    """Return the acceptance length of runs against their output tokens a second: (run, tokens/s, length)."""
    if len(runs) < 2:
        return None

    def paint(axes: Axes, tips: Tips) -> None:
        for i, (run, rate, length) in enumerate(runs[:SERIES]):
            (drawn,) = axes.plot([rate], [length], MARKERS[i], color=COLOURS[i], markersize=8)
            tips.add(drawn, [f"{middle(run, 40)}: {number(rate, 0)} tokens/s, acceptance length {number(length)}"])
        axes.set(xlabel="output tokens/s", ylabel="acceptance length")
        axes.margins(0.15)

    said = "; ".join(f"{middle(run, 40)}: {number(length)} at {number(rate, 0)}" for run, rate, length in runs[:SERIES])
    return draw(name, "Acceptance length and throughput", f"Length at output tokens a second. {said}.", paint)
