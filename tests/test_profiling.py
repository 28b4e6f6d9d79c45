"""The recipe from Python: a run, its figures and its analysis, each from a call that returns it."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import httpx
import orjson
import pytest

import aiperf_spec
from aiperf_spec import ProfileConfig, profile, profile_async
from aiperf_spec.analysis import analyse
from aiperf_spec.config.settings import ReportSettings
from aiperf_spec.errors import ArtifactError, ConfigError
from aiperf_spec.metrics import summarise
from aiperf_spec.metrics.table import RECORD_METRICS
from aiperf_spec.profiling import Hooks
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


def test_a_result_has_its_figures_and_says_them_in_a_line(hooks: Hooks) -> None:
    result = profile(ProfileConfig(url="h:1", request_count=6, server_metrics=False), hooks)
    assert result.summary == summarise(result.records, unsent=0)
    assert result.analysis is not None
    assert result.analysis.run.length == analyse(result.records).run.length
    assert repr(result).startswith("<ProfileResult m: 6 of 6 requests succeeded; acceptance length ")
    assert len(repr(result)) < 200


def test_rows_are_flat_and_have_every_metric() -> None:
    def sometimes(request: httpx.Request) -> httpx.Response:
        return httpx.Response(500) if request.method == "POST" and len(SENT) == 2 else answer(request)

    SENT.clear()
    config = ProfileConfig(url="h:1", request_count=3, server_metrics=False)
    rows = profile(config, Hooks(transport=httpx.MockTransport(sometimes))).to_dicts()
    assert [row["error"] for row in rows] == [None, None, "http_status"]
    assert [row["index"] for row in rows] == [0, 1, 2]
    for row in rows:
        assert {metric.tag for metric in RECORD_METRICS} <= row.keys()
        assert all(isinstance(value, str | int | float | None) for value in row.values())
        assert (row["spec_decode_acceptance_length"] is None) == (row["error"] is not None)
    orjson.dumps(rows)


async def test_within_a_running_loop_it_is_awaited(hooks: Hooks) -> None:
    config = ProfileConfig(url="h:1", request_count=2, server_metrics=False)
    with pytest.raises(ConfigError, match="running event loop") as caught:
        profile(config, hooks)
    assert "profile_async" in (caught.value.remedy or "")
    assert SENT == []
    result = await profile_async(config, hooks)
    assert result.summary.succeeded == 2


def test_what_cannot_be_written_costs_no_result(hooks: Hooks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*values: object, **more: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("aiperf_spec.artifacts.write.writer.summary_json", full)
    config = ProfileConfig(url="h:1", request_count=2, server_metrics=False, artifact_dir=tmp_path / "run")
    result = profile(config, hooks)
    assert result.summary.succeeded == 2
    assert any("No space left" in fault.message for fault in result.faults)
    assert "No space left" in repr(result)


def test_the_package_lists_its_public_names_alone() -> None:
    assert dir(aiperf_spec) == sorted(aiperf_spec.__all__)
    for name in aiperf_spec.__all__:
        assert getattr(aiperf_spec, name) is not None
