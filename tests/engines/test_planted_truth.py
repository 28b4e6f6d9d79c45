"""Acceptance that the engine was told to have, against what the program measures.

llama.cpp's `--spec-synth-rates P1,P2,...` (common/speculative.cpp, b11434) accepts drafts by chance, from the seed of
each request. P(i) is the share of steps that accept at least i draft tokens, S(i): position i is tried where all before
it were accepted, and accepted with P(i) / P(i - 1). So S(i), the conditional c(i) and the length are all known.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.analysis.report import Analysis
from tests.engines.conftest import Serve
from tests.engines.llama_cpp import LLAMA_CPP
from tests.engines.runs import CODE_PROMPTS, assert_read_from_its_bytes, profiled, summed, write_rows
from tests.engines.server import Engine, Setup, counted

pytestmark = [pytest.mark.engine, pytest.mark.parametrize("engine", [LLAMA_CPP], indirect=True, ids=["llama_cpp"])]
RATES = (0.8, 0.5, 0.2)
RUNS, PROMPTS = 20, 12
AT_LEAST = {"told": 18, "derived": 54}
"""Of each figure that the flag sets, and of the c(i) together, which follow from it: 95 % of 60 is 57."""
SETUP = Setup("draft", len(RATES), ("--spec-synth-rates", ",".join(map(str, RATES)), "--spec-draft-p-min", "0"))


def planted(analysis: Analysis) -> Iterator[tuple[str, float, Estimate]]:
    """Yield each figure's name, its true value and what was measured."""
    yield "length", 1 + sum(RATES), analysis.run.length
    for position, rate, before in zip(analysis.run.curve.positions, RATES, (1.0, *RATES), strict=False):
        yield f"S({position.position})", rate, position.survival
        yield f"c({position.position})", rate / before, position.conditional


async def test_intervals_hold_the_rates_that_were_planted(serve: Serve, engine: Engine, tmp_path: Path) -> None:
    server = serve(engine, SETUP)
    texts = [json.loads(line)["messages"][0]["content"] for line in CODE_PROMPTS.read_text().splitlines()[:PROMPTS]]
    held: Counter[str] = Counter()
    settings: dict[str, Any] = {"concurrency": 4, "max_tokens": 400, "extra_inputs": {"ignore_eos": True}}
    for run in range(RUNS):
        # A seed for each request: with one for all, all would accept and reject alike.
        rows = [{"text": text, "extra": {"seed": run * PROMPTS + number}} for number, text in enumerate(texts)]
        with counted(server) as grown:
            result = await profiled(server, input_file=write_rows(tmp_path, *rows), **settings)
        for record in result.records:
            assert "record" in assert_read_from_its_bytes(server, record)
        assert grown == summed(result.records)
        assert result.analysis is not None
        for name, truth, found in planted(result.analysis):
            assert found.low is not None
            assert found.high is not None
            assert found.n == PROMPTS
            held[name] += found.low <= truth <= found.high
    sys.stdout.write(f"\nheld in so many of {RUNS} runs: {dict(held)}\n")
    assert len(held) == 1 + 2 * len(RATES)
    told = {name: times for name, times in held.items() if not name.startswith("c(")}
    assert {name: times for name, times in told.items() if times < AT_LEAST["told"]} == {}
    assert held.total() - sum(told.values()) >= AT_LEAST["derived"]
