"""The tables of a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Group as Renderables
from rich.console import RenderableType
from rich.text import Text

from aiperf_spec.analysis.intervals import missing
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.sweep.choices import Choice, Trend
from aiperf_spec.analysis.sweep.economy import Economy
from aiperf_spec.analysis.sweep.points import MIN_REPEATS, Point
from aiperf_spec.analysis.sweep.schedule import configurations
from aiperf_spec.analysis.sweep.slo import SloAnswer
from aiperf_spec.analysis.sweep.sweep import Answers, SweepAnalysis
from aiperf_spec.models.schedule import Configuration, NoConfiguration
from aiperf_spec.models.sweep import Load, LoadKind
from aiperf_spec.render.layout import FittingTable, spaced, table_of, titled
from aiperf_spec.render.missing import explained, figure, interval, reasons_said, signed
from aiperf_spec.render.sweep_sentences import VERDICTS, best_name, loads_text, sentences
from aiperf_spec.render.text import cell, count, middle, number, printable, spelled

_POINT_DROPS = ("ITL ms\n95 %", "tok/s\n95 %", "TTFT ms\np99", "runs", "rate\n%", "requests", "good\nreq/s")
_SPEED_DROPS = ("tokens\nper step", "step\nms", "n")


def sweep_report(analysis: SweepAnalysis) -> RenderableType:
    """Return everything that a sweep says on stdout: its tables, and a sentence for each question."""
    said = [Text(sentence, style="bold") for sentence in sentences(analysis)]
    return Renderables(spaced(_parts(analysis)), *said)


def _parts(analysis: SweepAnalysis) -> Iterator[RenderableType]:
    yield titled("Cells", points_table(analysis.points), _point_notes(analysis))
    answers = analysis.answers
    if answers.payoffs:
        yield titled("Speed-up over k = 0", speed_up_table(analysis), speed_up_notes(analysis))
    if answers.choices:
        yield titled(f"{best_name(answers)} at each load", choices_table(analysis))
    if answers.payoffs and answers.is_judged:
        notes = [
            "about: interpolated, the logarithm of the speed-up over that of the load. The interval ends at loads that "
            "were measured."
        ]
        crossing = any(payoff.crossover is not None for payoff in answers.payoffs)
        yield titled("Where each k pays", payoffs_table(answers), notes if crossing else ())
    if analysis.has_telling_categories:
        notes = ["In parentheses: lengths that are not shown to differ."] if answers.is_judged else []
        yield titled(f"{best_name(answers)} of each category", categories_table(analysis), notes)
    if analysis.slo is not None:
        yield slo_table(analysis.slo)
    if analysis.economy is not None and analysis.economy.predictions:
        yield economy_table(analysis.economy)
    for engine, found in configurations(analysis).items():
        yield configuration_text(engine, found)
    if analysis.failed:
        rows = ((failed.name, cell(reason, 400)) for failed, reason in analysis.failed)
        yield table_of(("<Cell", "<Why it has no figures"), rows, "Cells that failed", wraps="Why it has no figures")


def load_header(loads: Iterable[Load]) -> str:
    """Return what loads are called in the head of a column, and on an axis."""
    return "requests/s" if any(load.kind is LoadKind.REQUEST_RATE for load in loads) else "concurrency"


def _k(value: int | None) -> str:
    return "–" if value is None else str(value)


def points_table(points: Iterable[Point]) -> FittingTable:
    """Return the figures of each point; a row for each load and k."""
    points = list(points)
    columns = (
        load_header(point.load for point in points),
        *("k", "runs", "requests", "n", "tok/s", "tok/s\n95 %", "good\nreq/s", "TTFT ms\np50", "TTFT ms\np99"),
        *("ITL\nms", "ITL ms\n95 %", "length", "rate\n%", "batch"),
    )
    table = table_of(columns, drops=_POINT_DROPS)
    for point in points:
        table.add_row(
            f"{point.load.value:g}",
            _k(point.k),
            count(point.repeats),
            f"{count(point.requests)}/{count(point.requests + point.failed)}",
            count(point.itl_ms.n),
            figure(point.throughput, 1),
            interval(point.throughput, 1),
            "–" if point.goodput is None else figure(point.goodput),
            number(point.ttft_p50_ms, 1),
            number(point.ttft_p99_ms, 1),
            figure(point.itl_ms),
            interval(point.itl_ms),
            figure(point.length),
            figure(point.rate, 1),
            _running(point),
        )
    return table.without_hollow()


def _running(point: Point | None) -> str:
    mark = "" if point is None or point.by_gauge or point.running is None else "~"
    return mark + number(None if point is None else point.running, 1)


def _point_notes(analysis: SweepAnalysis) -> list[str]:
    notes = [
        "n counts prompts; ITL, length and rate are pooled. batch: requests that the engine ran at a time, "
        "by its own gauge."
    ]
    if any(not point.by_gauge and point.running is not None for point in analysis.points):
        notes.append("~: requests whose content was arriving, because the gauge was not read, or too seldom.")
    if 1 < analysis.fewest_repeats < MIN_REPEATS:
        notes.append(f"Throughputs have intervals from {MIN_REPEATS} repeats on.")
    silent = {point.k for point in analysis.points if point.k and point.length.value is None}
    if silent:
        lengths = ", ".join(map(str, sorted(silent)))
        notes.append(f"No acceptance was reported at k {lengths}: these cells have times alone.")
    return notes


def speed_up_table(analysis: SweepAnalysis) -> FittingTable:
    """Return the speed-up of each cell over k = 0 at its load, with what it is made of."""
    judged = analysis.answers.is_judged
    columns = (
        *(load_header(analysis.loads), "k", "n", "speed-up", "95 % interval", *(["<verdict"] if judged else [])),
        *("tokens\nper step", "step\nms"),
    )
    table = table_of(columns, drops=_SPEED_DROPS)
    for point in analysis.points:
        found = analysis.answers.speed_up(point.load, point.k)
        if found is not None:
            figures = [count(found.speed_up.n), figure(found.speed_up), interval(found.speed_up)]
            verdict = Text(*VERDICTS[found.verdict])
        else:
            figures, verdict = (["", "1", ""], Text("")) if point.k == 0 else (["–"] * 3, Text("–"))
        row: list[RenderableType] = [f"{point.load.value:g}", _k(point.k), *figures, *([verdict] if judged else [])]
        row += [figure(point.tokens_per_step), figure(point.step_time_ms)]
        table.add_row(*row, style="dim" if found is None else None)
    return table.without_hollow()


def speed_up_notes(analysis: SweepAnalysis) -> list[str]:
    """Return in words how speed-ups were made and judged."""
    tests = analysis.answers.contrasts.tests
    notes = [
        "Ratio of the pooled inter-token latencies, over the same prompts, paired. Intervals are 95 %, one figure at a "
        "time" + (f"; verdicts are corrected for {tests} comparisons (Holm)." if tests else ".")
    ]
    if analysis.fewest_repeats == 1:
        notes.append("Intervals are over prompts alone: they do not hold how much equal runs differ.")
    speed_ups = [each.speed_up for each in analysis.answers.contrasts.by_pair.values()]
    notes += reasons_said(each.reason for each in speed_ups if each.reason is not None)
    if alone := [load for load in analysis.loads if analysis.point(load, 0) is None]:
        notes.append(f"At {loads_text(alone)} there is no cell of k = 0 to compare with.")
    return notes


def _ties(choice: Choice) -> str:
    return ", ".join(map(str, choice.ties)) or "none" if choice.judged else "not judged"


def choices_table(analysis: SweepAnalysis) -> FittingTable:
    """Return the best k of each load, and those that are not shown to differ from it."""
    shown_to = ("<no difference shown to",) if analysis.answers.is_judged else ()
    columns = (load_header(analysis.loads), "batch", "k", "speed-up", "95 % interval", *shown_to)
    table = table_of(columns, drops=("batch",))
    for choice in analysis.answers.choices:
        found = analysis.answers.speed_up(choice.load, choice.best)
        point = analysis.point(choice.load, choice.best)
        speeds = (
            ("1" if not choice.best else "–", "")
            if found is None
            else (figure(found.speed_up), interval(found.speed_up))
        )
        ties = [_ties(choice)] if shown_to else []
        table.add_row(f"{choice.load.value:g}", _running(point), str(choice.best), *speeds, *ties)
    return table.without_hollow()


def payoffs_table(answers: Answers) -> FittingTable:
    """Return at which loads each k pays, and where it stops."""
    table = table_of(
        ("k", "<faster at", "<slower at", "<none shown at", "passes 1\nabout", "passes 1\n95 %", "<comes to"),
        drops=("comes to",),
    )
    for payoff in answers.payoffs:
        lists = (
            ", ".join(f"{load.value:g}" for load in loads) or "–"
            for loads in (payoff.faster, payoff.slower, payoff.unshown)
        )
        crossing = payoff.crossover or missing(Missing.NOT_REACHED)
        whole = all(float(end or 0).is_integer() for end in (crossing.low, crossing.high))
        ends = interval(crossing, 0 if whole else 1)
        table.add_row(str(payoff.k), *lists, figure(crossing, 1), ends, str(payoff.trend))
    return table.without_hollow()


def categories_table(analysis: SweepAnalysis) -> FittingTable:
    """Return the best k of each category at each load."""
    loads = analysis.loads
    header = load_header(loads)
    table = table_of(("<Category", *(f"{header} {load.value:g}" for load in loads), "<never pays"))
    for name, answers in analysis.categories.items():
        best = {choice.load: choice for choice in answers.choices}
        cells = [_choice(best[load], analysis.answers) if load in best else "–" for load in loads]
        never = [str(payoff.k) for payoff in answers.payoffs if payoff.trend is Trend.NEVER]
        table.add_row(Text(middle(name, 20)), *cells, ", ".join(never) or "–")
    return table


def _choice(choice: Choice, answers: Answers) -> str:
    if not choice.judged and answers.is_judged:
        return "not judged"
    return f"{choice.best}" + (f" ({', '.join(map(str, choice.ties))})" if choice.ties else "")


def slo_table(answer: SloAnswer) -> RenderableType:
    """Return the highest load of each k under the objectives, and what was missed first beyond it."""
    table = table_of(("k", "highest load", "<missed above it"), wraps="missed above it")
    for k, highest in answer.highest_of.items():
        beyond = [each for each in answer.outcomes if each.k == k and not each.met]
        above = [each for each in beyond if highest is None or each.load > highest]
        first = min(above, key=lambda each: each.load, default=None)
        missed = "" if first is None else _missed(first.missed[0].gate.expression, first.missed[0].figure.value)
        table.add_row(_k(k), "none" if highest is None else f"{highest.value:g}", cell(missed))
    return titled("Under the objectives", table)


def _missed(expression: str, value: float | None) -> str:
    return f"{expression} (was {number(value)})" if value is not None else f"{expression} (no value)"


_RANGE = "range: from steps that take as long at every k to steps that take longer the larger k is."


def economy_table(found: Economy) -> RenderableType:
    """Return what was predicted beside what was measured."""
    table = table_of(
        (load_header(each.load for each in found.predictions), "k", "predicted", "range", "measured", "error\n%"),
        title="Speed-up over k = 0, predicted",
    )
    for each in found.predictions:
        error = None if each.error is None else 100 * each.error
        between = f"{number(each.low)} to {number(each.high)}"
        row = (f"{each.load.value:g}", str(each.k), number(each.predicted), between, number(each.measured))
        table.add_row(*row, signed(error, 1))
    notes = [_RANGE, *(f"At {load.value:g}: {explained(reason)}." for load, reason in found.refused.items())]
    return Renderables(table, Text("\n".join(notes), style="dim"))


def configuration_text(engine: str, found: Configuration | NoConfiguration | Missing) -> RenderableType:
    """Return the schedule by batch size as the engine takes it, or why there is none."""
    title = Text(f"Configuration for {engine}, by the running batch", style="bold")
    if not isinstance(found, Configuration):
        why = configuration_reason(found)
        return Renderables(title, Text(f"None: {why}."))
    use, limits = f"To use it, {found.use}", f"To be known: {'; '.join(found.limits)}."
    return Renderables(
        title, Text(spelled(f"{found.file_name}: {found.text.rstrip()}")), Text(use), Text(limits, style="dim")
    )


def configuration_reason(found: NoConfiguration | Missing) -> str:
    """Return why there is no configuration, in a clause."""
    if isinstance(found, NoConfiguration):
        return printable(found.reason, 400)
    if found is Missing.NO_COUNTERS:
        return "it is not known how many requests ran at a time: the server's gauge was not read"
    return "no draft length could be chosen at any load"
