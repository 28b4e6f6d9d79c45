"""What a comparison comes to, in a sentence for each question that is asked of one."""

from collections.abc import Iterator

from aiperf_spec.analysis.comparison.compare import POOLED_LENGTH, Comparison, Row, Verdict
from aiperf_spec.analysis.comparison.pairing import Difference
from aiperf_spec.render.missing import explained, signed
from aiperf_spec.render.text import middle, number

_QUESTIONS = (
    ("Acceptance length", POOLED_LENGTH, ""),
    ("ITL", "inter_token_latency", " ms"),
    ("TTFT", "time_to_first_token", " ms"),
)
_SAID = {Verdict.BETTER: "is better", Verdict.WORSE: "is worse", Verdict.DIFFERENT: "differs, as k alone would make it"}
_IN = {Verdict.BETTER: "better in", Verdict.WORSE: "worse in", Verdict.DIFFERENT: "different in"}


def sentences(comparison: Comparison) -> Iterator[str]:
    """Yield how the candidate's acceptance length, ITL and TTFT compare with the base's, and in which categories."""
    rows = {row.tag: row for row in comparison.rows}
    for label, tag, unit in _QUESTIONS:
        if (row := rows.get(tag)) is not None:
            yield f"{label} {_verdict(row)}: {change_text(row.difference, unit)}{_where(comparison, tag)}."


def _verdict(row: Row) -> str:
    reason = row.difference.estimate.reason
    if row.verdict is Verdict.NOT_JUDGED and reason is not None:
        return f"is not judged ({explained(reason)})"
    return _SAID.get(row.verdict, "shows no difference" if row.verdict is Verdict.NONE_SHOWN else "is not judged")


def change_text(found: Difference, unit: str = "") -> str:
    """Return both figures, and by how many per cent they differ where that is known."""
    text = f"{number(found.base)} to {number(found.candidate)}{unit}"
    return text if found.relative is None else f"{text}, {signed(100 * found.relative, 1)} %"


def _where(comparison: Comparison, tag: str) -> str:
    by_verdict: dict[Verdict, list[str]] = {}
    for name, rows in comparison.categories.items():
        for row in rows:
            if row.tag == tag and row.verdict in _IN:
                by_verdict.setdefault(row.verdict, []).append(middle(name, 20))
    return "".join(f"; {_IN[verdict]} {', '.join(names)}" for verdict, names in by_verdict.items())
