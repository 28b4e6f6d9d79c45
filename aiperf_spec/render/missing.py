"""Word why a figure or its interval is missing, and intervals themselves."""

from aiperf_spec.adapters.registry import known_engines
from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.render.text import number
from aiperf_spec.render.words import WORDS

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
    return WORDS["missing"][reason] + (f" ({', '.join(options)})" if options else "")


def interval(estimate: Estimate, decimals: int = 2, factor: float = 1.0) -> str:
    """Return "low to high", or the reason in a word or two."""
    if estimate.low is None or estimate.high is None:
        return WORDS["missing, short"].get(estimate.reason or "", "–")
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
