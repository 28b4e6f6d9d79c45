"""AIPerf and this program over the same prompts on the same server: what does not depend on time is equal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.bench.aiperf_table import TIMED, Target, differing, run_both, summary_of
from tests.engines.server import MODEL, Server
from tests.engines.vllm import TRAINED, VLLM

pytestmark = [pytest.mark.engine, pytest.mark.parametrize("engine", [VLLM], indirect=True, ids=["vllm"])]
SHARED = 16
"""Tags that do not depend on time and that both write; fewer would mean that nothing was compared."""


def test_shared_tags_are_equal(server: Server, tmp_path: Path) -> None:
    aiperf = os.environ.get("SPEC_PROFILE_AIPERF")
    if not aiperf:
        pytest.skip("SPEC_PROFILE_AIPERF does not name AIPerf's command")
    tokenizer = str(Path(os.environ["SPEC_PROFILE_MODELS"]).expanduser() / TRAINED)
    theirs, ours = map(summary_of, run_both(Target(server.url, MODEL, tokenizer, aiperf), tmp_path))
    shared = [tag for tag in theirs if tag in ours and tag not in TIMED]
    assert len(shared) >= SHARED
    assert {tag: wrong for tag in shared if (wrong := differing(theirs[tag], ours[tag]))} == {}
