"""What-ifs of one run at k = 6 of a real vLLM with a draft model, held against runs at the shorter draft lengths."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from aiperf_spec.analysis import analyse
from aiperf_spec.models.run import RequestRecord
from tests.engines.conftest import Serve
from tests.engines.runs import profiled, write_prompts
from tests.engines.vllm_process import Setup

pytestmark = pytest.mark.engine
K, SHORTER = 6, (4, 2, 1)
CODE = Path(__file__).parent / "code_prompts.jsonl"
"""24 beginnings of classes and functions."""


def library_slices(number: int = 24, lines: int = 12) -> Iterator[str]:
    """Yield so many slices of Python's own library, from the middle of its larger modules."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(Path(ast.__file__).parent.glob("*.py")))
    large = [rows for text in texts if len(rows := text.splitlines()) > 400]
    for rows in large[:: len(large) // number][:number]:
        yield "\n".join(rows[len(rows) // 2 : len(rows) // 2 + lines]) + "\n"


def without_steps(records: Sequence[RequestRecord]) -> list[RequestRecord]:
    """Return the records as the level `summary` would have given them."""
    return [
        replace(record, acceptance=replace(record.acceptance, per_step_accepted=None, per_step_drafted=None))
        for record in records
        if record.acceptance is not None
    ]


async def test_a_run_of_long_drafts_says_what_shorter_ones_give(serve: Serve, tmp_path: Path) -> None:
    asked = [json.loads(line)["messages"][0]["content"] for line in CODE.read_text().splitlines()]
    runs: dict[tuple[str, str, int], list[RequestRecord]] = {}
    for k in (K, *SHORTER):
        engine = serve(Setup(drafter="draft", k=k))
        for name, texts in (("code", asked), ("library", list(library_slices()))):
            for endpoint in ("chat", "completions"):
                file = write_prompts(tmp_path, *texts)
                result = await profiled(engine, input_file=file, endpoint_type=endpoint, max_tokens=200)
                runs[name, endpoint, k] = result.profiled()
    rows = ["", "| prompts | endpoint | k' | predicted | 95 % interval | measured | error | from histograms |"]
    rows.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, endpoint, k in runs:
        if k == K:
            continue
        long = runs[name, endpoint, K]
        found = analyse(long).run.what_if.lengths[k - 1].length
        rough = analyse(without_steps(long)).run.what_if
        histogram = rough.lengths[k - 1].length
        truth = analyse(runs[name, endpoint, k]).run.length.value
        assert truth is not None
        assert found.value is not None
        assert histogram.value is not None
        error, rough_error = found.value / truth - 1, histogram.value / truth - 1
        rows.append(
            f"| {name} | {endpoint} | {k} | {found.value:.3f} | {found.low:.3f} to {found.high:.3f} | {truth:.3f} "
            f"| {error:+.1%} | {rough_error:+.1%} |"
        )
        assert abs(error) <= 0.01, rows
        assert (found.low or 0) <= truth <= (found.high or 0)
        assert rough.rough
        assert (histogram.low or 0) <= truth <= (histogram.high or 0)
    sys.stdout.write("\n".join(rows) + "\n")
