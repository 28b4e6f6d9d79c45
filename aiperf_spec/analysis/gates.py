"""Gates: conditions that a run has to meet, for CI.

    METRIC [.STATISTIC] [ [CATEGORY] ]  OP  NUMBER | true | false | base | NUMBER * base | best | NUMBER * best

OP is one of >= <= > < == !=. `base` is the same figure of the base run, `best` that of the best candidate.
"""

import math
import operator
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from aiperf_spec.analysis.figure_names import FigureName, resolve
from aiperf_spec.analysis.gate_figures import Figures
from aiperf_spec.analysis.intervals import Estimate, missing
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.errors import ConfigError

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}
_GATE = re.compile(
    r"\s*(?P<metric>[A-Za-z](?:[\w ,/()%-]|\.(?= ))*?)\s*"
    r"(?:\.(?P<statistic>[A-Za-z0-9_]+))?"
    r"(?:\[(?P<category>[^\]]+)\])?"
    r"(?:\.(?P<after>[A-Za-z0-9_]+))?"
    r"\s*(?P<operator>>=|<=|==|!=|>|<)"
    r"\s*(?P<bound>.+?)\s*"
)
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RELATIVE = re.compile(rf"(?:(?P<before>{_NUMBER})\s*\*\s*)?(?P<of>base|best)(?:\s*\*\s*(?P<after>{_NUMBER}))?")
_SHAPE = "write it as METRIC >= NUMBER, for example 'acceptance_length >= 2.1' or 'request_latency.p99 <= 0.9 * base'"


class Reference(StrEnum):
    """The run that a gate refers to."""

    BASE = "base"
    BEST = "best"


@dataclass(slots=True, frozen=True)
class Gate:
    """One condition. `bound` is a number, or a truth value of a flag, or the factor of another run's figure."""

    expression: str
    name: FigureName
    operator: str
    bound: float | bool
    relative: Reference | None = None
    """The run of which `bound` is a factor."""


@dataclass(slots=True, frozen=True)
class GateResult:
    """A gate and how it ended.

    `figure` holds the value and its interval; `flag` a truth value instead. `threshold` is the number that the value
    was held against; under --strict, `apart` of a relative gate is the figure less its threshold. `reason` says why a
    gate could not be met for want of a value, or, under --strict, of an interval; None where it was judged.
    """

    gate: Gate
    passed: bool
    figure: Estimate
    threshold: float | None = None
    flag: bool | None = None
    reason: Missing | None = None
    apart: Estimate | None = None
    categories: Sequence[str] = ()
    """Those of the run, where the gate names another."""


def parse_gate(expression: str, option: str = "--require") -> Gate:
    """Return the gate that an expression means; raise `ConfigError` naming it, its option and what would be right."""
    try:
        return _parse(expression)
    except ConfigError as error:
        raise ConfigError(f"{option} {expression!r}: {error.message}", error.remedy) from None


def _parse(expression: str) -> Gate:
    match = _GATE.fullmatch(expression)
    if match is None:
        raise ConfigError("not a condition", _SHAPE)
    if match["statistic"] and match["after"]:
        raise ConfigError("two statistics", _SHAPE)
    name = resolve(match["metric"], match["statistic"] or match["after"], match["category"])
    text, sign = match["bound"], match["operator"]
    if text in ("true", "false"):
        if not name.is_flag:
            raise ConfigError(f"{match['metric']} is a number, not true or false", _SHAPE)
        if sign not in ("==", "!="):
            raise ConfigError(f"true and false have no order, so {sign} means nothing", "compare with == or !=")
        return Gate(expression, name, sign, text == "true")
    if name.is_flag:
        raise ConfigError(f"{match['metric']} is true or false, not a number", f"write '{match['metric']} == true'")
    if (relative := _RELATIVE.fullmatch(text)) is not None:
        if relative["before"] and relative["after"]:
            raise ConfigError(f"two factors of {relative['of']}", _SHAPE)
        factor = float(relative["before"] or relative["after"] or 1)
        return Gate(expression, name, sign, factor, Reference(relative["of"]))
    if re.fullmatch(_NUMBER, text) is None or not math.isfinite(float(text)):
        raise ConfigError(f"{text!r} is neither a number, true, false, base nor best", _SHAPE)
    return Gate(expression, name, sign, float(text))


def expect_references(gates: Sequence[Gate], known: Container[Reference]) -> None:
    """Raise `ConfigError` naming the first gate that asks for the base run or the best one, where there is none."""
    for gate in gates:
        if gate.relative is Reference.BASE and gate.relative not in known:
            raise ConfigError(f"--require {gate.expression!r}: which run is base?", "give its folder with --base DIR")
        if gate.relative is Reference.BEST and gate.relative not in known:
            raise ConfigError(
                f"--require {gate.expression!r}: best is the best of several candidates, and there are not several",
                "compare BASE CANDIDATE CANDIDATE... takes this gate",
            )


def evaluate(
    expressions: Sequence[str | Gate],
    figures: Figures,
    base: Figures | None = None,
    *,
    best: Figures | None = None,
    strict: bool = False,
) -> list[GateResult]:
    """Return each gate's outcome over a run's figures, in order; raise `ConfigError` for a wrong expression.

    A figure without a value fails its gate. Under `strict` the end of the interval that is nearer to failing has to
    pass too (the lower one for >=, whether or not there is an upper one); of a relative gate it is the interval of the
    difference to factor * base (or best), paired where prompts match; the best itself is judged by its value. A figure
    that has no interval by its nature (one number a run, a flag) is judged by its value too; one whose interval is
    missing because n is too small, or because nothing scatters, fails.
    """
    gates = [parse_gate(each) if isinstance(each, str) else each for each in expressions]
    given = {Reference.BASE: base, Reference.BEST: best}
    known = {reference: found for reference, found in given.items() if found is not None}
    expect_references(gates, known)
    return [_judge(gate, figures, known, strict=strict) for gate in gates]


def _judge(gate: Gate, figures: Figures, known: Mapping[Reference, Figures], *, strict: bool) -> GateResult:
    holds = _OPERATORS[gate.operator]
    if gate.name.is_flag:
        flag, empty = figures.flags.get(gate.name.tag), missing(Missing.NO_RECORDS)
        if flag is None:
            return GateResult(gate, False, empty, reason=empty.reason)
        return GateResult(gate, holds(flag, gate.bound), empty, flag=flag)
    figure = figures.find(gate.name)
    unknown = gate.name.category is not None and gate.name.category not in figures.categories
    if unknown and figure.reason is not Missing.COUNTERS_OF_ALL:
        return GateResult(gate, False, figure, reason=Missing.NO_RECORDS, categories=figures.categories)
    if figure.value is None:
        return GateResult(gate, False, figure, reason=figure.reason or Missing.NO_RECORDS)
    threshold: float = gate.bound
    judged, apart = figure, None
    other = None if gate.relative is None else known[gate.relative]
    is_best = gate.relative is Reference.BEST and other is figures
    if other is not None:
        of_other = other.find(gate.name).value
        if of_other is None:
            return GateResult(gate, False, figure, reason=Missing.NOT_IN_BOTH)
        threshold = gate.bound * of_other
        if strict and not is_best:
            apart = figures.difference_from(gate.name, other, gate.bound)
            judged = apart.scaled(1, threshold)
    passed = holds(figure.value, threshold)
    if not strict or is_best or judged.reason is Missing.NO_INTERVAL:
        return GateResult(gate, passed, figure, threshold)
    whole = _whole(gate.operator, judged, threshold)
    reason = judged.reason if whole is None else None
    return GateResult(gate, passed and bool(whole), figure, threshold, reason=reason, apart=apart)


def _whole(sign: str, judged: Estimate, threshold: float) -> bool | None:
    """Say whether the interval meets the gate too; None where an end is missing that the gate uses."""
    low, high = judged.low, judged.high
    needed = [low] if sign in (">=", ">") else [high] if sign in ("<=", "<") else [low, high]
    ends = [end for end in needed if end is not None]
    if len(ends) < len(needed):
        return None
    if len(ends) == 1:
        return _OPERATORS[sign](ends[0], threshold)
    # An interval is never one number: == asks no more than its value, != that the interval keeps clear.
    return sign == "==" or not ends[0] <= threshold <= ends[1]
