"""The example for a machine without a GPU, run as its reader would, but with an engine that is there already."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.conftest import Serve
from tests.engines.vllm_process import free_port

pytestmark = pytest.mark.engine
SCRIPT = Path(__file__).parent.parent.parent / "examples" / "vllm_cpu" / "run.sh"


def test_the_example(serve: Serve, vllm_python: Path, tmp_path: Path) -> None:
    serve.stop()
    environment = {
        **os.environ,
        "VLLM_PYTHON": str(vllm_python),
        "PORT": str(free_port()),
        "SPEC_PROFILE": f"{sys.executable} -m aiperf_spec",
    }
    done = subprocess.run(["sh", SCRIPT, tmp_path], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "They agree exactly, over 5 requests that reported." in done.stdout
    assert "Server-side timing" in done.stdout
    lines = [json.loads(line) for line in (tmp_path / "profile" / "profile_export.jsonl").read_text().splitlines()]
    assert len(lines) == 7
    assert any(line["spec_decode_acceptance"]["num_accepted_draft_tokens"] for line in lines)
