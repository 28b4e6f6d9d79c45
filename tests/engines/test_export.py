"""What `export` writes, held to those that take it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aiperf_spec.analysis.clusters import measured
from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.analysis.measured_acceptance import MeasuredAcceptance, measured_acceptance
from aiperf_spec.cli.app import app
from tests.engines.conftest import Serve
from tests.engines.llama_cpp import LLAMA_CPP
from tests.engines.runs import CODE_PROMPTS, profiled, write_rows
from tests.engines.server import Engine, Server, Setup, place

pytestmark = pytest.mark.engine
RUN = Path(__file__).parent.parent / "aiperf" / "vllm-speedbench"
K = 3
ALL_PROPOSED = ("--spec-draft-p-min", "0")
"""A draft then ends short of k tokens only where the answer does."""


def exported(run: Path, form: str) -> str:
    result = CliRunner().invoke(app, ["export", str(run), "--to", form])
    assert result.exit_code == 0, result.stderr
    return "".join(line for line in result.stdout.splitlines(keepends=True) if not line.startswith("#"))


async def acceptance_of(server: Server, folder: Path) -> MeasuredAcceptance:
    """Return the acceptance over the code prompts, each with a seed of its own: the engine draws from it."""
    rows = [json.loads(line) for line in CODE_PROMPTS.read_text().splitlines()]
    file = write_rows(folder.parent, *({**row, "extra": {"seed": 1000 + n}} for n, row in enumerate(rows)))
    settings: dict[str, Any] = {
        "input_file": file,
        "max_tokens": 96,
        "concurrency": 2,
        "artifact_dir": folder,
        "server_metrics": False,
    }
    result = await profiled(server, **settings)
    return measured_acceptance(measured(result.records))


def inside(value: float | None, of: Estimate) -> bool:
    assert None not in (value, of.low, of.high)
    return (of.low or 0.0) <= (value or 0.0) <= (of.high or 0.0)


@pytest.mark.parametrize("engine", [LLAMA_CPP], indirect=True, ids=["llama_cpp"])
async def test_a_server_that_takes_the_rates_is_measured_alike(serve: Serve, engine: Engine, tmp_path: Path) -> None:
    before = await acceptance_of(serve(engine, Setup("draft", K, ALL_PROPOSED)), tmp_path / "before")
    options = exported(tmp_path / "before", "llama-cpp").split()
    again = Setup("draft", K, (*ALL_PROPOSED, *options))
    after = await acceptance_of(serve(engine, again), tmp_path / "after")
    rates = [float(text) for text in options[1].split(",")]
    assert len(rates) == K
    assert rates[0] > 0.01, "nothing was accepted, so nothing would be shown"
    sys.stdout.write("\nrate  exported  measured again  95 % interval\n")
    for position, (rate, measured_again) in enumerate(zip(rates, after.rates, strict=True), start=1):
        shown = f"{measured_again.low:.4f} to {measured_again.high:.4f}"
        sys.stdout.write(f"R({position})  {rate:.4f}    {measured_again.value:.4f}          {shown}\n")
        assert inside(rate, measured_again)
        assert inside(measured_again.value, before.rates[position - 1])
    length = after.length
    shown = f"{length.low:.4f} to {length.high:.4f}"
    sys.stdout.write(f"length {before.length.value:.4f}   {length.value:.4f}          {shown}\n")
    assert inside(before.length.value, length)
    assert inside(length.value, before.length)


_VALIDATE = """
import json, sys
from vllm.config import ModelConfig, ParallelConfig, SpeculativeConfig
for line in sys.stdin:
    try:
        found = SpeculativeConfig(
            method="ngram", prompt_lookup_max=4, prompt_lookup_min=1, target_model_config=ModelConfig(sys.argv[1]),
            target_parallel_config=ParallelConfig(), **json.loads(line),
        )
        print(json.dumps([found.num_speculative_tokens, found.synthetic_acceptance_rates]))
    except ValueError as error:
        print(json.dumps(str(error)))
"""


def test_vllm_takes_what_is_exported() -> None:
    """Hold it to the engine's own validation: it refuses to run its synthetic mode on a CPU."""
    python = place("SPEC_PROFILE_VLLM", "a Python with vLLM is")
    model = place("SPEC_PROFILE_MODELS", "the folder with the model 'tinycode' is", "tinycode") / "tinycode"
    rates, length = (exported(RUN, form) for form in ("vllm-rates", "vllm-length"))
    # What it refuses shows that it looks.
    rising = json.dumps({**json.loads(rates), "synthetic_acceptance_rates": [0.1, 0.2, 0.3, 0.4, 0.5]})
    ran = subprocess.run(
        [str(python), "-c", _VALIDATE, str(model)],
        input=f"{rates}{length}{rising}\n",
        env={**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    taken, from_length, refused = (json.loads(line) for line in ran.stdout.splitlines() if line.startswith(("[", '"')))
    assert taken == [5, json.loads(rates)["synthetic_acceptance_rates"]]
    assert from_length[0] == 5
    assert 1 + sum(from_length[1]) == pytest.approx(json.loads(length)["synthetic_acceptance_length"])
    assert "must be non-increasing" in refused
