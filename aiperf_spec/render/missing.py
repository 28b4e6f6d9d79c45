"""Word why a figure or its interval is missing, and intervals themselves."""

from collections.abc import Iterable

from aiperf_spec.adapters.engines import known_engines
from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.render.text import number
from aiperf_spec.render.words import WORDS

MENDED_BY_CHAIN = frozenset(
    {
        Missing.DRAFT_LENGTH_UNKNOWN,
        Missing.NOT_A_CHAIN,
        Missing.NOT_CHAINS,
        Missing.LOOKS_LIKE_A_TREE,
        Missing.UNKNOWN_DRAFTER,
    }
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


def reasons_said(reasons: Iterable[Missing]) -> list[str]:
    """Return a sentence for each reason, each once."""
    clauses = map(explained, dict.fromkeys(reasons))
    return [f"{clause[0].upper()}{clause[1:]}." for clause in clauses]


def interval(estimate: Estimate, decimals: int = 2, factor: float = 1.0) -> str:
    """Return "low to high", "from low" or "to high" where one end is known, or the reason in a word or two."""
    low, high = (None if end is None else number(factor * end, decimals) for end in (estimate.low, estimate.high))
    if low is not None and high is not None:
        return f"{low} to {high}"
    if low is not None or high is not None:
        return f"from {low}" if low is not None else f"to {high}"
    return WORDS["missing, short"].get(estimate.reason or "", "–")


def figure(estimate: Estimate, decimals: int = 2, factor: float = 1.0) -> str:
    """Return the figure alone; an en dash for none."""
    return number(None if estimate.value is None else factor * estimate.value, decimals)


def signed(value: float | None, decimals: int = 2) -> str:
    """Return a difference with its sign; an en dash for none."""
    if value is None:
        return "–"
    text = number(value, decimals)
    return text if value <= 0 else f"+{text}"
