"""Decode steps that follow from tokens, against the engine's own count of its steps."""

from __future__ import annotations

import re
import urllib.request

import pytest

from aiperf_spec.models.decoding import decoding, most_steps
from tests.engines.conftest import Serve
from tests.engines.runs import PROMPTS, profiled
from tests.engines.test_matrix import SETUP
from tests.engines.vllm_process import Engine

pytestmark = pytest.mark.engine


def iterations(engine: Engine) -> int:
    """Return how many steps the engine has run, once its counters stand still; a prompt's own pass is one of them."""
    engine.counters()
    with urllib.request.urlopen(f"{engine.url}/metrics", timeout=10) as answer:
        return sum(
            round(float(value))
            for value in re.findall(r"^vllm:iteration_tokens_total_count\{.*\} (\S+)$", answer.read().decode(), re.M)
        )


async def test_steps_of_an_n_gram_drafter_lie_between_the_least_and_the_most(serve: Serve) -> None:
    engine = serve(SETUP)
    before = iterations(engine)
    extra = {"ignore_eos": True}
    result = await profiled(engine, input_file=PROMPTS, concurrency=1, max_tokens=96, extra_inputs=extra)
    # One request at a time, so that no step serves two.
    ran = iterations(engine) - before - len(result.records)
    least = [found for record in result.records if (found := decoding(record)) is not None]
    most = [found for record in result.records if (found := most_steps(record)) is not None]
    assert len(least) == len(result.records) == 8
    assert sum(found.undrafted_steps for found in least) > 100
    assert sum(found.steps for found in least) <= ran <= sum(found.steps for found in most)
