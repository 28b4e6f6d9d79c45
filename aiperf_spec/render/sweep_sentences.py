"""What a sweep comes to, in a sentence for each question that is asked of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from statistics import median

from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.sweep.choices import Choice, Payoff, Trend
from aiperf_spec.analysis.sweep.contrasts import Verdict
from aiperf_spec.analysis.sweep.economy import Economy
from aiperf_spec.analysis.sweep.points import MIN_REPEATS
from aiperf_spec.analysis.sweep.slo import SloAnswer
from aiperf_spec.analysis.sweep.sweep import Answers, SweepAnalysis
from aiperf_spec.models.sweep import Cell, Load, LoadKind
from aiperf_spec.render.missing import explained
from aiperf_spec.render.text import listed, number, plural, printable

_SELDOM = {1: "once", 2: "twice"}
"""Numbers of runs that are too few for a verdict."""


def load_text(load: Load) -> str:
    """Return a load in words: "concurrency 8", "2.5 requests/s"."""
    return f"concurrency {load.value:g}" if load.kind is LoadKind.CONCURRENCY else f"{load.value:g} requests/s"


def cell_text(cell: Cell) -> str:
    """Return a cell in words: "k 4, concurrency 8, repeat 2"."""
    k, repeat = ("" if cell.k is None else f"k {cell.k}, "), ("" if cell.repeat == 1 else f", repeat {cell.repeat}")
    return f"{k}{load_text(cell.load)}{repeat}"


def loads_text(loads: Sequence[Load]) -> str:
    """Return several loads in words: "concurrency 1, 2 and 4"."""
    values = listed([f"{load.value:g}" for load in loads])
    return f"concurrency {values}" if loads[0].kind is LoadKind.CONCURRENCY else f"{values} requests/s"


def sentences(analysis: SweepAnalysis) -> Iterator[str]:
    """Yield what is the best draft length, where each pays, what meets the objectives, and how predictions did."""
    answers = analysis.answers
    if answers.choices:
        yield _best(analysis)
    yield from paying(answers)
    if analysis.slo is not None:
        yield _slo(analysis.slo)
    if (answers.payoffs or analysis.slo) and (seldom := _SELDOM.get(analysis.fewest_repeats)):
        if answers.is_judged:
            yield f"Some cells were run {seldom}: there is no verdict on them."
        else:
            yield (
                f"No verdict: cells were run {seldom}, which does not tell how much equal runs differ. "
                f"--repeat {MIN_REPEATS} does."
            )
    if analysis.economy is not None:
        yield _economy(analysis.economy)
    if analysis.short:
        cells = "; ".join(f"{cell_text(cell)} ({mean:.1f} in flight)" for cell, mean in analysis.short)
        yield (
            f"Less load than asked for: {cells}. The client was held up and sent late: leave it the machine, or "
            "give --workers, and measure again."
        )
    if quick := analysis.quick_steps:
        where = "; ".join(
            f"k {listed([str(point.k) for point in quick if point.load == load])} at {load_text(load)}"
            for load in analysis.loads
            if any(point.load == load for point in quick)
        )
        yield (
            f"Not to be trusted: {where}. A decode step took less time there than one without a draft, which no draft "
            "can do: the machine or the server was in another state. Measure again, with --repeat 3."
        )


def _best(analysis: SweepAnalysis) -> str:
    answers = analysis.answers
    parts = []
    for (judged, alike), group in groupby(answers.choices, lambda each: (each.judged, sorted((each.best, *each.ties)))):
        chosen = list(group)
        where = loads_text([choice.load for choice in chosen])
        if len(alike) > 1:
            parts.append(f"no difference shown between {listed(list(map(str, alike)))} at {where}")
        else:
            notes = [_times(answers, chosen), "not judged" if answers.is_judged and not judged else ""]
            beside = ", ".join(filter(None, notes))
            parts.append(f"{alike[0]} at {where}" + (f" ({beside})" if beside else ""))
    economy = analysis.economy
    unmeasured = economy is not None and any(each.measured is None for each in economy.predictions)
    some = ", of those measured" if unmeasured and answers.is_judged else ""
    return f"{best_name(answers)}{some}: {'; '.join(parts)}."


def best_name(answers: Answers) -> str:
    """Return what the draft length of a load is called that came out first: the best one only by a verdict."""
    return "Best k" if answers.is_judged else "Fastest k measured"


def _times(answers: Answers, chosen: Sequence[Choice]) -> str:
    speeds = [
        found.speed_up.value
        for choice in chosen
        if (found := answers.speed_up(choice.load, choice.best)) is not None and found.speed_up.value is not None
    ]
    if not speeds:
        return ""
    ends = dict.fromkeys((number(min(speeds)), number(max(speeds))))
    return f"{' to '.join(ends)} times as fast as k 0"


def paying(answers: Answers) -> Iterator[str]:
    """Yield where each draft length pays, those of which the same is said in one sentence."""
    if answers.payoffs and all(payoff.trend is Trend.NEVER for payoff in answers.payoffs):
        yield "Speculation never pays here: every draft length is slower than k 0 at every load measured."
        return
    by_words: dict[str, list[int]] = {}
    for payoff in answers.payoffs:
        words = _measured_text(payoff, answers) if payoff.trend is Trend.NOT_JUDGED else payoff_text(payoff)
        by_words.setdefault(words, []).append(payoff.k)
    for words, lengths in by_words.items():
        yield f"k {', '.join(map(str, lengths))}: {words}."
    if answers.payoffs and not any(each.speed_up.has_interval for each in answers.contrasts.by_pair.values()):
        yield "Not judged whether speculation pays: fewer than 5 prompts were answered with and without it."


def _measured_text(payoff: Payoff, answers: Answers) -> str:
    """Return at which loads a draft length was measured to be faster than k = 0, in a clause without a verdict."""
    speeds = {load: found.speed_up.value for load in payoff.unjudged if (found := answers.speed_up(load, payoff.k))}
    faster, other = (
        [load for load, speed in speeds.items() if speed is not None and (speed > 1) is wanted]
        for wanted in (True, False)
    )
    if not faster:
        return "measured faster than k 0 at no load"
    if not other:
        return "measured faster than k 0 at every load"
    even = "" if payoff.crossover is None else f" (even at {crossover_text(payoff.crossover, faster[0])})"
    return f"measured faster than k 0 at {loads_text(faster)}, not at {loads_text(other)}{even}"


def payoff_text(payoff: Payoff) -> str:
    """Return where a draft length pays, in a clause."""
    if payoff.trend is Trend.STOPS and payoff.crossover is not None:
        return f"stops paying {crossover_text(payoff.crossover, payoff.slower[0])}"
    if payoff.trend is Trend.STARTS and payoff.crossover is not None:
        return f"starts paying {crossover_text(payoff.crossover, payoff.faster[0])}"
    if payoff.trend in (Trend.ALWAYS, Trend.NEVER, Trend.NOT_JUDGED) or (
        payoff.trend is Trend.NONE_SHOWN and not payoff.unjudged
    ):
        return payoff.trend
    parts = [f"pays at {loads_text(payoff.faster)}"] if payoff.faster else [Trend.NOT_SHOWN_TO_PAY]
    parts += [f"slower at {loads_text(payoff.slower)}"] if payoff.slower else []
    parts += [f"no difference shown at {loads_text(payoff.unshown)}"] if payoff.unshown else []
    parts += [f"not judged at {loads_text(payoff.unjudged)}"] if payoff.unjudged else []
    return ", ".join(parts)


def crossover_text(found: Estimate, like: Load) -> str:
    """Return where a crossover is, in words; `like` is any load of its kind."""
    about, ends = number(found.value, 1), [end for end in (found.low, found.high) if end is not None]
    where = loads_text([replace(like, value=end) for end in ends]) if ends else ""
    if len(ends) == 2:
        return f"between {where} (about {about})"
    if ends:
        return f"{'above' if found.high is None else 'below'} {where} (about {about})"
    return f"about {about}"


def _slo(answer: SloAnswer) -> str:
    conditions = " and ".join(printable(each, 80) for each in answer.expressions)
    if answer.highest is None:
        return f"Under {conditions}: no cell met this."
    found = f"Under {conditions}: the highest load is {load_text(answer.highest)}"
    if answer.best is None:
        return f"{found}."
    ties = f" (no difference shown to {listed(list(map(str, answer.ties)))})" if answer.ties else ""
    return f"{found}, with k {answer.best}{ties}."


def _economy(found: Economy) -> str:
    if not found.predictions:
        reason = next(iter(found.refused.values()), Missing.NO_RECORDS)
        return f"Nothing was predicted: {explained(reason)}."
    predicted = f"Predicted: {plural(len(found.predictions), 'cell')}"
    if not (errors := found.errors):
        return f"{predicted}; none of them was measured."
    of = f"{len(errors)} of them measured" if len(errors) < len(found.predictions) else "all of them measured"
    return f"{predicted}, {of}: error {100 * median(errors):.1f} % (median), {100 * errors[-1]:.1f} % at most."


VERDICTS = {
    Verdict.FASTER: ("faster", "green"),
    Verdict.SLOWER: ("slower", "red"),
    Verdict.NONE_SHOWN: ("none shown", "dim"),
    Verdict.NOT_JUDGED: ("–", "dim"),
}
