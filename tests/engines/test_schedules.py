"""Schedules by batch, held to the code of the engine that reads them."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from aiperf_spec.adapters.schedules import sglang_schedule, vllm_schedule
from aiperf_spec.models.schedule import BatchRange, Configuration, Schedule
from tests.engines.conftest import Serve
from tests.engines.runs import CODE_PROMPTS, profiled
from tests.engines.server import Engine, Setup, place
from tests.engines.vllm import DETAILED, VLLM
from tests.test_schedules import MADE, lookup

pytestmark = pytest.mark.engine

READ = """
import json, sys
from sglang.srt.speculative.adaptive_spec_params import AdaptiveSpeculativeParams, resolve_candidate_steps_from_config
file, steps, largest = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
assert steps in resolve_candidate_steps_from_config(cfg_path=file)
params = AdaptiveSpeculativeParams(initial_steps=steps, cfg_path=file)
for _ in range(100):
    for batch in range(1, largest + 1):
        params.on_verify_complete([0] * batch, batch)
print(json.dumps([params.get_steps_for_batch(batch) for batch in range(1, largest + 1)]))
"""


@pytest.mark.parametrize("ranges", [MADE.ranges, (BatchRange(1, 3, 2), BatchRange(4, 9, 5)), (BatchRange(1, 8, 3),)])
def test_sglang_reads_the_draft_length_of_each_batch(ranges: tuple[BatchRange, ...], tmp_path: Path) -> None:
    made = replace(MADE, ranges=ranges)
    found = sglang_schedule(made)
    assert isinstance(found, Configuration)
    file = tmp_path / found.file_name
    file.write_text(found.text)
    python = str(place("SPEC_PROFILE_SGLANG", "a Python with SGLang is"))
    given = [python, "-c", READ, str(file), str(made.longest), str(ranges[-1].last)]
    done = subprocess.run(given, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    # Whatever is accepted: a hundred steps without an accepted token change nothing.
    read = json.loads(done.stdout.splitlines()[-1])
    assert dict(enumerate(read, 1)) == lookup(made)


@pytest.mark.parametrize("engine", [VLLM], indirect=True, ids=["vllm"])
async def test_vllm_drafts_as_its_schedule_says(serve: Serve, engine: Engine, tmp_path: Path) -> None:
    made = Schedule(ranges=(BatchRange(1, 1, 4), BatchRange(2, 3, 2), BatchRange(4, 64, 1)))
    found = vllm_schedule(made)
    assert isinstance(found, Configuration)
    drafter = {"method": "draft_model", "model": engine.place()["MODEL"] + "-draft", **found.content}
    server = serve(engine, Setup("draft", made.longest, (*DETAILED, "--speculative-config", json.dumps(drafter))))
    for concurrency, k in ((1, 4), (8, 1)):
        result = await profiled(
            server,
            input_file=CODE_PROMPTS,
            num_prompts=24,
            concurrency=concurrency,
            max_tokens=64,
            extra_inputs={"ignore_eos": True},
            artifact_dir=tmp_path / str(concurrency),
        )
        reports = [record.acceptance for record in result.records if record.acceptance is not None]
        assert len(reports) == 24
        drafted = Counter(step for report in reports for step in report.per_step_drafted or ())
        assert {report.num_spec_tokens for report in reports} == {made.longest}
        # Fewer requests run than are in flight where the client or the engine is held up, and at the end of the run.
        assert drafted.most_common(1)[0][0] == k, drafted
        if concurrency == 1:
            assert set(drafted) == {k}
