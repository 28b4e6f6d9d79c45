"""Print how often a course of equal checkpoints gets a verdict, and how often a planted order is found.

    python tests/bench/courses.py [--courses 100]

A course is a base and six checkpoints over the same prompts, whose steps are drawn anew for each. Some checkpoints also
wobble: each prompt is accepted better or worse than the shift says, as when weights differ and skill does not. A false
alarm is a course in which any checkpoint is called better or worse than the base or the best. The program draws all
verdicts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from aiperf_spec.analysis.comparison.compare import Verdict
from aiperf_spec.analysis.comparison.course import Candidate, Course, course
from aiperf_spec.analysis.comparison.mismatches import Run, RunSettings
from tests.simulated_runs import simulated_run

CHECKPOINTS = 6
SETTINGS = RunSettings(model="m", endpoint="chat", prompts="prompts.jsonl", sampling={"temperature": 0})
EQUAL = ((5, 0.0), (12, 0.0), (35, 0.0), (100, 0.0), (12, 0.1), (35, 0.1))
"""Prompts, and how far checkpoints wobble."""
PLANTED = (-0.10, -0.06, -0.02, 0.02, 0.06, 0.10)
"""What each checkpoint adds to the probability that a draft token is accepted: training goes on."""
OVERTRAINED = (-0.10, -0.04, 0.02, 0.08, 0.02, -0.04)
PROMPTS = (12, 35, 100, 300)


def drawn(seed: int, prompts: int, shifts: Sequence[float], wobble: float = 0.0) -> Course:
    """Return a course of checkpoints with these shifts, by the program; the base has none."""
    base = Run("base", simulated_run(seed, prompts), SETTINGS)
    return course(
        base,
        [
            Candidate(
                Run(f"at {step}", simulated_run(seed, prompts, shift=shift, noise=step, wobble=wobble), SETTINGS),
                str(1000 * step),
            )
            for step, shift in enumerate(shifts, 1)
        ],
        "step",
    )


def has_verdict(found: Course) -> bool:
    """Say whether any checkpoint is called better or worse."""
    against = (each for point in found.checkpoints for each in (point.against_base, point.against_best))
    return any(each is not None and each.verdict in (Verdict.BETTER, Verdict.WORSE) for each in against)


def false_alarms(courses: int, prompts: int, wobble: float = 0.0) -> int:
    """Return how many courses without change get a verdict."""
    return sum(has_verdict(drawn(seed, prompts, [0.0] * CHECKPOINTS, wobble)) for seed in range(courses))


def lost(found: Course, shifts: Sequence[float]) -> bool:
    """Say whether the checkpoint that was planted as the best is called worse than another."""
    planted = found.checkpoints[max(range(len(shifts)), key=lambda i: shifts[i])]
    return planted.against_best is not None and not planted.is_tied


def in_order(found: Course, shifts: Sequence[float]) -> bool:
    """Say whether lengths rise as the shifts do; equal shifts have no order."""
    lengths = [each.length.value or 0.0 for each in found.checkpoints]
    ranked = sorted(zip(shifts, lengths, strict=True))
    return all(a[1] < b[1] for a, b in pairwise(ranked) if a[0] < b[0])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--courses", type=int, default=100)
    courses = parser.parse_args().courses
    print(f"Courses of {CHECKPOINTS} equal checkpoints, {courses} each")
    print("prompts  wobble  false alarms")
    for prompts, wobble in EQUAL:
        print(f"{prompts:7}  {wobble:6}  {false_alarms(courses, prompts, wobble):12}", flush=True)
    for name, shifts in (("planted to rise", PLANTED), ("planted to rise and fall", OVERTRAINED)):
        print(f"\nCourses {name}, {courses} each: {', '.join(map(str, shifts))}")
        print("prompts  best found  best lost  in order  alone  shown worse than best (mean of 5)")
        best = max(range(len(shifts)), key=lambda i: shifts[i])
        for prompts in PROMPTS:
            found = [drawn(seed, prompts, shifts) for seed in range(courses)]
            right = sum(each.best == best for each in found)
            gone = sum(lost(each, shifts) for each in found)
            ordered = sum(in_order(each, shifts) for each in found)
            ties = [sum(point.is_tied for point in each.checkpoints) for each in found]
            worse = CHECKPOINTS - 1 - sum(ties) / courses
            print(f"{prompts:7}  {right:10}  {gone:9}  {ordered:8}  {ties.count(0):5}  {worse:.2f}", flush=True)


if __name__ == "__main__":
    main()
