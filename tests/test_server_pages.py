"""What a server's pages say of it, in a run's result and in its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.artifacts.read.run import load_run
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.profiling import profile
from tests.answering import Answer, answering
from tests.support import Simulate


@pytest.mark.parametrize(("engine", "version"), [("vllm", "0.32.0"), ("sglang", "0.5.23"), ("tensorrt_llm", None)])
def test_a_run_knows_the_version_and_keeps_it(
    engine: str, version: str | None, simulate: Simulate, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"artifact_dir": tmp_path / "run", "request_count": 2, "max_tokens": 4}
    result = profile(ProfileConfig.create(url=simulate(engine).url, **settings))
    assert result.server_version == version
    assert load_run([RunFolder(tmp_path / "run")]).result.server_version == version
    assert (result.drafter is not None) == (engine == "sglang")


@pytest.mark.parametrize(("said", "version"), [("0.9\x1b[1m", "0.9\x1b[1m"), ("", None), (7, None), (None, None)])
def test_only_a_text_is_a_version(said: object, version: str | None) -> None:
    pages = {"object": "list", "data": [{"id": "m", "owned_by": "vllm"}], "version": said}
    with answering(Answer(), models=pages) as server:
        config = ProfileConfig.create(url=server.url, request_count=1, server_metrics=False)
        assert profile(config).server_version == version
        assert "/version" in {path for method, path, *_ in server.asked if method == "GET"}


def test_a_server_of_an_unknown_engine_is_asked_nothing_more() -> None:
    pages = {"object": "list", "data": [{"id": "m", "owned_by": "acme"}], "version": "1"}
    with answering(Answer(), models=pages) as server:
        config = ProfileConfig.create(url=server.url, request_count=1, server_metrics=False)
        assert profile(config).server_version is None
        assert {path for method, path, *_ in server.asked if method == "GET"} == {"/v1/models"}
