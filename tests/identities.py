"""Say which identities of an acceptance record its numbers break, by arithmetic of the tests' own."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

COUNTS = ("num_accepted_draft_tokens", "num_draft_tokens", "num_spec_steps")
OPTIONAL_COUNTS = ("num_spec_tokens", "completion_tokens")
LONGEST_DRAFT = 10_000
ARRAYS = ("per_step_accepted", "per_step_drafted")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def broken_identities(record: dict[str, Any]) -> set[str]:
    """Return the names of what is wrong with the fields of a record; empty where nothing is."""
    histogram: dict[int, Any] = record["acceptance_histogram"]
    arrays = {name: record[name] for name in ARRAYS if record.get(name) is not None}
    wrong = {name for name in COUNTS if not _is_count(record[name])}
    wrong |= {name for name in OPTIONAL_COUNTS if record.get(name) is not None and not _is_count(record[name])}
    for key, n in histogram.items():
        if not (_is_count(key) and key <= LONGEST_DRAFT and _is_count(n) and n > 0):
            wrong.add("acceptance_histogram")
    if _is_count(record.get("num_spec_tokens")) and record["num_spec_tokens"] > LONGEST_DRAFT:
        wrong.add("num_spec_tokens")
    wrong |= {name for name, steps in arrays.items() if not all(_is_count(count) for count in steps)}
    for name, low, high in (("mean_acceptance_length", 1, math.inf), ("draft_acceptance_rate", 0, 1)):
        figure = record[name]
        if (
            isinstance(figure, bool)
            or not isinstance(figure, int | float)
            or not math.isfinite(figure)
            or not low <= figure <= high
        ):
            wrong.add(name)
    if wrong:
        return wrong  # the sums below are of counts
    accepted, drafted, steps = (record[name] for name in COUNTS)
    if sum(histogram.values()) != steps:
        wrong.add("histogram sums to steps")
    if sum(bucket * count for bucket, count in histogram.items()) != accepted:
        wrong.add("histogram weighs up to accepted")
    if accepted > drafted:
        wrong.add("accepted within proposed")
    if steps == 0 and drafted > 0:
        wrong.add("no drafts without steps")
    bound = record.get("num_spec_tokens")
    most = max(histogram, default=0) if bound is None else bound
    if record["mean_acceptance_length"] > most + 1:
        wrong.add("length within k + 1")
    rate = record["draft_acceptance_rate"]
    # More accepted than proposed leaves no rate that could be right.
    if accepted <= drafted and (rate != 0 if drafted == 0 else abs(rate - accepted / drafted) > 0.005):
        wrong.add("rate of the counts")
    if bound is not None and any(bucket > bound for bucket in histogram):
        wrong.add("buckets within bound")
    per_accepted, per_drafted = (arrays.get(name) for name in ARRAYS)
    if per_accepted is not None:
        if len(per_accepted) != steps or sum(per_accepted) != accepted:
            wrong.add("accepted per step")
        if Counter(per_accepted) != Counter(histogram):
            wrong.add("accepted per step make the histogram")
    if per_drafted is not None:
        if len(per_drafted) != steps or sum(per_drafted) != drafted:
            wrong.add("drafted per step")
        if bound is not None and any(count > bound for count in per_drafted):
            wrong.add("steps within bound")
    if (
        per_accepted is not None
        and per_drafted is not None
        and any(a > d for a, d in zip(per_accepted, per_drafted, strict=False))
    ):
        wrong.add("each step within its draft")
    return wrong
