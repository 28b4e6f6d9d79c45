"""Single requests: the worst ones, and whether long prompts are accepted worse."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nsmallest
from operator import attrgetter

from aiperf_spec.analysis.clusters import Terms, clustered, length_terms, prompt_of
from aiperf_spec.analysis.intervals import MIN_CLUSTERS, Estimate, as_length, missing, rank_correlation, ratio
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.statistics import spearman
from aiperf_spec.models.run import RequestRecord

MIN_STEPS = 10
"""Verify steps that a request needs for its acceptance length to mean something."""
_QUARTERS = 4


@dataclass(slots=True, frozen=True)
class Outlier:
    """One of the requests with the smallest acceptance length."""

    index: int
    prompt_id: str
    turn_index: int
    category: str | None
    length: float
    steps: int
    input_tokens: int | None


@dataclass(slots=True, frozen=True)
class Outliers:
    """The worst requests, worst first, one of each prompt and turn; `left_out` had fewer than 10 verify steps."""

    requests: tuple[Outlier, ...]
    considered: int
    left_out: int

    @property
    def indexes(self) -> frozenset[int]:
        """The indexes of the requests, by which their texts are found."""
        return frozenset(outlier.index for outlier in self.requests)


@dataclass(slots=True, frozen=True)
class LengthQuarter:
    """Acceptance length of the requests whose prompts have `shortest` to `longest` tokens."""

    shortest: int
    longest: int
    length: Estimate


@dataclass(slots=True, frozen=True)
class PromptLength:
    """Acceptance length against prompt length.

    `correlation` is Spearman's, over prompts with at least 10 steps (the mean of their requests' prompt tokens, their
    pooled length). `quarters` are pooled over all requests with steps, by quarter of prompt length; equal lengths are
    never parted.
    """

    correlation: Estimate
    quarters: tuple[LengthQuarter, ...]


def outliers(records: Sequence[RequestRecord], worst: int) -> Outliers:
    """Return the `worst` requests by mean acceptance length among those with enough steps; repeats are left out."""
    reports = sum(1 for record in records if record.acceptance is not None)
    enough = [record for record in records if record.acceptance and record.acceptance.num_spec_steps >= MIN_STEPS]
    order = attrgetter("acceptance.length", "index")
    of_prompts: dict[tuple[str, int], RequestRecord] = {}
    for record in enough:
        key = prompt_of(record), record.turn_index
        of_prompts[key] = min(of_prompts.get(key, record), record, key=order)
    chosen = tuple(
        Outlier(
            index=record.index,
            prompt_id=record.prompt_id,
            turn_index=record.turn_index,
            category=record.category,
            length=length,
            steps=report.num_spec_steps,
            input_tokens=record.input_tokens,
        )
        for record in nsmallest(worst, of_prompts.values(), key=order)
        if (report := record.acceptance) is not None and (length := report.length) is not None
    )
    return Outliers(chosen, len(enough), reports - len(enough))


def prompt_length(records: Sequence[RequestRecord]) -> PromptLength:
    """Return how acceptance length goes with prompt length."""
    known = [record for record in records if record.input_tokens is not None and length_terms(record)]
    tokens = clustered(known, lambda record: (record.input_tokens or 0, 1))
    prompts = zip(tokens, clustered(known, length_terms), strict=True)
    points = [(total / n, a / steps) for (total, n), (a, steps) in prompts if steps >= MIN_STEPS]
    inputs, lengths = (array("d", column) for column in (zip(*points, strict=True) if points else ((), ())))
    return PromptLength(_correlation(inputs, lengths), _quarters(records))


def _correlation(xs: array[float], ys: array[float]) -> Estimate:
    n = len(xs)
    if n < MIN_CLUSTERS:
        return missing(Missing.TOO_FEW, n=n)
    r = spearman(xs, ys)
    # Without one, either of the two is the same everywhere.
    return missing(Missing.NO_RECORDS, n=n) if r is None else rank_correlation(r, n)


def _quarters(records: Sequence[RequestRecord]) -> tuple[LengthQuarter, ...]:
    lengths = sorted(
        tokens for record in records if (tokens := record.input_tokens) is not None and length_terms(record)
    )
    if not lengths:
        return ()
    bounds = sorted({lengths[min(len(lengths) * part // _QUARTERS, len(lengths) - 1)] for part in range(_QUARTERS)})
    quarters = []
    for low, high in zip(bounds, [*bounds[1:], math.inf], strict=True):
        within = [length for length in lengths if low <= length < high]

        def read(record: RequestRecord, low: float = low, high: float = high) -> Terms | None:
            known = record.input_tokens is not None and low <= record.input_tokens < high
            return length_terms(record) if known else None

        quarters.append(LengthQuarter(within[0], within[-1], as_length(ratio(clustered(records, read)))))
    return tuple(quarters)
