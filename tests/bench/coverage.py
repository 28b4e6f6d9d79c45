"""Print how often the 95 % intervals hold the true figure, over 1,000 simulated runs.

python tests/bench/coverage.py [RUNS [REQUESTS]]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from aiperf_spec.analysis.clusters import length_terms
from aiperf_spec.analysis.comparison.pairing import difference, pair_up
from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.analysis.positions import drafting, tally_all
from aiperf_spec.analysis.report import length, rate
from aiperf_spec.analysis.whatif import what_if
from tests.simulated_runs import K, simulated_run, true_length

SHIFT = 0.02


def covered(runs: int, requests: int) -> dict[str, float]:
    """Return the share of runs in which each interval holds the true figure."""
    hits: dict[str, int] = {}
    truths = {
        "pooled length": true_length(),
        "pooled rate (%)": 100 * (true_length() - 1) / K,
        "length at k' = 2, modelled": true_length(2),
        "difference of lengths, paired": true_length(shift=SHIFT) - true_length(),
        "difference of lengths, independent": true_length(shift=SHIFT) - true_length(),
    }
    for seed in range(runs):
        for name, interval in _intervals(seed, requests).items():
            assert interval.low is not None
            assert interval.high is not None
            hits[name] = hits.get(name, 0) + (interval.low <= truths[name] <= interval.high)
    return {name: count / runs for name, count in hits.items()}


def _intervals(seed: int, requests: int) -> dict[str, Estimate]:
    run = simulated_run(seed, requests)
    again = simulated_run(seed, requests, shift=SHIFT, noise=1)
    other = simulated_run(seed + 1_000_000, requests, shift=SHIFT)
    known = drafting([record.acceptance for record in run if record.acceptance is not None])
    modelled = what_if(run, known, tally_all(run, known))
    paired, unpaired = pair_up(run, again), pair_up(run, [])
    return {
        "pooled length": length(run),
        "pooled rate (%)": rate(run),
        "length at k' = 2, modelled": modelled.lengths[1].length,
        "difference of lengths, paired": difference(run, again, length_terms, paired).estimate,
        "difference of lengths, independent": difference(run, other, length_terms, unpaired).estimate,
    }


def main() -> None:
    """Print the table."""
    runs, requests = (int(text) for text in (*sys.argv[1:], *("1000", "60")[len(sys.argv) - 1 :]))
    started = time.perf_counter()
    print(f"{runs} simulated runs of {requests} requests: share of 95 % intervals that hold the true figure")
    for name, share in covered(runs, requests).items():
        print(f"  {name:<36} {100 * share:.1f} %")
    print(f"  ({time.perf_counter() - started:.1f} s)")


if __name__ == "__main__":
    main()
