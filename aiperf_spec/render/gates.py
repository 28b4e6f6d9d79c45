"""The outcome of gates."""

from collections.abc import Sequence

from rich.console import Group as Renderables
from rich.console import RenderableType
from rich.text import Text

from aiperf_spec.analysis.gates import GateResult
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.render.layout import table_of
from aiperf_spec.render.missing import explained, figure, interval, signed
from aiperf_spec.render.text import number, printable

_DECIMALS = 4


def gates_table(results: Sequence[GateResult], *, strict: bool = False, title: str = "Gates") -> RenderableType:
    """Return each gate with the value that it was held against, and lines that say what could not be judged."""
    table = table_of(("<gate", "<of", "value", "95 % interval", "bound", "<"), title=title, wraps="gate")
    notes = []
    for result in results:
        outcome = Text("met", style="green") if result.passed else Text("not met", style="bold red")
        value, span = figure(result.figure, _DECIMALS), interval(result.figure, _DECIMALS)
        bound = number(result.threshold, _DECIMALS)
        if result.gate.name.is_flag:
            value = "not known" if result.flag is None else str(result.flag).lower()
            span, bound = "–", str(result.gate.bound).lower()
        elif result.figure.value is None:
            value = "no value"
        table.add_row(Text(printable(result.gate.expression, 120)), _of(result), value, span, bound, outcome)
        if result.apart is not None:
            less = f"{signed(result.apart.value, _DECIMALS)} ({interval(result.apart, _DECIMALS)})"
            notes.append(f"{printable(result.gate.expression, 120)}: value minus bound {less}.")
        if strict and result.figure.reason is Missing.NO_INTERVAL:
            notes.append(f"{printable(result.gate.expression, 120)}: one number per run, judged by its value alone.")
        if result.reason is not None:
            notes.append(f"{printable(result.gate.expression, 120)}: {_why(result)}.")
    if strict:
        notes.append("--strict: the end of the interval that is nearer to failing must pass too.")
    return Renderables(table, Text("\n".join(notes), style="dim")) if notes else table


def _of(result: GateResult) -> str:
    name = result.gate.name
    if name.statistic is not None:
        return "mean" if name.statistic == "avg" else name.statistic
    if name.tag.startswith(("spec_decode_token_weighted", "spec_decode_overall")):
        return "pooled"
    return "run" if name.category is None else "category"


def _why(result: GateResult) -> str:
    if result.gate.name.is_flag:
        return "not known, because the server's counters were not read"
    if result.gate.name.category is not None and result.categories:
        return f"there is no such category; the run has {printable(', '.join(result.categories), 400)}"
    if result.figure.value is None:
        missing = result.figure.reason or result.reason or Missing.NO_RECORDS
        where = "" if result.gate.name.category is None else f" of category {printable(result.gate.name.category, 40)}"
        return f"there is no value{where}: {explained(missing)}"
    if result.reason is Missing.NOT_IN_BOTH:
        return f"the {result.gate.relative} run has no value"
    return f"--strict needs an interval, and there is none: {explained(result.reason or Missing.NO_INTERVAL)}"
