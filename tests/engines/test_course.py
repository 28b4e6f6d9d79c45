"""A course of draft models whose order is known: an untrained one, one in between, and a trained one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aiperf_spec.cli.app import app
from tests.engines.conftest import Serve
from tests.engines.runs import CODE_PROMPTS, profiled
from tests.engines.server import Engine, Setup, place
from tests.engines.vllm import DETAILED, TRAINED, VLLM

pytestmark = pytest.mark.engine
K = 3
PARTS = ("0", "0.5", "1")
"""How much of a checkpoint's weights is the trained model's; the rest is an untrained one's."""

_MAKE = """
import sys
from pathlib import Path
from typing import Any
import shutil, torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

trained, folder = Path(sys.argv[1]), Path(sys.argv[2])
weights = load_file(trained / "model.safetensors")
torch.manual_seed(0)
fresh = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(trained)).state_dict()
for text in sys.argv[3:]:
    part = float(text)
    mixed = {
        name: (part * each.float() + (1 - part) * fresh[name].float()).to(each.dtype).contiguous()
        for name, each in weights.items()
    }
    shutil.copytree(trained, folder / text, copy_function=shutil.copyfile)
    (folder / text).chmod(0o755)
    save_file(mixed, folder / text / "model.safetensors", metadata={"format": "pt"})
"""


def make_checkpoints(folder: Path) -> None:
    """Write a draft model for each part, by the engine's own Python."""
    python = place("SPEC_PROFILE_VLLM", "a Python with vLLM is")
    models = place("SPEC_PROFILE_MODELS", f"the folder with the model {TRAINED!r} is", TRAINED)
    subprocess.run(
        [str(python), "-c", _MAKE, str(models / f"{TRAINED}-draft"), str(folder), *PARTS],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        timeout=240,
        check=True,
    )


@pytest.mark.parametrize("engine", [VLLM], indirect=True, ids=["vllm"])
async def test_the_order_of_checkpoints_is_recovered(serve: Serve, engine: Engine, tmp_path: Path) -> None:
    make_checkpoints(tmp_path / "models")
    for part in PARTS:
        server = serve(engine, Setup(str(tmp_path / "models" / part), K, DETAILED))
        for name in ("base", part) if part == PARTS[0] else (part,):
            tags = {} if name == "base" else {"trained": part}
            settings: dict[str, Any] = {
                "input_file": CODE_PROMPTS,
                "max_tokens": 64,
                "concurrency": 2,
                "server_metrics": False,
            }
            await profiled(server, tags=tags, artifact_dir=tmp_path / "runs" / name, **settings)
    runs = [str(tmp_path / "runs" / name) for name in ("base", "1", "0", "0.5")]  # in no order
    table = CliRunner().invoke(app, ["compare", *runs, "--order-by", "trained"], env={"COLUMNS": "100"})
    assert table.exit_code == 0, table.output
    sys.stdout.write(f"\n{table.stdout}\n")
    document = json.loads(
        CliRunner().invoke(app, ["compare", *runs, "--order-by", "trained", "--format", "json"]).stdout
    )
    found = document["candidates"]
    assert [each["place"] for each in found] == list(PARTS)
    lengths = [each["acceptance_length"]["value"] for each in found]
    assert lengths == sorted(lengths)
    assert document["best"] == runs[1]
    # The untrained one is the base once more.
    assert [each["against_base"]["verdict"] for each in found] == ["no difference shown", "better", "better"]
    assert [each["against_best"]["verdict"] for each in found[:2]] == ["worse", "worse"]
    assert document["left_out"] == []
