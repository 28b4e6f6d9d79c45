"""Sweeps whose costs are planted, so that speed-ups, crossovers and the best draft length are known exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random

from aiperf_spec.models.run import Phase, RequestRecord
from aiperf_spec.models.sweep import Cell, CellRun, Load, LoadKind
from tests.simulated_runs import request

MS = 1_000_000


def load(value: float) -> Load:
    """Return a concurrency."""
    return Load(LoadKind.CONCURRENCY, value)


def timed(
    index: int, itl_ms: float, *, tokens: int = 101, category: str | None = None, start_ns: int = 0
) -> RequestRecord:
    """Return a request of which only the times are known."""
    first = start_ns + 50 * MS
    last = first + round(itl_ms * (tokens - 1) * MS)
    return RequestRecord(
        index=index,
        phase=Phase.PROFILING,
        prompt_id=f"prompt-{index}",
        prompt_hash=f"hash of {index}",
        category=category,
        start_ns=start_ns,
        end_ns=last,
        first_content_ns=first,
        last_content_ns=last,
        output_tokens=tokens,
    )


def timed_sweep(
    seed: int,
    latency_ms: Callable[[int, float], float],
    lengths: Sequence[int],
    loads: Sequence[float],
    *,
    prompts: int = 20,
    repeats: int = 3,
    of_prompt: float = 0.3,
    of_both: float = 0.1,
    of_run: float | Mapping[int, float] = 0.0,
    categories: Sequence[str] = (),
) -> list[CellRun]:
    """Return the cells of a sweep: log latencies scatter by these standard deviations around `latency_ms(k, load)`.

    `of_prompt` is shared by all cells, `of_both` belongs to a prompt at one k, `of_run` to one run, or to one of each
    k. The mean over prompts of each factor is 1, so that pooled latencies are `latency_ms` on average. As many requests
    are in flight as the load says, while there are prompts.
    """
    draw = Random(seed)

    def factor(deviation: float) -> float:
        return math.exp(draw.gauss(-deviation * deviation / 2, deviation))

    shared = [factor(of_prompt) for _ in range(prompts)]
    own = {k: [factor(of_both) for _ in range(prompts)] for k in lengths}
    cells = []
    for repeat in range(1, repeats + 1):
        for k in lengths:
            for value in loads:
                slow = math.exp(draw.gauss(0, of_run if isinstance(of_run, float) else of_run[k]))
                records = []
                free = [0] * max(1, round(value))
                for i in range(prompts):
                    itl = latency_ms(k, value) * shared[i] * own[k][i] * slow * factor(0.02)
                    category = categories[i % len(categories)] if categories else None
                    free.sort()
                    records.append(timed(i, itl, category=category, start_ns=free[0]))
                    free[0] = records[-1].end_ns
                cells.append(CellRun(cell=Cell(k, load(value), repeat), records=records))
    return cells


def drafted_sweep(
    seed: int,
    step_ms: Callable[[int, float], float],
    lengths: Sequence[int],
    loads: Sequence[float],
    prompts: int = 40,
    *,
    found: float = 1.0,
    repeats: int = 3,
    overhead_ms: float = 0.0,
) -> list[CellRun]:
    """Return the cells of a sweep over a chain drafter: a step of k at a load takes `step_ms(k, load)`.

    Every step of a k above 0, also one without a draft, takes `overhead_ms` more.

    Each prompt has its own chance that a draft token is right, and the same text at every k: which of its tokens are
    right does not depend on k. `found` is the share of its places at which the drafter finds a draft; a step at another
    place has none, and takes the time of k = 0. All repeats are alike.
    """
    draw, finds = Random(seed), Random(f"finds {seed}")
    texts = []
    for _ in range(prompts):
        chance = draw.choice((0.35, 0.6, 0.85))
        texts.append([(draw.random() < chance, finds.random() < found) for _ in range(160)])
    cells = []
    for k in lengths:
        for value in loads:
            records = []
            for index, text in enumerate(texts):
                accepted, alone = _decoded(text, k)
                record = request(index, accepted, k=k, undrafted=alone) if k else timed(index, 1.0, tokens=161)
                taken = len(accepted) * step_ms(k, value) + alone * step_ms(0, value)
                taken += (len(accepted) + alone) * overhead_ms * (k > 0)
                record.last_content_ns = (record.first_content_ns or 0) + round(taken * MS)
                record.end_ns = record.last_content_ns
                record.prompt_hash = f"hash of {index}"
                records.append(record)
            for repeat in range(1, repeats + 1):
                cell = Cell(k, load(value), repeat)
                cells.append(CellRun(cell=cell, records=records, engine="vllm" if k else None))
    return cells


def _decoded(text: Sequence[tuple[bool, bool]], k: int) -> tuple[tuple[int, ...], int]:
    """Return what each verify step accepted of a text, and the number of steps without a draft."""
    accepted: list[int] = []
    place = alone = 0
    while place < len(text):
        if not k or not text[place][1]:
            alone, place = alone + 1, place + 1
            continue
        right = 0
        while right < k and place + right < len(text) - 1 and text[place + right][0]:
            right += 1
        accepted.append(right)
        place += right + 1
    return tuple(accepted), alone
