"""Summaries that others wrote, or wrote wrongly: what is wrong in one costs no more than itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.artifacts.read.run import load_run, run_settings
from aiperf_spec.artifacts.read.summary_file import SummaryFile, summary_of
from aiperf_spec.artifacts.write.summary_files import summary_json
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.metrics.table import RECORD_METRICS, RUN_METRICS
from tests.test_export import run_of, some_records

AIPERF = Path(__file__).parent / "aiperf" / "vllm-speedbench"
WRONG: list[Any] = [None, True, "x", 10**400, [1], {"x": 1}]
OURS = json.loads(summary_json(run_of(some_records()), summarise(some_records())))
OURS["spec_profile"]["reconciliation"] = {
    **{"agreement": "exact", "requests_reported": 1, "requests_silent": {}, "server_requests": 1, "settled": True},
    "counts": [{"name": "steps", "metric": "m", "requests": 3, "server": 3}],
}
OURS["spec_profile"]["notices"] = [{"kind": "unpinned_sampling"}, {"kind": "retried", "requests": 1}]
# A value of a wrong type in one of these, and the whole is not to be shown.
STATISTICS = ("/summary/record_stats/", "/summary/run_values/")
PARTS = (
    "input_config",
    "spec_profile",
    "error_summary",
    "pooled_spec_decode_acceptance_histogram",
    "benchmark_id",
    "start_time",
)
WHOLE = ("reconciliation", "notices")


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*path, key))


def flat(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {name: each for key, inner in value.items() for name, each in flat(inner, f"{path}/{key}").items()}
    if isinstance(value, list | tuple):
        return flat(dict(enumerate(value)), path)
    return {path: value}


def figures(document: dict[str, Any]) -> dict[str, Any]:
    file = SummaryFile.model_validate(document)
    found = {"summary": asdict(summary_of(file)), "settings": asdict(run_settings(file))}
    return flat(
        {
            **found,
            "model": file.model,
            "selectors": file.selectors,
            "own": file.model_dump(include=set(SummaryFile.model_fields)),
        }
    )


@pytest.mark.parametrize("document", [OURS, json.loads((AIPERF / "profile_export_aiperf.json").read_text())])
def test_a_wrong_value_costs_no_more_than_its_own_figures(document: dict[str, Any]) -> None:
    before = figures(document)
    shown = {metric.tag for metric in RECORD_METRICS} | {metric.tag for metric in RUN_METRICS}
    small = {key: value for key, value in document.items() if key in {*shown, *PARTS}}
    assert figures(small) == before
    for path in leaves(small):
        for wrong in WRONG:
            changed = deepcopy(small)
            holder = changed
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = wrong
            after = figures(changed)
            lost = {name for name in before if after.get(name) != before[name]}
            # Of a metric, its own statistics alone; of all else, no metric.
            metrics = {name.split("/")[3] for name in lost if name.startswith(STATISTICS)}
            assert metrics <= {path[0]}, (path, wrong)
            if len(path) > 2 and path[0] == "spec_profile" and path[1] not in WHOLE:
                assert all(f"/{path[1]}" in name or "/summary/" in name for name in lost), (path, wrong)


def test_each_file_of_a_run_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from aiperf_spec.cli.app import app

    opened: list[str] = []
    path_open = Path.open

    def counting(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.parent == AIPERF:
            opened.append(path.name)
        return path_open(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", counting)
    page = tmp_path / "page.html"
    asked = ["--html", str(page), "--analysis", "--require", "acceptance_length >= 1"]
    result = CliRunner().invoke(app, ["report", str(AIPERF), *asked])
    assert result.exit_code == 0, result.output
    assert opened.count("profile_export.jsonl") == 1
    assert opened.count("profile_export_aiperf.json") == 1
    assert len(opened) == len(set(opened))


def test_records_of_several_clients_are_numbered_apart_and_stay_as_they_were() -> None:
    run = RunFolder(AIPERF, keep=True)
    before = [record.index for record in run.records().records]
    together = load_run([run, run]).result.records
    assert len({(record.phase, record.index) for record in together}) == len(together) == 2 * len(before)
    assert [record.index for record in run.records().records] == before
