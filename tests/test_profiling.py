"""The recipe from Python: a run, its figures and its analysis, each from a call that returns it."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import httpx
import pytest

from aiperf_spec import ProfileConfig, profile
from aiperf_spec.analysis import analyse
from aiperf_spec.config.settings import ReportSettings
from aiperf_spec.errors import ArtifactError, ConfigError
from aiperf_spec.metrics import summarise
from aiperf_spec.profiling import Hooks
from tests.answering import OK
from tests.derive_expected import WIRE

SENT: list[httpx.Request] = []


def answer(request: httpx.Request) -> httpx.Response:
    if request.method == "GET":
        return httpx.Response(200, json={"data": [{"id": "m", "owned_by": "vllm"}]})
    SENT.append(request)
    body = (WIRE / "vllm" / "chat-stream-n1-usage.sse").read_bytes()
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body)


@pytest.fixture
def hooks() -> Hooks:
    SENT.clear()
    return Hooks(transport=httpx.MockTransport(answer))


def test_a_run_is_summarised_and_analysed_without_a_folder(
    hooks: Hooks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = profile(ProfileConfig(url="h:1", request_count=6, server_metrics=False), hooks)
    assert run.artifact_dir is None
    assert summarise(run.records).acceptance.requests == 6
    analysis = analyse(run.records, ReportSettings(worst=2))
    assert analysis.run.length.value == summarise(run.records).acceptance.length
    assert len(analysis.outliers.requests) <= 2
    assert list(tmp_path.iterdir()) == []


def test_a_finished_run_does_not_change(hooks: Hooks) -> None:
    run = profile(ProfileConfig(url="h:1", request_count=1, server_metrics=False), hooks)
    with pytest.raises(FrozenInstanceError):
        run.notices = ()  # type: ignore[misc]


def test_what_can_be_refused_is_refused_before_the_first_request(hooks: Hooks, tmp_path: Path) -> None:
    config = ProfileConfig(url="h:1", request_count=5, server_metrics=False, artifact_dir=tmp_path / "run")
    profile(config, hooks)
    SENT.clear()
    with pytest.raises(ArtifactError, match="already holds a run"):
        profile(config, hooks)
    other = config.model_copy(update={"artifact_dir": tmp_path / "other"})
    with pytest.raises(ConfigError, match="is a run with speculation"):
        profile(other, hooks, ReportSettings(baseline=tmp_path / "run"))
    assert SENT == []


@pytest.mark.parametrize("name", [".profile_export_aiperf.json.tmp", ".config.yaml.tmp", "profile_export.jsonl"])
def test_no_link_in_the_folder_is_followed(name: str, hooks: Hooks, tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "run", tmp_path / "precious"
    out.mkdir()
    elsewhere.write_text("mine")
    (out / name).symlink_to(elsewhere)
    profile(ProfileConfig(url="h:1", request_count=1, server_metrics=False, artifact_dir=out, overwrite=True), hooks)
    assert elsewhere.read_text() == "mine"
    assert not any(file.is_symlink() for file in out.iterdir())
    assert len((out / "profile_export.jsonl").read_bytes().splitlines()) == 1


async def test_within_a_running_loop() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=OK))
    config = ProfileConfig(url="http://h", model="m", request_count=1, streaming=False, server_metrics=False)
    assert profile(config, Hooks(transport=transport)).records[0].succeeded
