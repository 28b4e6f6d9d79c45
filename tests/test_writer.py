"""The folder of a run, where it cannot be written any more: nothing else is lost by that."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from aiperf_spec.analysis.report import analyse
from aiperf_spec.artifacts import names
from aiperf_spec.artifacts.write import writer
from aiperf_spec.artifacts.write.writer import ArtifactWriter
from aiperf_spec.config.settings import ProfileConfig, ReportSettings
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.models.run import DatasetInfo, RunResult
from tests.records import record

RECORDS = [record(i, start=i, contents=[5, 9], tokens=4, histogram={1: 3}) for i in range(6)]


def finished(folder: Path, harm: Callable[[], None], level: str = "raw") -> list[str]:
    """Return the errors of a run whose folder is harmed after half of the records."""
    config = ProfileConfig.create(url="http://h:1", artifact_dir=folder, export_level=level)
    info = RunResult(
        config=config,
        url=config.url,
        model="m",
        owned_by=None,
        dataset=DatasetInfo("p", None, 6, has_categories=False),
        wall_offset_ns=0,
        records=RECORDS,
        artifact_dir=folder,
    )
    with ArtifactWriter(config, ReportSettings()) as opened:
        opened.open(info)
        for each in RECORDS[:3]:
            opened.append(each)
        harm()
        for each in RECORDS[3:]:
            opened.append(each)
        return [fault.message for fault in opened.finish(info, summarise(RECORDS), analyse(RECORDS))]


def test_a_folder_that_is_gone_is_told_once(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (message,) = finished(folder, lambda: shutil.rmtree(folder))
    assert "could not be written: No such file or directory" in message


def test_a_file_in_the_place_of_the_folder_is_told_once(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    def harm() -> None:
        shutil.rmtree(folder)
        folder.write_text("")

    (message,) = finished(folder, harm)
    assert "could not be written: Not a directory" in message


def test_a_folder_in_the_place_of_a_file_costs_that_file_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (message,) = finished(folder, lambda: (folder / names.SUMMARY_JSON).mkdir())
    assert names.SUMMARY_JSON in message
    assert (folder / names.ANALYSIS_JSON).exists()
    assert (folder / names.SUMMARY_CSV).exists()
    assert not list(folder.glob(".*"))


def test_what_cannot_be_made_costs_that_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> bytes:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(writer, "summary_csv", fail)
    monkeypatch.setattr(writer, "raw_line", fail)
    folder = tmp_path / "run"
    messages = finished(folder, lambda: None)
    assert len(messages) == 2
    assert all("could not be made (ZeroDivisionError: by nothing)" in message for message in messages)
    assert len((folder / names.RECORDS_JSONL).read_text().splitlines()) == 6
    assert (folder / names.SUMMARY_JSON).exists()
