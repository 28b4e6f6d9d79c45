"""The figures that are looked for first, as cards."""

from __future__ import annotations

from aiperf_spec.analysis.answer import Answer
from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.metrics.stats import Stats
from aiperf_spec.metrics.summary import Summary
from aiperf_spec.render.answer import others_said, outage_clause
from aiperf_spec.render.html.page import Card
from aiperf_spec.render.missing import figure, interval
from aiperf_spec.render.server_side import length_text
from aiperf_spec.render.text import count, middle, number, plural


def cards_of(answer: Answer, speed_up: Estimate | None = None) -> list[Card]:
    """Return the answer of a run, and its speed-up over a baseline; what it does not have is left out."""
    found = []
    if answer.length.value is not None:
        best, worst = answer.best, answer.worst
        ends = ""
        if best is not None and worst is not None:
            ends = f"\nbest {middle(best[0], 24)} {number(best[1])}, worst {middle(worst[0], 24)} {number(worst[1])}"
        found.append(Card("Acceptance length", figure(answer.length), beside=_beside(answer.length, 2) + ends))
    if answer.rate.value is not None:
        share = answer.drafted_share
        made = "" if share is None else f"\na draft was made in {100 * share:.0f} % of decode steps"
        found.append(Card("Draft acceptance rate", figure(answer.rate, 1), "%", _beside(answer.rate, 1) + made))
    if (counted := answer.counted) is not None:
        beside = "by the server's counters, all traffic"
        found.append(Card("Acceptance length", length_text(counted), beside=beside))
        if counted.rate is not None:
            found.append(Card("Draft acceptance rate", number(counted.rate, 1), "%", beside))
    if answer.tokens_per_second is not None:
        of = f"of the whole run{outage_clause(answer)}"
        found.append(Card("Output", number(answer.tokens_per_second, 0), "tokens/s", of))
    times: list[tuple[str, Stats | None]] = [("TTFT", answer.ttft), ("ITL", answer.itl)]
    if answer.ttft is None and answer.itl is None:
        times = [("Request latency", answer.latency)]
    found += [_time(name, stats) for name, stats in times if stats is not None]
    if speed_up is not None and speed_up.value is not None:
        found.append(Card("Speed-up over the baseline", figure(speed_up), beside=_beside(speed_up, 2)))
    return [*found, _requests(answer.summary)]


def _beside(estimate: Estimate, decimals: int) -> str:
    if estimate.low is None or estimate.high is None:
        return f"no interval: {interval(estimate)}, {plural(estimate.n, 'prompt')}" if estimate.n else "no interval"
    return f"95 %: {interval(estimate, decimals)}, {plural(estimate.n, 'prompt')}"


def _time(name: str, stats: Stats) -> Card:
    beside = f"p90 {number(stats.value('p90'))}, p99 {number(stats.value('p99'))} ms"
    return Card(f"{name}, p50", number(stats.value("p50")), "ms", beside)


def _requests(summary: Summary) -> Card:
    said = [*others_said(summary), f"{count(summary.acceptance.requests)} reported acceptance"]
    return Card("Requests succeeded", f"{count(summary.succeeded)} of {count(summary.due)}", beside=", ".join(said))
