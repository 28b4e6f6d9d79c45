"""Runs drawn from a known distribution, so that what figures estimate is known exactly."""

from __future__ import annotations

from random import Random

from aiperf_spec.models.acceptance import SpecDecodeAcceptanceRecord
from aiperf_spec.models.run import Phase, RequestRecord

K = 4
KINDS: tuple[tuple[float, float, tuple[int, int]], ...] = (
    (0.4, 0.8, (8, 16)),
    (0.3, 0.6, (12, 28)),
    (0.2, 0.45, (18, 40)),
    (0.1, 0.2, (25, 45)),
)
"""(share of requests, probability that a draft token is accepted, fewest and most verify steps)."""


def true_length(k: int = K, shift: float = 0.0) -> float:
    """Return the acceptance length of these requests, with the tokens that they have, where drafts have k tokens."""
    tokens = steps = 0.0
    for share, probability, (low, high) in KINDS:
        own, at_k = (1 + sum((probability + shift) ** i for i in range(1, length + 1)) for length in (K, k))
        tokens += share * (low + high) / 2 * own
        steps += share * (low + high) / 2 * own / at_k
    return tokens / steps


def simulated_run(
    seed: int, requests: int, *, shift: float = 0.0, noise: int = 0, wobble: float = 0.0
) -> list[RequestRecord]:
    """Return a run of requests for prompts 0..n; the same seed gives the same prompts.

    `shift` adds to every probability; `noise` is the seed of a second run over the same prompts, whose steps are drawn
    anew. `wobble` is how far its probabilities differ from prompt to prompt, up and down, beside the shift.
    """
    prompts, draws = Random(seed), Random(f"{seed}-{noise}")
    records = []
    for index in range(requests):
        (_, probability, bounds) = prompts.choices(KINDS, weights=[share for share, _, _ in KINDS])[0]
        steps = prompts.randint(*bounds)
        own = probability + shift + (draws.gauss(0, wobble) if wobble else 0.0)
        accepted = tuple(_leading(draws, own) for _ in range(steps))
        records.append(request(index, accepted))
    return records


def _leading(draws: Random, probability: float) -> int:
    count = 0
    while count < K and draws.random() < probability:
        count += 1
    return count


def request(
    index: int,
    accepted: tuple[int, ...],
    *,
    drafted: tuple[int, ...] | None = None,
    k: int | None = K,
    engine: str = "vllm",
    proposed: int | None = None,
    per_step: bool = True,
    prompt: str | None = None,
    turn: int = 0,
    category: str | None = None,
    undrafted: int = 0,
) -> RequestRecord:
    """Return a request with these verify steps, every one of which proposed k unless said otherwise.

    A decode step takes 10 ms; `undrafted` of them ran beside the verify steps.
    """
    histogram: dict[int, int] = {}
    for count in accepted:
        histogram[count] = histogram.get(count, 0) + 1
    steps, total = len(accepted), sum(accepted)
    tokens, decode_steps = 1 + total + steps + undrafted, steps + undrafted
    drafts = sum(drafted) if drafted is not None else proposed if proposed is not None else steps * (k or 0)
    report = SpecDecodeAcceptanceRecord(
        engine=engine,
        mean_acceptance_length=1 + total / steps if steps else 1.0,
        draft_acceptance_rate=total / drafts if drafts else 0.0,
        acceptance_histogram=histogram,
        num_accepted_draft_tokens=total,
        num_draft_tokens=drafts,
        num_spec_steps=steps,
        num_spec_tokens=k,
        completion_tokens=tokens,
        per_step_accepted=accepted if per_step else None,
        per_step_drafted=drafted,
    )
    return RequestRecord(
        index=index,
        phase=Phase.PROFILING,
        prompt_id=f"prompt-{index}" if prompt is None else prompt,
        turn_index=turn,
        category=category,
        start_ns=0,
        end_ns=(decode_steps + 2) * 10_000_000,
        first_content_ns=10_000_000,
        last_content_ns=(decode_steps + 1) * 10_000_000,
        input_tokens=10 + index,
        output_tokens=tokens,
        acceptance=report,
        prompt_hash=f"hash of {index if prompt is None else prompt}",
    )
