"""Decode steps that follow from tokens, against the engine's own count of its steps."""

from __future__ import annotations

import re

import pytest

from aiperf_spec.models.decoding import decoding, likely_steps
from tests.engines.runs import PROMPTS, profiled
from tests.engines.server import Server
from tests.engines.vllm import VLLM

pytestmark = [pytest.mark.engine, pytest.mark.parametrize("engine", [VLLM], indirect=True, ids=["vllm"])]


def iterations(server: Server) -> int:
    """Return how many steps the engine has run, once its counters stand still; a prompt's own pass is one of them."""
    server.counters()
    found = re.findall(r"^vllm:iteration_tokens_total_count\{.*\} (\S+)$", server.page(), re.M)
    return sum(round(float(value)) for value in found)


async def test_steps_of_an_n_gram_drafter_are_between_the_bounds_and_near_what_is_likely(server: Server) -> None:
    before = iterations(server)
    extra = {"ignore_eos": True}
    result = await profiled(server, input_file=PROMPTS, concurrency=1, max_tokens=96, extra_inputs=extra)
    # One request at a time, so that no step serves two.
    ran = iterations(server) - before - len(result.records)
    least = [found for record in result.records if (found := decoding(record)) is not None]
    likely = [steps for record in result.records if (steps := likely_steps(record, most=False)) is not None]
    assert len(least) == len(result.records) == 8
    assert sum(found.undrafted_steps for found in least) > 100
    hidden = sum(found.undrafted_at_most - found.undrafted_steps for found in least)
    assert sum(found.steps for found in least) <= ran <= sum(found.steps for found in least) + hidden
    # What the limit cuts scatters by 2 tokens a response, at the most.
    assert sum(steps.steps for steps in likely) == pytest.approx(ran, abs=3 * 2 * len(likely) ** 0.5)
