"""What-ifs of one run of a real engine at k = 6, held against runs at the shorter draft lengths.

The text at temperature 0 does not depend on the drafter, but for a rare tie that another batch decides otherwise.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from aiperf_spec.analysis import analyse
from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.models.run import RequestRecord
from tests.engines.conftest import Serve
from tests.engines.runs import CODE_PROMPTS, profiled, write_prompts
from tests.engines.server import Engine

pytestmark = pytest.mark.engine
K, SHORTER = 6, (4, 2, 1)


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


@dataclass(frozen=True)
class Row:
    """What a run at k = 6 predicts for another k, and what was measured there."""

    prompts: str
    endpoint: str
    k: int
    predicted: Estimate
    from_histograms: Estimate | None
    measured: float

    @property
    def error(self) -> float:
        """The relative error of the prediction."""
        return (self.predicted.value or 0.0) / self.measured - 1

    def __str__(self) -> str:
        low, high = self.predicted.low or 0.0, self.predicted.high or 0.0
        rough = (
            "" if self.from_histograms is None else f" {(self.from_histograms.value or 0) / self.measured - 1:+.1%} |"
        )
        return (
            f"| {self.prompts}, {self.endpoint} | {self.k} | {self.predicted.value:.3f} | {low:.3f} to {high:.3f} "
            f"| {self.measured:.3f} | {self.error:+.1%} |{rough}"
        )


def rows_of(runs: Mapping[tuple[str, str, int], Sequence[RequestRecord]]) -> Iterator[Row]:
    """Yield a row for each k below 6; runs are by prompts, endpoint and k."""
    for (prompts, endpoint, k), short in runs.items():
        if k == K:
            continue
        long = runs[prompts, endpoint, K]
        found, summed = analyse(long).run.what_if, analyse(without_steps(long)).run.what_if
        measured = analyse(short).run.length.value
        assert measured is not None
        histogram = summed.lengths[k - 1].length if summed.rough else None
        yield Row(prompts, endpoint, k, found.lengths[k - 1].length, histogram, measured)


@pytest.mark.parametrize("drafter", ["draft", "ngram"])
async def test_a_run_of_long_drafts_says_what_shorter_ones_give(
    serve: Serve, engine: Engine, tmp_path: Path, drafter: str
) -> None:
    if drafter not in engine.what_if_error:
        pytest.skip(f"{engine.name} has no such drafter whose estimates can be held against a run")
    asked = [json.loads(line)["messages"][0]["content"] for line in CODE_PROMPTS.read_text().splitlines()]
    runs: dict[tuple[str, str, int], list[RequestRecord]] = {}
    for k in (K, *(k for k in SHORTER if k >= engine.shortest_draft.get(drafter, 1))):
        server = serve(engine, replace(engine.setup, drafter=drafter, k=k))
        for name, texts in (("code", asked), ("library", list(library_slices()))):
            for endpoint in ("chat", "completions"):
                file = write_prompts(tmp_path, *texts)
                options: dict[str, Any] = {"endpoint_type": endpoint, "max_tokens": 200, "concurrency": 8}
                result = await profiled(server, input_file=file, **options)
                runs[name, endpoint, k] = result.profiled()
    rows = list(rows_of(runs))
    sys.stdout.write("\n".join(map(str, ["", *rows, ""])))
    for row in rows:
        assert abs(row.error) <= engine.what_if_error[drafter], row
        assert (row.predicted.low or 0) <= row.measured <= (row.predicted.high or 0), row
        if row.from_histograms is not None:
            assert (row.from_histograms.low or 0) <= row.measured <= (row.from_histograms.high or 0), row
