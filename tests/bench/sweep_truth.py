"""Print how often a sweep tells what was planted in the simulator: the best k, where each pays, what never does.

    python tests/bench/sweep_truth.py [--seeds 20] [--first 1] [--repeat 3] [--at-once 10] [--folder FOLDER]
    python tests/bench/sweep_truth.py --virtual [--seeds 200] [--scatter 0.02]

For each seed, `spec-profile sweep --serve` measures simulators of which a step costs more with the draft length and
with the batch, and then ones of which drafting costs too much at any load. The truth is that of many such runs, played
in virtual time: the same draws and costs, without a network, a clock or a client. Steps are long, so that a client on a
busy machine adds little to them: about 20 minutes a seed at three repeats, nearly all of it waiting. On two cores with
little else to do, 20 seeds took 42 minutes, ten at a time. Sweeps that are in FOLDER already are not measured again.
`--virtual` plays the sweeps in virtual time too, with runs that scatter by `--scatter`: it shows what the analysis
does, without the machine.
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
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from random import Random
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from aiperf_spec.analysis.sweep.choices import Trend
from aiperf_spec.analysis.sweep.sweep import SweepAnalysis, analyse_sweep
from aiperf_spec.artifacts.read.sweep_folder import load_cell
from aiperf_spec.models.sweep import Cell, CellRun, Load, LoadKind
from aiperf_spec.simulator import SimulatorConfig
from aiperf_spec.simulator.drafter import Draw, digest, draw_sequence
from aiperf_spec.simulator.text import CATEGORY_ACCEPTANCE, guess_category
from aiperf_spec.workload.dataset import builtin_prompts
from tests.simulated_runs import request
from tests.simulated_sweeps import timed

LENGTHS, LOADS = (0, 2, 4), (2, 4, 10, 24)
TOKENS, REQUESTS = 64, 70
PAYS: Mapping[str, float] = {"step_time_ms": 24.0, "draft_time_ms": 1.5, "batch_time_ms": 1.8}
NEVER: Mapping[str, float] = {"step_time_ms": 12.0, "draft_time_ms": 18.0, "batch_time_ms": 0.3}
NEVER_LENGTHS, NEVER_LOADS, NEVER_REQUESTS = (0, 2), (2, 8), 40
RUNS = 40
"""Runs in virtual time that make the truth."""


@cache
def prompts() -> tuple[str, ...]:
    """Return a prompt for each request: no two are alike, so that each draws for itself."""
    given = [prompt.as_text() for prompt in builtin_prompts()]
    return tuple(f"{given[i % len(given)]} ({i // len(given) + 1})" for i in range(REQUESTS))


@cache
def draws(k: int, run: int) -> tuple[Draw, ...]:
    """Return what the requests of a run draw."""
    found = []
    for index, prompt in enumerate(prompts()):
        first = CATEGORY_ACCEPTANCE[guess_category(prompt)]
        seed = digest("truth", run, index)
        found.append(
            draw_sequence(
                seed, first_acceptance=first, draft_length=k, max_tokens=TOKENS, ignore_eos=True, short_drafts=True
            )
        )
    return tuple(found)


def played(config: SimulatorConfig, drawn: Sequence[Draw], concurrency: int) -> list[tuple[float, float, float]]:
    """Return when each request of a closed loop starts, has its first and its last token, in ms."""
    times = [(0.0, 0.0, 0.0)] * len(drawn)
    due: list[tuple[float, int, int]] = []  # when, which request, decode steps left
    begun = 0

    def begin(now: float) -> None:
        nonlocal begun
        if begun < len(drawn):
            first = now + config.prefill_time_ms
            times[begun] = now, first, first
            heapq.heappush(due, (first, begun, drawn[begun].decode_steps))
            begun += 1

    for _ in range(concurrency):
        begin(0.0)
    while due:
        now, index, steps = heapq.heappop(due)
        if steps:
            # As many run as are due, and this one.
            heapq.heappush(due, (now + config.step_ms(len(due) + 1), index, steps - 1))
        else:
            times[index] = (*times[index][:2], now)
            begin(now)
    return times


def simulator(costs: Mapping[str, float], k: int) -> SimulatorConfig:
    """Return the simulator of a draft length."""
    return SimulatorConfig("vllm", num_spec_tokens=k, **costs)  # type: ignore[arg-type]


@cache
def latency(k: int, concurrency: int) -> float:
    """Return the true pooled inter-token latency where speculation pays at some loads, in ms."""
    spent = tokens = 0.0
    for run in range(RUNS):
        drawn = draws(k, run)
        spent += sum(last - first for _, first, last in played(simulator(PAYS, k), drawn, concurrency))
        tokens += sum(draw.completion_tokens - 1 for draw in drawn)
    return spent / tokens


def speed_up(k: int, concurrency: int) -> float:
    """Return the true ratio of pooled inter-token latencies, over k = 0."""
    return latency(0, concurrency) / latency(k, concurrency)


def crossing(k: int) -> float | None:
    """Return the load at which the true speed-up passes 1; None where it does not within `LOADS`."""
    for load in range(LOADS[0] + 1, LOADS[-1] + 1):
        before, after = (math.log(speed_up(k, at)) for at in (load - 1, load))
        if before > 0 >= after:
            return load - 1 + before / (before - after)
    return None


def virtual_sweep(
    seed: int, costs: Mapping[str, float], lengths: Sequence[int], loads: Sequence[int], repeats: int, scatter: float
) -> list[CellRun]:
    """Return the cells of a sweep that is played: each run is as a whole slower or quicker by `scatter`."""
    slowness = Random(f"slowness {seed}")
    cells = []
    for repeat in range(1, repeats + 1):
        for k in lengths:
            for load in loads:
                slow = math.exp(slowness.gauss(0.0, scatter))
                config, drawn = simulator(costs, k), draws(k, -seed)
                records = []
                for index, (draw, times) in enumerate(zip(drawn, played(config, drawn, load), strict=True)):
                    record = timed(index, 1.0, tokens=draw.completion_tokens)
                    if k:
                        record = request(index, draw.accepted, drafted=draw.drafted, k=k, undrafted=len(draw.undrafted))
                    if record.acceptance is not None:
                        record.acceptance = replace(record.acceptance, completion_tokens=draw.completion_tokens)
                    record.prompt_hash, record.output_tokens = prompts()[index], draw.completion_tokens
                    start, first, last = (round(1e6 * slow * each) for each in times)
                    record.start_ns, record.first_content_ns, record.last_content_ns, record.end_ns = (
                        start, first, last, last,
                    )  # fmt: skip
                    records.append(record)
                at = Load(LoadKind.CONCURRENCY, load)
                cells.append(CellRun(cell=Cell(k, at, repeat), records=records, engine="vllm" if k else None))
    return cells


def real_sweep(
    folder: Path,
    seed: int,
    costs: Mapping[str, float],
    lengths: Sequence[int],
    loads: Sequence[int],
    repeats: int,
    requests: int = REQUESTS,
) -> list[CellRun]:
    """Measure a sweep into its folder, as far as it is not there, and return its cells."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    program = f"{shlex.quote(sys.executable)} -m aiperf_spec"
    options = " ".join(f"--{cost.replace('_', '-')} {value:g}" for cost, value in costs.items())
    file = folder.parent / "prompts.jsonl"
    words = shlex.split(
        f"{program} sweep -u http://127.0.0.1:{port} --k {','.join(map(str, lengths))} --input-file {file} "
        f"--concurrency {','.join(map(str, loads))} --num-prompts {requests} --max-tokens {TOKENS} "
        f"--temperature 0 --extra-inputs ignore_eos:true --random-seed {seed} --settle-time 0.3 --ui none "
        f"--repeat {repeats} --artifact-dir {folder}"
    )
    words += ["--serve", f"exec {program} simulate --port {port} --num-spec-tokens {{k}} --seed {seed} {options}"]
    cells = [
        Cell(k, Load(LoadKind.CONCURRENCY, load), repeat)
        for k in lengths
        for load in loads
        for repeat in range(1, repeats + 1)
    ]
    if not (folder / "sweep.json").is_file():
        root = Path(__file__).resolve().parents[2]
        done = subprocess.run(words, capture_output=True, text=True, cwd=root, check=False)
        if done.returncode:
            raise RuntimeError(f"{shlex.join(words)}\n{done.stderr}")
        print(f"{folder.name} measured", file=sys.stderr, flush=True)
    return [load_cell(cell, folder / cell.name) for cell in cells]


def both_sweeps(seed: int, given: argparse.Namespace, folder: Path) -> tuple[list[CellRun], list[CellRun]]:
    """Return the cells of a seed's sweep in which speculation pays somewhere, and of that in which it never does."""
    pays, never = (PAYS, LENGTHS, LOADS, given.repeat), (NEVER, NEVER_LENGTHS, NEVER_LOADS, given.repeat)
    if given.virtual:
        return virtual_sweep(seed, *pays, given.scatter), virtual_sweep(seed, *never, given.scatter)
    return real_sweep(folder / f"pays-{seed}", seed, *pays), real_sweep(
        folder / f"never-{seed}", seed, *never, NEVER_REQUESTS
    )


@dataclass
class Score:
    """What all seeds came to."""

    named: int = 0
    wrong: int = 0
    crossed: int = 0
    held: int = 0
    never: int = 0
    widths: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)

    def add(self, seed: int, pays: Sequence[CellRun], never: SweepAnalysis) -> None:
        """Hold the analysis of a seed's sweeps to the truth; say where it is not right."""
        found = analyse_sweep(pays, economy_lengths=LENGTHS)
        for choice in found.answers.choices:
            load = int(choice.load.value)
            best = max(LENGTHS, key=lambda k: speed_up(k, load))
            self.named += choice.judged and choice.best == best and not choice.ties
            if best not in (choice.best, *choice.ties):
                self.wrong += 1
                print(f"seed {seed}: at {load} k {choice.best} was named, and k {best} is the best")
        for payoff in found.answers.payoffs:
            true, told = crossing(payoff.k), payoff.crossover
            low, high = (None, None) if told is None else (told.low, told.high)
            self.crossed += 1
            if true is not None and told is not None and (low or 0) <= true <= (high or math.inf):
                self.held += 1
            else:
                short = [cell.name for cell, _ in found.short]
                print(f"seed {seed}: k {payoff.k} told {low} to {high}; cells at less load: {short or 'none'}")
            self.widths += [high / low] if low and high else []
        self.never += [payoff.trend for payoff in never.answers.payoffs] == [Trend.NEVER]
        assert found.economy is not None
        self.errors += [error for each in found.economy.predictions if (error := each.error) is not None]


def main() -> None:
    """Measure, and print the truth beside what was told."""
    parser = argparse.ArgumentParser()
    for name, default in (("--seeds", 20), ("--first", 1), ("--repeat", 3), ("--at-once", 10)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--virtual", action="store_true")
    parser.add_argument("--scatter", type=float, default=0.02)
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prompts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in prompts()))
    seeds, score = range(given.first, given.first + given.seeds), Score()
    with ThreadPoolExecutor(1 if given.virtual else given.at_once) as pool:
        for seed, (pays, never) in zip(
            seeds, pool.map(lambda seed: both_sweeps(seed, given, folder), seeds), strict=True
        ):
            score.add(seed, pays, analyse_sweep(never))
    told = {f"k {k} at {load}": round(speed_up(k, load), 3) for k in LENGTHS if k for load in LOADS}
    print("true speed-ups:", told, "crossings:", {k: round(crossing(k) or 0.0, 2) for k in LENGTHS if k})
    print(f"best k: named alone and right {score.named} of {len(seeds) * len(LOADS)}, wrong {score.wrong}")
    widths = f"{median(score.widths):.2f} apart (ratio, median)" if score.widths else "not both known"
    print(f"crossover within its interval: {score.held} of {score.crossed}; its ends are {widths}")
    print(f"'never pays here' said: {score.never} of {len(seeds)}")
    absolute = sorted(map(abs, score.errors))
    within = sum(error <= 0.05 for error in absolute)
    print(
        f"economy against full measurement: error {median(absolute):.1%} (median), {absolute[-1]:.1%} at most; "
        f"within 5 %: {within} of {len(absolute)}"
    )


if __name__ == "__main__":
    main()
