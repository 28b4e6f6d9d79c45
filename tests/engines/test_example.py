"""The example for a machine without a GPU, run as its reader would, but with an engine that is there already."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.engines.conftest import Serve
from tests.engines.server import EXAMPLES, Engine, free_port

pytestmark = pytest.mark.engine


def test_the_example(serve: Serve, engine: Engine, tmp_path: Path) -> None:
    serve.stop()
    environment = {**os.environ, **engine.place()}
    # It makes a model of its own.
    environment = {name: value for name, value in environment.items() if name not in ("MODEL", "FOLDER")}
    environment |= {"PORT": str(free_port()), "SPEC_PROFILE": f"{sys.executable} -m aiperf_spec"}
    command = ["sh", str(EXAMPLES / engine.example / "run.sh"), str(tmp_path)]
    script = subprocess.Popen(
        command, env=environment, text=True, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        said, complaints = script.communicate(timeout=600)
    finally:
        # A script that is given up leaves its server behind: both are of one group.
        with suppress(ProcessLookupError):
            os.killpg(script.pid, signal.SIGTERM)
    assert script.returncode == 0, complaints[-2000:]
    assert "They agree exactly, over 5 requests that reported." in said
    assert ("Server-side timing" in said) is engine.times_itself
    lines = [json.loads(line) for line in (tmp_path / "profile" / "profile_export.jsonl").read_text().splitlines()]
    assert len(lines) == 7
    assert any(line["spec_decode_acceptance"]["num_accepted_draft_tokens"] for line in lines)
