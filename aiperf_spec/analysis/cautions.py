"""Whether a run is of the kind whose intervals hold the truth less often than they say."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from aiperf_spec.analysis.clusters import Terms, clustered, prompt_of
from aiperf_spec.analysis.intervals import MIN_CLUSTERS, effective_number, rank_correlation
from aiperf_spec.analysis.statistics import spearman
from aiperf_spec.models.run import RequestRecord

LARGE_SHARE = 0.2
"""Of the verify steps that one prompt may hold before its figure passes for the run's."""
_FEW_TOKENS = 10
_UNEVEN = 0.75
_STRONG = 0.5


class CautionKind(StrEnum):
    """Name what makes intervals worth less; `tests/bench/coverage.py` prints how much less."""

    ONE_PROMPT = "one_prompt_dominates"
    """`value` is its share of the verify steps."""
    LONG_ACCEPTED_BETTER = "long_responses_accepted_better"
    """`value` is the rank correlation of prompts' steps and acceptance lengths."""
    FEW_ACCEPTED = "few_accepted"
    """`value` is the number of accepted draft tokens."""
    FEW_REJECTED = "few_rejected"
    """`value` is the number of rejected draft tokens."""


@dataclass(slots=True, frozen=True)
class Caution:
    """One reason, and the prompt that it names."""

    kind: CautionKind
    value: float
    prompt_id: str | None = None


def cautions(records: Sequence[RequestRecord]) -> tuple[Caution, ...]:
    """Return what makes the intervals of a run's pooled figures worth less than 95 %; nothing below 5 prompts."""
    known = [record for record in records if record.acceptance is not None and record.acceptance.num_spec_steps]
    prompts = list(clustered(known, _accepted))
    if len(prompts) < MIN_CLUSTERS:
        return ()
    found = []
    steps = array("d", (b for _, b in prompts))
    total = sum(steps)
    if (largest := max(steps)) > LARGE_SHARE * total:
        # In the order of their first requests, as `clustered` gives them.
        ids = {prompt_of(record): record.prompt_id for record in reversed(known)}
        names = list(dict.fromkeys(map(prompt_of, known)))
        found.append(Caution(CautionKind.ONE_PROMPT, largest / total, ids[names[steps.index(largest)]]))
    lengths = array("d", (a / b for a, b in prompts))
    together = spearman(steps, lengths)
    if together is not None and together >= _STRONG and effective_number(steps) < _UNEVEN * len(steps):
        low = rank_correlation(together, len(steps)).low
        if low is not None and low > 0:
            found.append(Caution(CautionKind.LONG_ACCEPTED_BETTER, together))
    accepted = sum(a for a, _ in prompts)
    rejected = sum(0 if r.acceptance is None else r.acceptance.num_draft_tokens for r in known) - accepted
    for kind, tokens in ((CautionKind.FEW_ACCEPTED, accepted), (CautionKind.FEW_REJECTED, rejected)):
        if 0 < tokens < _FEW_TOKENS:
            found.append(Caution(kind, tokens))
    return tuple(found)


def _accepted(record: RequestRecord) -> Terms | None:
    report = record.acceptance
    return None if report is None else (report.num_accepted_draft_tokens, report.num_spec_steps)
