"""Word why a figure or its interval is missing, and intervals themselves."""

from __future__ import annotations

from aiperf_spec.adapters.registry import known_engines
from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.render.text import number

SHORT = {
    Missing.TOO_FEW: "n too small",
    Missing.TOO_FEW_FOR_RANK: "n too small",
    Missing.NO_RECORDS: "no data",
    Missing.NO_INTERVAL: "one number",
    Missing.NO_TIMES: "no times",
    Missing.NONE_AT_RISK: "none at risk",
    Missing.DIFFERENT_SHAPES: "not compared",
    Missing.NOT_IN_BOTH: "in one run only",
}

_LONG = {
    Missing.TOO_FEW: "fewer than 5 independent requests",
    Missing.TOO_FEW_FOR_RANK: "too few requests for the interval of this percentile",
    Missing.NO_RECORDS: "no successful request has it",
    Missing.NO_INTERVAL: "one number a run has no interval",
    Missing.DRAFT_LENGTH_UNKNOWN: "the engine reports neither the draft length nor what each step proposed",
    Missing.SHORT_DRAFTS: "some steps proposed fewer than k tokens, and the engine does not say which",
    Missing.MIXED_DRAFT_LENGTHS: "requests of this run have different draft lengths",
    Missing.NOT_A_CHAIN: "more was proposed in a step than a chain of k can hold, so the drafter drafts trees",
    Missing.LOOKS_LIKE_A_TREE: "acceptance ends abruptly short of k, as that of a tree does",
    Missing.UNKNOWN_DRAFTER: "whether this engine's drafter drafts chains is not known",
    Missing.NONE_AT_RISK: "no step reached, and proposed, as many tokens",
    Missing.NO_PER_STEP: "the engine reports no figures of single steps",
    Missing.NO_TIMES: "without streaming and token counts there is no time between tokens",
    Missing.DIFFERENT_SHAPES: "rates of drafters that propose differently are not compared",
    Missing.NO_BASELINE: "no baseline was given",
    Missing.NOT_IN_BOTH: "only one of the runs has it",
}

MENDED_BY_CHAIN = frozenset(
    {Missing.DRAFT_LENGTH_UNKNOWN, Missing.NOT_A_CHAIN, Missing.LOOKS_LIKE_A_TREE, Missing.UNKNOWN_DRAFTER}
)
"""Reasons that --assume-chain may lift."""


def explained(reason: Missing) -> str:
    """Return why a figure is missing, in a clause, and which engine can be told to report what it is made of."""
    options = [
        f"{engine.name} does at {engine.per_step_option}"
        for engine in known_engines().values()
        if engine.per_step_option and reason in (Missing.SHORT_DRAFTS, Missing.NO_PER_STEP)
    ]
    return _LONG[reason] + (f" ({', '.join(options)})" if options else "")


def interval(estimate: Estimate, decimals: int = 2, factor: float = 1.0) -> str:
    """Return "low to high", or the reason in a word or two."""
    if estimate.low is None or estimate.high is None:
        return SHORT.get(estimate.reason, "–") if estimate.reason is not None else "–"
    return f"{number(factor * estimate.low, decimals)} to {number(factor * estimate.high, decimals)}"


def figure(estimate: Estimate, decimals: int = 2, factor: float = 1.0) -> str:
    """Return the figure alone; an en dash for none."""
    return number(None if estimate.value is None else factor * estimate.value, decimals)


def signed(value: float | None, decimals: int = 2) -> str:
    """Return a difference with its sign; an en dash for none."""
    if value is None:
        return "–"
    text = number(value, decimals)
    return text if value <= 0 else f"+{text}"
