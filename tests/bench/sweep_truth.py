"""Print how often a sweep tells what was planted in the simulator: the best k, where each pays, what never does.

    python tests/bench/sweep_truth.py [--seeds 20] [--first 1] [--repeat 1] [--at-once 2] [--folder FOLDER]

For each seed, `spec-profile sweep --serve` measures simulators of which a step costs more with the draft length and
with the batch, and then ones of which drafting costs too much at any load. The truth is that of many such runs, played
in virtual time: the same draws and costs without a network, a clock or a client. About 80 s a seed and repeat.
On a machine that is busy with other things, a cell now and then is measured at less load than was asked for, which
a single repeat cannot tell: give three.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from aiperf_spec.analysis.sweep.sweep import analyse_sweep
from aiperf_spec.artifacts.read.sweep_folder import load_cell
from aiperf_spec.load.cells import load_shortfall
from aiperf_spec.models.sweep import Cell, CellRun, Load, LoadKind
from aiperf_spec.simulator import SimulatorConfig
from aiperf_spec.simulator.drafter import Draw, digest, draw_sequence
from aiperf_spec.simulator.text import CATEGORY_ACCEPTANCE, guess_category
from aiperf_spec.workload.dataset import builtin_prompts

LENGTHS, LOADS = (0, 2, 4), (1, 4, 12, 24)
TOKENS, REQUESTS = 24, 70
PAYS: Mapping[str, float] = {"step_time_ms": 8.0, "draft_time_ms": 0.5, "batch_time_ms": 0.6}
NEVER: Mapping[str, float] = {"step_time_ms": 4.0, "draft_time_ms": 6.0, "batch_time_ms": 0.1}
RUNS = 40
"""Runs in virtual time that make the truth."""


@cache
def draws(k: int, run: int) -> tuple[Draw, ...]:
    """Return what the requests of a run draw."""
    found = []
    prompts = builtin_prompts()
    for index in range(REQUESTS):
        first = CATEGORY_ACCEPTANCE[guess_category(prompts[index % len(prompts)].as_text())]
        seed = digest("truth", run, index % len(prompts))
        found.append(
            draw_sequence(
                seed, first_acceptance=first, draft_length=k, max_tokens=TOKENS, ignore_eos=True, short_drafts=True
            )
        )
    return tuple(found)


def played(config: SimulatorConfig, drawn: Sequence[Draw], concurrency: int) -> tuple[float, int]:
    """Return the decode time of a closed loop's requests, in ms, and their tokens after the first."""
    waiting, running, spent = list(reversed(drawn)), 0, 0.0
    due: list[tuple[float, int, int, float]] = []  # when, a number that tells equals apart, steps left, first token
    number = 0
    for _ in range(min(concurrency, len(waiting))):
        heapq.heappush(due, (config.prefill_time_ms, number, waiting.pop().decode_steps, config.prefill_time_ms))
        number, running = number + 1, running + 1
    while due:
        now, _, steps, first = heapq.heappop(due)
        if steps:
            heapq.heappush(due, (now + config.step_ms(running), number, steps - 1, first))
        else:
            spent, running = spent + now - first, running - 1
            if waiting:
                begins = now + config.prefill_time_ms
                heapq.heappush(due, (begins, number, waiting.pop().decode_steps, begins))
                running += 1
        number += 1
    return spent, sum(draw.completion_tokens - 1 for draw in drawn)


def speed_up(costs: Mapping[str, float], k: int, concurrency: int) -> float:
    """Return the true ratio of pooled inter-token latencies, over k = 0."""
    latencies = []
    for length in (0, k):
        config = SimulatorConfig("vllm", num_spec_tokens=length, **costs)  # type: ignore[arg-type]
        sums = [played(config, draws(length, run), concurrency) for run in range(RUNS)]
        latencies.append(sum(spent for spent, _ in sums) / sum(tokens for _, tokens in sums))
    return latencies[0] / latencies[1]


def crossing(costs: Mapping[str, float], k: int) -> float | None:
    """Return the load at which the true speed-up passes 1; None where it does not within `LOADS`."""
    values = {load: math.log(speed_up(costs, k, load)) for load in range(1, LOADS[-1] + 1)}
    for load in range(2, LOADS[-1] + 1):
        before, after = values[load - 1], values[load]
        if before > 0 >= after:
            return load - 1 + before / (before - after)
    return None


@dataclass(frozen=True)
class Told:
    """What the two sweeps of a seed wrote as `sweep.json`."""

    seed: int
    pays: dict[str, Any]
    never: dict[str, Any]


def swept(seed: int, folder: Path, repeat: int) -> Told:
    """Measure both sweeps of a seed."""
    made = []
    for name, costs, lengths, loads, times in (
        ("pays", PAYS, LENGTHS, LOADS, repeat),
        ("never", NEVER, (0, 2), (1, 8), 1),
    ):
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        program = f"{shlex.quote(sys.executable)} -m aiperf_spec"
        options = " ".join(f"--{cost.replace('_', '-')} {value:g}" for cost, value in costs.items())
        words = shlex.split(
            f"{program} sweep -u http://127.0.0.1:{port} --k {','.join(map(str, lengths))} "
            f"--concurrency {','.join(map(str, loads))} --request-count {REQUESTS} --max-tokens {TOKENS} "
            f"--temperature 0 --extra-inputs ignore_eos:true --random-seed {seed} --settle-time 0.3 --ui none "
            f"--repeat {times}"
        )
        serve = f"exec {program} simulate --port {port} --num-spec-tokens {{k}} --seed {seed} {options}"
        there = folder / f"{name}-{seed}"
        words += ["--serve", serve, "--artifact-dir", str(there)]
        root = Path(__file__).resolve().parents[2]
        done = subprocess.run(words, capture_output=True, text=True, cwd=root, check=False)
        if done.returncode:
            raise RuntimeError(f"{shlex.join(words)}\n{done.stderr}")
        made.append(json.loads((there / "sweep.json").read_text()))
    print(f"seed {seed} measured", file=sys.stderr, flush=True)
    return Told(seed, *made)


def main() -> None:
    """Measure, and print the truth beside what was told."""
    parser = argparse.ArgumentParser()
    for name, default in (("--seeds", 20), ("--first", 1), ("--repeat", 1), ("--at-once", 2)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp())
    truth = {(k, load): speed_up(PAYS, k, load) for k in LENGTHS for load in LOADS}
    crossings = {k: crossing(PAYS, k) for k in LENGTHS if k}
    best = {load: max(LENGTHS, key=lambda k: truth[k, load]) for load in LOADS}
    print("true speed-ups:", {f"k {k} at {load}": round(value, 3) for (k, load), value in truth.items() if k})
    print("true best k:", best, "true crossings:", crossings, flush=True)
    with ThreadPoolExecutor(given.at_once) as pool:
        told = list(
            pool.map(lambda seed: swept(seed, folder, given.repeat), range(given.first, given.first + given.seeds))
        )
    named = wrong = held = crossed = never = spoilt = 0
    errors, widths = [], []
    for each in told:
        for choice in each.pays["best"]:
            load, ties = int(choice["load"]), choice["ties"]
            named += choice["k"] == best[load] and not ties
            wrong += best[load] not in (choice["k"], *ties)
        for payoff in each.pays["pays"]:
            true, found = crossings[payoff["k"]], payoff["crossover"]
            crossed += 1
            low, high = (found or {}).get("low"), (found or {}).get("high")
            right = true is not None and found is not None and (low or 0) <= true <= (high or math.inf)
            held += right
            if not right:
                less = short_cells(folder / f"pays-{each.seed}", given.repeat)
                spoilt += bool(less)
                print(f"seed {each.seed}: k {payoff['k']} told {low} to {high}; cells at less load: {less or 'none'}")
            widths += [high / low] if low and high else []
        never += [payoff["comes_to"] for payoff in each.never["pays"]] == ["never pays here"]
        errors += predicted_errors(folder / f"pays-{each.seed}", given.repeat)
    seeds = len(told)
    print(f"best k: named alone and right {named} of {seeds * len(LOADS)}, wrong {wrong}")
    print(
        f"crossover within its interval: {held} of {crossed} (others beside cells at less load: {spoilt}); "
        f"its ends are {median(widths):.2f} apart (ratio, median)"
    )
    print(f"'never pays here' said: {never} of {seeds}")
    absolute = sorted(map(abs, errors))
    print(f"economy against full measurement: median error {median(absolute):.1%}, largest {absolute[-1]:.1%}")


def cells_of(folder: Path, repeats: int) -> list[CellRun]:
    """Return the cells of a sweep's folder."""
    cells = [
        Cell(k, Load(LoadKind.CONCURRENCY, load), repeat)
        for k in LENGTHS
        for load in LOADS
        for repeat in range(1, repeats + 1)
    ]
    return [load_cell(cell, folder / cell.name) for cell in cells]


def short_cells(folder: Path, repeats: int) -> list[str]:
    """Return the cells in which the client kept less in flight than was asked for, as the sweep says too."""
    return [run.cell.name for run in cells_of(folder, repeats) if load_shortfall(run) is not None]


def predicted_errors(folder: Path, repeats: int) -> list[float]:
    """Return the relative errors of what the economy predicts from k = 0 and the largest k of a sweep's own cells."""
    found = analyse_sweep(cells_of(folder, repeats), economy_lengths=LENGTHS).economy
    assert found is not None
    return [error for each in found.predictions if (error := each.error) is not None]


if __name__ == "__main__":
    main()
