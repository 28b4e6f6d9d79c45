"""Print how far what-ifs by replay, and by histograms, lie from runs at the shorter draft length, on simulated drafts.

    python tests/bench/what_if.py [--requests 20000] [--runs 1000] [--prompts 60] [--text PART]

Every row is a text and a k' that drafts of k = 6 are asked about. The truth is measured at k' over as many requests of
the same text. `replay` and `histogram` are the errors of one large run at k = 6; `held` is the share of 95 % intervals
of small runs at k = 6 that hold the truth.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from aiperf_spec.analysis.positions import drafting, tally_all
from aiperf_spec.analysis.whatif import DraftLength, what_if
from aiperf_spec.models.run import RequestRecord
from aiperf_spec.simulator.drafter import digest, draw_sequence, uniform
from aiperf_spec.simulator.text import CATEGORY_ACCEPTANCE
from tests.simulated_runs import request

K = 6
SHORTER = (1, 2, 4)


@dataclass(frozen=True)
class Text:
    """Requests of equally many of each acceptance; stretches of easy and hard text where they have a mean length."""

    acceptance: tuple[float, ...]
    stretch_tokens: int | None = None


TEXTS: Mapping[str, Text] = {
    "the simulator's mix": Text(tuple(CATEGORY_ACCEPTANCE.values())),
    "categories of 0.9 and 0.3": Text((0.9, 0.3)),
    "one category, 0.7": Text((0.7,)),
    "stretches of 30 tokens, 0.6": Text((0.6,), 30),
    "stretches of 8 tokens, 0.6": Text((0.6,), 8),
    "mix with stretches of 30": Text(tuple(CATEGORY_ACCEPTANCE.values()), 30),
}


def drawn(text: Text, k: int, requests: int, seed: int, *, per_step: bool = True) -> list[RequestRecord]:
    """Return a run of drafts of k; the same seed gives the same prompts and text at any k."""
    records = []
    for index in range(requests):
        prompt = digest(seed, index)
        first = text.acceptance[int(uniform(prompt) * len(text.acceptance))]
        draw = draw_sequence(
            prompt, first_acceptance=first, draft_length=k, max_tokens=400, stretch_tokens=text.stretch_tokens
        )
        cut = draw.num_accepted + draw.steps + 1 - draw.completion_tokens
        records.append(request(index, draw.accepted, k=k, per_step=per_step, undrafted=-cut))
    return records


def modelled(records: Sequence[RequestRecord]) -> tuple[DraftLength, ...]:
    """Return what shorter drafts would have given."""
    known = drafting([record.acceptance for record in records if record.acceptance is not None])
    return what_if(records, known, tally_all(records, known)).lengths


def length(records: Sequence[RequestRecord]) -> float:
    """Return the acceptance length, from the counts alone."""
    reports = [record.acceptance for record in records if record.acceptance is not None]
    return 1 + sum(report.num_accepted_draft_tokens for report in reports) / sum(r.num_spec_steps for r in reports)


def errors(text: Text, requests: int) -> dict[int, tuple[float, float, float]]:
    """Return the truth at every k', and the relative errors of the replay and of the histograms."""
    by_step, summed = (modelled(drawn(text, K, requests, 1, per_step=per_step)) for per_step in (True, False))
    found = {}
    for k in SHORTER:
        truth = length(drawn(text, k, requests, 1))
        replay, histogram = (each[k - 1].length.value or 0.0 for each in (by_step, summed))
        found[k] = truth, replay / truth - 1, histogram / truth - 1
    return found


def held(text: Text, truths: Mapping[int, float], runs: int, prompts: int) -> dict[int, float]:
    """Return the share of runs whose interval holds the truth, by k'."""
    hits = dict.fromkeys(truths, 0)
    for seed in range(2, runs + 2):
        lengths = modelled(drawn(text, K, prompts, seed))
        for k, truth in truths.items():
            found = lengths[k - 1].length
            hits[k] += (found.low or 0.0) <= truth <= (found.high or 0.0)
    return {k: count / runs for k, count in hits.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--prompts", type=int, default=60)
    parser.add_argument("--text", default="", help="part of the name of the texts to measure; all without it")
    options = parser.parse_args()
    print(f"{'text':28} k'  measured   replay  histogram   held")
    for name, text in TEXTS.items():
        if options.text not in name:
            continue
        found = errors(text, options.requests)
        shares = held(text, {k: truth for k, (truth, _, _) in found.items()}, options.runs, options.prompts)
        for k, (truth, replay, histogram) in found.items():
            print(f"{name:28} {k:2} {truth:9.3f} {replay:+8.2%} {histogram:+10.2%} {shares[k]:6.1%}", flush=True)


if __name__ == "__main__":
    main()
