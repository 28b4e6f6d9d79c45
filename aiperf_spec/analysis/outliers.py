"""Single requests: the worst ones, and whether long prompts are accepted worse."""

from __future__ import annotations

import math
from array import array
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter

from aiperf_spec.analysis.clusters import Terms, clustered, length_terms
from aiperf_spec.analysis.intervals import MIN_CLUSTERS, Estimate, as_length, missing, ratio
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.statistics import NORMAL_975, spearman
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

    `correlation` is Spearman's, over requests with at least 10 steps, with Fisher's interval (standard error
    sqrt((1 + r^2 / 2) / (n - 3)) of atanh r, after Bonett and Wright). `quarters` are pooled over all requests with
    steps, by quarter of prompt length; equal lengths are never parted.
    """

    correlation: Estimate
    quarters: tuple[LengthQuarter, ...]


def outliers(records: Sequence[RequestRecord], worst: int) -> Outliers:
    """Return the `worst` requests by mean acceptance length among those with enough steps; repeats are left out."""
    reports = sum(1 for record in records if record.acceptance is not None)
    enough = [record for record in records if record.acceptance and record.acceptance.num_spec_steps >= MIN_STEPS]
    of_prompts: dict[Hashable, RequestRecord] = {}
    for record in sorted(enough, key=attrgetter("acceptance.mean_acceptance_length", "index")):
        of_prompts.setdefault((record.prompt_id or record.index, record.turn_index), record)
    chosen = tuple(
        Outlier(
            index=record.index,
            prompt_id=record.prompt_id,
            turn_index=record.turn_index,
            category=record.category,
            length=report.mean_acceptance_length,
            steps=report.num_spec_steps,
            input_tokens=record.input_tokens,
        )
        for record in islice(of_prompts.values(), worst)
        if (report := record.acceptance) is not None
    )
    return Outliers(chosen, len(enough), reports - len(enough))


def prompt_length(records: Sequence[RequestRecord]) -> PromptLength:
    """Return how acceptance length goes with prompt length."""
    inputs, lengths = array("d"), array("d")
    for record in records:
        report = record.acceptance
        if record.input_tokens is not None and report is not None and report.num_spec_steps >= MIN_STEPS:
            inputs.append(record.input_tokens)
            lengths.append(report.mean_acceptance_length)
    return PromptLength(_correlation(inputs, lengths), _quarters(records))


def _correlation(xs: array[float], ys: array[float]) -> Estimate:
    n = len(xs)
    if n < MIN_CLUSTERS:
        return missing(Missing.TOO_FEW, n=n)
    r = spearman(xs, ys)
    if r is None:
        return missing(Missing.NO_RECORDS, n=n)  # one of the two is the same everywhere
    if abs(r) > 1 - 1e-12:
        return Estimate(r, r, r, n)
    reach = NORMAL_975 * math.sqrt((1 + r * r / 2) / (n - 3))
    return Estimate(r, math.tanh(math.atanh(r) - reach), math.tanh(math.atanh(r) + reach), n)


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
