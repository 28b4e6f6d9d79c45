"""Gates: conditions that a run has to meet, for CI.

    METRIC [.STATISTIC] [ [CATEGORY] ]  OP  NUMBER | true | false | base | NUMBER * base

OP is one of >= <= > < == !=. `base` is the same figure of the base run.
"""

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
_RELATIVE = re.compile(rf"(?:(?P<before>{_NUMBER})\s*\*\s*)?base(?:\s*\*\s*(?P<after>{_NUMBER}))?")
_SHAPE = "write it as METRIC >= NUMBER, for example 'acceptance_length >= 2.1' or 'request_latency.p99 <= 0.9 * base'"


@dataclass(slots=True, frozen=True)
class Gate:
    """One condition. `bound` is a number, or a truth value of a flag, or the factor of `base` where `relative`."""

    expression: str
    name: FigureName
    operator: str
    bound: float | bool
    relative: bool = False


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
            raise ConfigError("two factors of base", _SHAPE)
        return Gate(expression, name, sign, float(relative["before"] or relative["after"] or 1), relative=True)
    if re.fullmatch(_NUMBER, text) is None or not math.isfinite(float(text)):
        raise ConfigError(f"{text!r} is neither a number, true, false nor base", _SHAPE)
    return Gate(expression, name, sign, float(text))


def expect_base(gates: Sequence[Gate]) -> None:
    """Raise `ConfigError` naming the first gate that asks for the base run, where there is none."""
    if (asking := next((gate for gate in gates if gate.relative), None)) is not None:
        raise ConfigError(f"--require {asking.expression!r}: which run is base?", "give its folder with --base DIR")


def evaluate(
    expressions: Sequence[str | Gate], figures: Figures, base: Figures | None = None, *, strict: bool = False
) -> list[GateResult]:
    """Return each gate's outcome over a run's figures, in order; raise `ConfigError` for a wrong expression.

    A figure without a value fails its gate. Under `strict` the end of the interval that is nearer to failing has to
    pass too (the lower one for >=, whether or not there is an upper one); of a relative gate it is the interval of the
    difference to factor * base, paired where prompts match. A figure that has no interval by its nature (one number a
    run, a flag) is judged by its value; one whose interval is missing because n is too small, or because nothing
    scatters, fails.
    """
    gates = [parse_gate(each) if isinstance(each, str) else each for each in expressions]
    if base is None:
        expect_base(gates)
    return [_judge(gate, figures, base, strict=strict) for gate in gates]


def _judge(gate: Gate, figures: Figures, base: Figures | None, *, strict: bool) -> GateResult:
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
    if gate.relative and base is not None:
        of_base = base.find(gate.name).value
        if of_base is None:
            return GateResult(gate, False, figure, reason=Missing.NOT_IN_BOTH)
        threshold = gate.bound * of_base
        if strict:
            apart = figures.difference_from(gate.name, base, gate.bound)
            judged = apart.scaled(1, threshold)
    passed = holds(figure.value, threshold)
    if not strict or judged.reason is Missing.NO_INTERVAL:
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
