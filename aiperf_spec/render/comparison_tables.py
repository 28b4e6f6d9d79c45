"""Runs against a base: what differs, by how much, and whether that is shown."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group as Renderables
from rich.console import RenderableType
from rich.text import Text

from aiperf_spec.analysis.comparison.compare import Comparison, ComparisonSet, Row, Verdict
from aiperf_spec.analysis.comparison.mismatches import Mismatch
from aiperf_spec.analysis.comparison.pairing import Key, Pairing
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.render.answer import setup_parts
from aiperf_spec.render.comparison_sentences import sentences
from aiperf_spec.render.layout import spaced, table_of, titled
from aiperf_spec.render.missing import interval, reasons_said, signed
from aiperf_spec.render.text import middle, number, plural, printable
from aiperf_spec.render.words import worded

_VERDICTS = {
    Verdict.BETTER: ("better", "green"),
    Verdict.WORSE: ("worse", "red"),
    Verdict.DIFFERENT: ("differs", "yellow"),
    Verdict.NONE_SHOWN: ("none shown", "dim"),
    Verdict.NOT_JUDGED: ("–", "dim"),
}
_DROPS = ("95 % interval", "base", "cand.")
_UNMATCHED = 8
"""Prompts without a partner that are named; JSON has all."""


def compare_report(comparisons: ComparisonSet) -> RenderableType:
    """Return every comparison of a set as tables."""
    parts = [part for comparison in comparisons.comparisons for part in _parts(comparison)]
    said = [_said(comparison, several=len(comparisons.comparisons) > 1) for comparison in comparisons.comparisons]
    return Renderables(spaced(parts), Text(method(comparisons), style="dim"), "", *said)


def _said(comparison: Comparison, *, several: bool) -> Text:
    lines = [f"{printable(comparison.candidate, 400)}:"] if several else []
    return Text("\n".join([*lines, *sentences(comparison)]), style="bold")


def comparison_report(comparison: Comparison) -> RenderableType:
    """Return one candidate against the base."""
    return Renderables(*_parts(comparison))


def _parts(comparison: Comparison) -> Iterator[RenderableType]:
    names = (("base       ", comparison.base), ("candidate  ", comparison.candidate))
    sides = [
        Text.assemble((side, "bold"), ", ".join([f"{printable(name, 400)}: {ended}", *setup_parts(setup)]))
        for (side, name), ended, setup in zip(names, comparison.outcomes, comparison.setups, strict=True)
    ]
    lines = [
        *sides,
        *(Text(line) for line in _pairing(comparison.pairing)),
        *(Text.assemble(("misleads: ", "bold yellow"), mismatch_text(mismatch)) for mismatch in comparison.mismatches),
    ]
    yield Renderables(*lines)
    yield rows_table(comparison.rows, "Difference, candidate less base", "Metric")
    tags = dict.fromkeys(row.tag for rows in comparison.categories.values() for row in rows)
    for tag in tags:
        by_category = {name: row for name, rows in comparison.categories.items() for row in rows if row.tag == tag}
        label = _label(next(iter(by_category.values())))
        yield rows_table(by_category.values(), f"{label} by category", "Category", list(by_category))


def verdict_text(verdict: Verdict) -> Text:
    """Return a verdict as it stands in tables."""
    text, style = _VERDICTS[verdict]
    return Text(text, style=style)


def mismatch_text(mismatch: Mismatch) -> str:
    """Return what differs between two runs, and why that misleads."""
    return worded("mismatch", mismatch.kind, {"base": mismatch.base, "candidate": mismatch.candidate})


def _pairing(pairing: Pairing) -> Iterator[str]:
    if not pairing.paired:
        yield f"{plural(len(pairing.pairs), 'pair')} of prompts: too few, so the runs are compared as independent."
    else:
        by = "what was sent" if pairing.by_content else "id"
        yield f"{plural(len(pairing.pairs), 'pair')} of prompts, by {by} and turn."
    for name, keys in (("the base", pairing.base_only), ("the candidate", pairing.candidate_only)):
        if keys:
            outside = " and in no difference" if pairing.paired else ""
            yield f"{plural(len(keys), 'prompt')} in {name} only{outside}: {_names(keys)}"


def _names(keys: Sequence[Key]) -> str:
    shown = [middle(name, 24) + (f" turn {turn}" if turn else "") for name, turn in keys[:_UNMATCHED]]
    return ", ".join(shown) + (f" and {len(keys) - _UNMATCHED} more" if len(keys) > _UNMATCHED else "")


def _label(row: Row) -> str:
    return f"{row.label} ({row.unit})" if row.unit in ("ms", "%", "sec") else row.label


def rows_table(rows: Iterable[Row], title: str, first: str, names: Sequence[str] | None = None) -> RenderableType:
    """Return rows with both values, the difference, its interval and the verdict."""
    table = table_of((f"<{first}", "base", "cand.", "diff.", "%", "95 % interval", "<verdict"), drops=_DROPS)
    reasons = []
    for position, row in enumerate(rows):
        found = row.difference
        if found.estimate.reason not in (None, Missing.NO_RECORDS):
            reasons.append(found.estimate.reason)
        table.add_row(
            Text(middle(_label(row) if names is None else names[position], 22)),
            number(found.base),
            number(found.candidate),
            signed(found.estimate.value),
            signed(None if row.relative is None else 100 * row.relative, 1),
            interval(found.estimate),
            verdict_text(row.verdict),
        )
    return titled(title, table, reasons_said(reasons))


def method(comparisons: ComparisonSet) -> str:
    """Return in words how figures were compared."""
    correction = (
        f"Better, worse and differs mean that p, corrected for {plural(comparisons.tests, 'comparison')} (Holm; the "
        "acceptance length has the weight of all others together), is below 0.05"
        if comparisons.tests
        else "No figure could be judged, or none differs between any two runs"
    )
    return (
        "Differences are between paired prompts where prompts pair. Intervals are 95 %, over prompts, one figure at a "
        f"time. {correction}. None shown means that the data show no difference; there may still be one."
    )
