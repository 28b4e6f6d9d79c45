"""Turn snapshots_by_url into figures: how much counters grew, what gauges were on average over time."""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

from aiperf_spec.metrics.stats import PERCENTILES
from aiperf_spec.models.server_metrics import MetricFigures, SeriesFigures
from aiperf_spec.models.units import NS_PER_S
from aiperf_spec.server_metrics.snapshots import START_TIME, GaugeSeries, Snapshots
from aiperf_spec.server_metrics.text import Buckets, Family, Labels

_UNITS = ("seconds", "milliseconds", "bytes", "tokens", "requests", "ratio")


def metric_deltas(snapshots_by_url: Mapping[str, Snapshots], start_ns: int, end_ns: int) -> dict[str, MetricFigures]:
    """Return every metric of every endpoint (by its URL) over the profiled interval, by name.

    Counters and histograms grow from an endpoint's first text to its last; rates divide by the interval. Each endpoint
    and each series (one an engine, with data parallelism) stays apart.
    """
    metrics: dict[str, MetricFigures] = {}
    seconds = max((end_ns - start_ns) / NS_PER_S, 1e-9)
    for url, snapshots in snapshots_by_url.items():
        fallen, gauges = snapshots.fallen(), snapshots.gauges()
        restarted = _restarted(snapshots)
        for name, family in sorted(snapshots.last.items()):
            first = snapshots.first.get(name) or Family(name, family.type, "")
            figure = metrics.setdefault(name, MetricFigures(family.type, family.description, unit_of(name)))
            for labels, value in family.values.items():
                if family.type == "gauge":
                    gauge = gauges.get((name, labels))
                    stats = gauge_stats(gauge, snapshots.reads, start_ns, end_ns) if gauge else {}
                    if stats:
                        figure.series.append(SeriesFigures(url, dict(labels), stats))
                else:
                    # A series that was not there yet had counted nothing.
                    grown = value - first.values.get(labels, 0.0)
                    reset = restarted or grown < 0 or (name, labels) in fallen
                    figure.series.append(_counter(url, labels, grown, seconds, reset=reset))
            for labels, buckets in family.histograms.items():
                before = first.histograms.get(labels, Buckets())
                reset = restarted or buckets.count < before.count or (f"{name}_count", labels) in fallen
                figure.series.append(_histogram(url, labels, before, buckets, seconds, reset=reset))
            if family.type == "counter":
                # A series that is gone took what it had counted with it.
                gone = first.values.keys() - family.values.keys()
                figure.series += [_counter(url, labels, 0.0, seconds, reset=True) for labels in sorted(gone)]
    return {name: metric for name, metric in sorted(metrics.items()) if metric.series}


def _restarted(snapshots: Snapshots) -> bool:
    first, last = snapshots.first.get(START_TIME), snapshots.last.get(START_TIME)
    other = first is not None and last is not None and first.values.keys() != last.values.keys()
    return snapshots.restarted or other


def unit_of(name: str) -> str | None:
    """Return the unit that a metric's name says; None where it says none."""
    if name.endswith("_perc"):
        return "ratio"
    words = name.replace(":", "_").removesuffix("_total").split("_")
    if words[-1] in _UNITS:
        return words[-1]
    return "requests" if "num_requests" in name or "request_success" in name else None


def _counter(url: str, labels: Labels, grown: float, seconds: float, *, reset: bool) -> SeriesFigures:
    known = not reset and math.isfinite(grown)
    stats = {"total": grown if known else None, "rate": grown / seconds if known else None}
    return SeriesFigures(url, dict(labels), stats, reset=reset)


def gauge_stats(gauge: GaugeSeries, reads: Sequence[int], start_ns: int, end_ns: int) -> dict[str, float | None]:
    """Return a gauge's statistics over the interval, weighted by time; empty where it was not read in it.

    A value counts for the time since the read before it, for it says what has been going on: what stood there before
    the first request says nothing of the run.
    """
    weighed: dict[float, int] = {}
    position = -1
    for before, at in pairwise(reads):
        while position + 1 < len(gauge.times) and gauge.times[position + 1] <= at:
            position += 1
        time_ns = min(at, end_ns) - max(before, start_ns)
        if position >= 0 and time_ns > 0 and math.isfinite(value := gauge.values[position]):
            weighed[value] = weighed.get(value, 0) + time_ns
    total = sum(weighed.values())
    if not total:
        return {}
    ordered = sorted(weighed.items())
    mean = math.fsum(value * weight for value, weight in ordered) / total
    variance = math.fsum((value - mean) ** 2 * weight for value, weight in ordered) / total
    reached = [100 * weight for weight in accumulate(weight for _, weight in ordered)]
    percentiles = {f"p{q}": ordered[bisect_left(reached, q * total)][0] for q in PERCENTILES}
    extremes = {"avg": mean, "min": ordered[0][0], "max": ordered[-1][0], "std": math.sqrt(variance)}
    return {**extremes, **percentiles}


def _histogram(
    url: str, labels: Labels, before: Buckets, after: Buckets, seconds: float, *, reset: bool
) -> SeriesFigures:
    if reset:
        return SeriesFigures(url, dict(labels), {"count": None, "sum": None}, reset=True)
    count, total = after.count - before.count, after.sum - before.sum
    if not math.isfinite(count + total):
        return SeriesFigures(url, dict(labels), {"count": None, "sum": None})
    # One that could not be read before has grown by nobody knows how much.
    bounds = sorted(after.bounds.keys() & (before.bounds or after.bounds).keys(), key=float)
    buckets = {bound: round(after.bounds[bound] - before.bounds.get(bound, 0.0)) for bound in bounds}
    stats: dict[str, float | None] = {"count": count}
    if count:
        stats |= {"sum": total, "avg": total / count, "count_rate": count / seconds, "sum_rate": total / seconds}
        stats |= {f"p{q}_estimate": _estimate(buckets, count, q) for q in PERCENTILES}
    return SeriesFigures(url, dict(labels), stats, buckets)


def _estimate(buckets: Mapping[str, int], count: float, q: float) -> float | None:
    # Linear within the bucket that holds the rank, as histogram_quantile() of Prometheus.
    rank, lower, below = count * q / 100, 0.0, 0
    for bound, reached in buckets.items():
        upper = float(bound)
        if reached >= rank and reached > below:
            return lower if math.isinf(upper) else lower + (upper - lower) * (rank - below) / (reached - below)
        if not math.isinf(upper):
            lower = upper
        below = reached
    return None
