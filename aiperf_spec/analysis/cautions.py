"""Whether a run is of the kind whose intervals hold the truth less often than they say."""

from array import array
from collections.abc import Sequence

from aiperf_spec.analysis.clusters import clustered, length_terms, measured, prompt_of
from aiperf_spec.analysis.intervals import MIN_CLUSTERS, effective_number, rank_correlation
from aiperf_spec.analysis.statistics import spearman
from aiperf_spec.models.run import Notice, NoticeKind, RequestRecord

LARGE_SHARE = 0.2
"""Of the verify steps that one prompt may hold before its figure passes for the run's."""
_FEW_TOKENS = 10
_UNEVEN = 0.75
_STRONG = 0.5


def cautions(records: Sequence[RequestRecord]) -> tuple[Notice, ...]:
    """Return what makes the intervals of a run's pooled figures worth less than 95 %; nothing below 5 prompts.

    `tests/bench/coverage.py` prints how much less.
    """
    known = [record for record in measured(records) if length_terms(record)]
    prompts = list(clustered(known, length_terms))
    if len(prompts) < MIN_CLUSTERS:
        return ()
    found = []
    steps = array("d", (b for _, b in prompts))
    if (share := max(steps) / sum(steps)) > LARGE_SHARE:
        # In the order of their first requests, as `clustered` gives them.
        ids = {prompt_of(record): record.prompt_id for record in reversed(known)}
        largest = list(dict.fromkeys(map(prompt_of, known)))[steps.index(max(steps))]
        found.append(Notice(NoticeKind.ONE_PROMPT, {"prompt": ids[largest], "share": share}))
    together = spearman(steps, array("d", (a / b for a, b in prompts)))
    if together is not None and together >= _STRONG and effective_number(steps) < _UNEVEN * len(steps):
        low = rank_correlation(together, len(steps)).low
        if low is not None and low > 0:
            found.append(Notice(NoticeKind.LONG_ACCEPTED_BETTER, {"correlation": together}))
    accepted = sum(a for a, _ in prompts)
    proposed = sum(record.acceptance.num_draft_tokens for record in known if record.acceptance)
    for happened, tokens in (("accepted", accepted), ("rejected", proposed - accepted)):
        if 0 < tokens < _FEW_TOKENS:
            found.append(Notice(NoticeKind.FEW_TOKENS, {"tokens": round(tokens), "happened": happened}))
    return tuple(found)
