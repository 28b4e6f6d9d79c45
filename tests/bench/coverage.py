"""Print how often 95 % intervals hold the true figure, and how often equal runs get a verdict.

    python tests/bench/coverage.py [--runs 2000] [--pairs 200]

Every run is drawn from a planted truth: prompts differ in how well their drafts are accepted, and repeats of a prompt
share that. Intervals and verdicts are the program's own. A case marked * is one in which too few of the intervals hold
the truth; how many do is a property of the method, and a run that looks so says it (`analysis.cautions`).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from aiperf_spec.analysis.clusters import added_up, length_terms
from aiperf_spec.analysis.comparison.compare import Comparison, Row, Verdict, compare
from aiperf_spec.analysis.comparison.mismatches import Run, side
from aiperf_spec.analysis.comparison.pairing import difference, pair_up
from aiperf_spec.analysis.intervals import Estimate, as_length, percentile_interval, ratio, share_interval
from aiperf_spec.analysis.positions import drafting, tally_all
from aiperf_spec.analysis.report import length, rate
from aiperf_spec.analysis.speed import drafted_share, step_time, tokens_per_decode_step
from aiperf_spec.analysis.whatif import what_if
from aiperf_spec.models.run import RequestRecord
from tests.simulated_runs import K, request, simulated_run, true_length

Columns = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Of every prompt of every run: the logarithm of its steps, less the mean, and the acceptance of its drafts."""

PROMPTS = (5, 8, 12, 20, 60)
POSITIONS = 5
BAND = (0.92, 0.975)
SHIFT = 0.02
_TRUTH = 4_000_000


@dataclass(slots=True, frozen=True)
class Case:
    """Runs of one kind. `draw(generator, shape)` gives the prompts; each is sent `repeats` times."""

    name: str
    draw: Callable[[np.random.Generator, tuple[int, int]], Columns]
    prompts: Sequence[int] = PROMPTS
    repeats: int = 1
    in_band: bool = True


def _acceptance(generator: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    return generator.beta(4, 3, size=shape)


def _uniform(generator: np.random.Generator, shape: tuple[int, int]) -> Columns:
    return np.log(generator.uniform(0.3, 1.7, size=shape)), _acceptance(generator, shape)


def _log_normal(sigma: float) -> Callable[[np.random.Generator, tuple[int, int]], Columns]:
    return lambda generator, shape: (generator.normal(0, sigma, size=shape), _acceptance(generator, shape))


def _long_is_better(generator: np.random.Generator, shape: tuple[int, int]) -> Columns:
    log_length = generator.normal(0, 1.0, size=shape)
    logit = 0.7 * log_length + generator.normal(0, 0.4, size=shape)
    return log_length, 1 / (1 + np.exp(-logit))


def _rare(generator: np.random.Generator, shape: tuple[int, int]) -> Columns:
    return np.log(generator.uniform(0.3, 1.7, size=shape)), np.full(shape, 0.005)


CASES = (
    Case("uniform lengths", _uniform),
    Case("log-normal lengths, sigma 1.0", _log_normal(1.0)),
    Case("log-normal lengths, sigma 1.5", _log_normal(1.5)),
    Case("8 prompts x 2", _uniform, (8,), 2),
    Case("10 prompts x 6", _uniform, (10,), 6),
    Case("20 prompts x 10", _uniform, (20,), 10),
    Case("long responses accepted better", _long_is_better, in_band=False),
    Case("rare acceptance", _rare, in_band=False),
)
_MEAN_STEPS = 30


def _steps(log_length: NDArray[np.float64]) -> NDArray[np.int64]:
    steps: NDArray[np.int64] = np.maximum(1, np.rint(_MEAN_STEPS * np.exp(log_length))).astype(np.int64)
    return steps


@cache
def _true_length(case: Case) -> float:
    log_length, acceptance = case.draw(np.random.default_rng(0), (1, _TRUTH))
    steps = _steps(log_length)
    accepted = sum(acceptance**position for position in range(1, POSITIONS + 1))
    return float(1 + (steps * accepted).sum() / steps.sum())


def lengths(case: Case, prompts: int, runs: int) -> Iterator[Estimate]:
    """Yield the pooled length of each run, by the program."""
    generator = np.random.default_rng(prompts)
    log_length, acceptance = case.draw(generator, (runs, prompts))
    steps = _steps(log_length)[:, :, None].repeat(case.repeats, axis=2)
    reached, accepted = steps, np.zeros_like(steps)
    for _ in range(POSITIONS):
        reached = generator.binomial(reached, acceptance[:, :, None])
        accepted += reached
    keys = np.arange(prompts).repeat(case.repeats).tolist()
    for a, b in zip(accepted.reshape(runs, -1).tolist(), steps.reshape(runs, -1).tolist(), strict=True):
        yield as_length(ratio(added_up(keys, zip(a, b, strict=True))))


def held(case: Case, prompts: int, runs: int) -> float:
    """Return the share of runs whose interval holds the true length; one that gives none does not."""
    truth = _true_length(case)
    return sum(_holds(estimate, truth) for estimate in lengths(case, prompts, runs)) / runs


def _holds(estimate: Estimate, truth: float) -> bool:
    return estimate.low is not None and estimate.high is not None and estimate.low <= truth <= estimate.high


def percentiles_held(runs: int, prompts: int, turns: int, q: float, alike: float) -> float:
    """Return the share of runs whose interval holds the percentile, of those that give one.

    Values are normal; `alike` is the share of their variance that turns of one prompt have in common.
    """
    generator = np.random.default_rng(round(q))
    common = generator.normal(size=(runs, prompts, 1)) * alike**0.5
    values = (common + generator.normal(size=(runs, prompts, turns)) * (1 - alike) ** 0.5).reshape(runs, -1)
    truth = float(np.quantile(np.random.default_rng(0).normal(size=_TRUTH), q / 100))
    keys = np.arange(prompts).repeat(turns).tolist()
    found = [percentile_interval(row, keys, q, 0.0) for row in values.tolist()]
    given = [estimate for estimate in found if estimate.has_interval]
    return sum(_holds(estimate, truth) for estimate in given) / max(len(given), 1)


def shares_held(runs: int, prompts: int, repeats: int) -> float:
    """Return the share of runs whose interval holds the share of requests that fail: 0.1 on average, by prompt."""
    generator = np.random.default_rng(1)
    own = generator.beta(1, 9, size=(runs, prompts))
    hits = generator.binomial(repeats, own)
    found = (share_interval((hit, repeats) for hit in row) for row in hits.tolist())
    return sum(_holds(estimate, 0.1) for estimate in found) / runs


def _undrafted(random: Random, index: int, tokens: int) -> tuple[RequestRecord, tuple[int, int, int, float]]:
    """Return a response whose drafter often found nothing, and its true accepted, verify and decode steps and ms.

    Its last step is cut at the limit of tokens, which hides steps without a draft from who counts tokens.
    """
    probability, share = random.betavariate(4, 3), random.betavariate(3, 3)
    accepted: list[int] = []
    steps, left = 0, tokens - 1
    while left > 0:
        steps, left = steps + 1, left - 1
        if random.random() < share:
            accepted.append(_leading(random, probability))
            left -= accepted[-1]
    given = sum(accepted) + len(accepted)
    record = request(index, tuple(accepted), undrafted=tokens - 1 - given)
    ms = steps * random.uniform(27, 33)
    record.first_content_ns, record.last_content_ns = 0, round(ms * 1_000_000)
    record.finish_reason = "length"
    return record, (sum(accepted), len(accepted), steps, ms)


def undrafted_held(runs: int, prompts: int, tokens: int = 96) -> dict[str, float]:
    """Return the share of runs in which intervals over decode steps hold the true figure, where many had no draft."""
    figures: dict[str, tuple[Callable[[Sequence[RequestRecord]], Estimate], Callable[..., float]]] = {
        "tokens per decode step": (tokens_per_decode_step, lambda a, v, d, ms: 1 + a / d),
        "drafted share": (drafted_share, lambda a, v, d, ms: v / d),
        "time per decode step": (step_time, lambda a, v, d, ms: ms / d),
    }
    random = Random(f"truth {tokens}")
    sums = [sum(column) for column in zip(*(_undrafted(random, 0, tokens)[1] for _ in range(20_000)), strict=True)]
    hits = dict.fromkeys(figures, 0)
    for seed in range(runs):
        random = Random(f"{seed} {prompts}")
        run = [_undrafted(random, index, tokens)[0] for index in range(prompts)]
        for name, (figure, true) in figures.items():
            hits[name] += _holds(figure(run), true(*sums))
    return {name: count / runs for name, count in hits.items()}


def covered(runs: int, requests: int) -> dict[str, float]:
    """Return the share of runs in which each kind of interval holds the true figure, over whole records."""
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
            hits[name] = hits.get(name, 0) + _holds(interval, truths[name])
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


def equal_run(seed: int, draws: int, *, prompts: int, repeats: int, categories: int = 1) -> list[RequestRecord]:
    """Return a run of the prompts of `seed`; `draws` seeds what was accepted, and how fast the server was that day."""
    planted, random = Random(seed), Random(f"{seed}-{draws}")
    speed = random.lognormvariate(0, 0.1)
    records: list[RequestRecord] = []
    for prompt in range(prompts):
        probability, steps = planted.betavariate(4, 3), planted.randint(10, 40)
        for _ in range(repeats):
            accepted = tuple(_leading(random, probability) for _ in range(steps))
            record = request(len(records), accepted, per_step=False, prompt=f"{seed}-{prompt}")
            scale = speed * random.lognormvariate(0, 0.05)
            records.append(
                replace(
                    record,
                    category=f"category {prompt % categories}",
                    first_content_ns=round((record.first_content_ns or 0) * scale),
                    last_content_ns=round((record.last_content_ns or 0) * scale),
                    end_ns=round(record.end_ns * scale),
                )
            )
    return records


def _leading(random: Random, probability: float) -> int:
    count = 0
    while count < K and random.random() < probability:
        count += 1
    return count


def _compared(base: list[list[RequestRecord]], candidate: list[list[RequestRecord]]) -> Comparison:
    sides = [side([Run("run", records) for records in runs]) for runs in (base, candidate)]
    return compare(sides[0], [sides[1]]).comparisons[0]


def _verdict(rows: Sequence[Row]) -> bool:
    return any(row.verdict not in (Verdict.NONE_SHOWN, Verdict.NOT_JUDGED) for row in rows)


def false_verdicts(pairs: int) -> dict[str, float]:
    """Return the share of pairs of equal runs in which any figure of a family gets a verdict."""
    found = dict.fromkeys(("paired, 11 prompts x 6", "by category", "unpaired", "3 runs a side"), 0)
    for seed in range(pairs):
        few = {"prompts": 11, "repeats": 6}
        paired = _compared([equal_run(seed, 0, **few)], [equal_run(seed, 1, **few)])
        found["paired, 11 prompts x 6"] += _verdict(paired.rows)
        many = {"prompts": 36, "repeats": 2, "categories": 4}
        grouped = _compared([equal_run(seed, 0, **many)], [equal_run(seed, 1, **many)])
        found["by category"] += any(_verdict(rows) for rows in grouped.categories.values())
        other = _compared([equal_run(seed, 0, **many)], [equal_run(seed + 1_000_000, 1, **many)])
        found["unpaired"] += _verdict([*other.rows, *(row for rows in other.categories.values() for row in rows)])
        runs = [equal_run(seed, draws, prompts=8, repeats=1) for draws in range(6)]
        found["3 runs a side"] += _verdict(_compared(runs[:3], runs[3:]).rows)
    return {name: count / pairs for name, count in found.items()}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=200)
    options = parser.parse_args()
    started = time.perf_counter()
    print(f"{options.runs} runs a case: percent of the 95 % intervals of the pooled length that hold the true one")
    print(f"{'case':32}" + "".join(f"{f'n {n}':>8}" for n in PROMPTS))
    for case in CASES:
        cells = [f"{100 * held(case, n, options.runs):8.1f}" if n in case.prompts else " " * 8 for n in PROMPTS]
        others = [f"  n {n}: {100 * held(case, n, options.runs):.1f}" for n in case.prompts if n not in PROMPTS]
        print(f"{case.name + ('' if case.in_band else ' *'):32}{''.join(cells)}{''.join(others)}")
    for prompts, turns, q, alike in ((20, 5, 50, 0.5), (20, 5, 90, 0.5), (60, 3, 90, 0.5), (200, 5, 99, 0.3)):
        share = percentiles_held(options.runs, prompts, turns, q, alike)
        print(f"p{q} of {prompts} conversations x {turns} turns: {100 * share:.1f}")
    for prompts, repeats in ((20, 10), (60, 1)):
        print(f"error share, {prompts} prompts x {repeats}: {100 * shares_held(options.runs, prompts, repeats):.1f}")
    for prompts in (8, 20, 60):
        for name, share in undrafted_held(options.runs, prompts).items():
            print(f"steps without a draft, {name}, {prompts} prompts: {100 * share:.1f}")
    for name, share in covered(options.runs // 2, 60).items():
        print(f"{name}, 60 prompts: {100 * share:.1f}")
    print(f"{options.pairs} pairs of equal runs: percent with a verdict")
    for name, share in false_verdicts(options.pairs).items():
        print(f"  {name:32}{100 * share:8.1f}")
    print(f"({time.perf_counter() - started:.0f} s)")


if __name__ == "__main__":
    main()
