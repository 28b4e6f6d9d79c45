"""Lines and summaries written and read back."""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aiperf_spec.analysis.comparison.mismatches import RunSettings
from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.artifacts.read.records import load_records
from aiperf_spec.artifacts.read.run import run_settings
from aiperf_spec.artifacts.write.record_lines import record_line, to_json
from aiperf_spec.artifacts.write.summary_files import input_config, summary_csv, summary_json
from aiperf_spec.config.server_url import split_endpoint
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import SpecProfileError
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.run import DatasetInfo, ErrorKind, Phase, RequestRecord, RunResult
from tests.records import failed, record

AIPERF = Path(__file__).parent / "aiperf" / "vllm-speedbench"


def some_records() -> list[RequestRecord]:
    return [
        replace(
            record(0, start=9, contents=(100, 150, 300), tokens=5, histogram={0: 2, 3: 1}, category="coding"),
            scheduled_ns=1_500_000,
        ),
        record(1, start=40, contents=(90,), tokens=1, reason=DropReason.ZERO_STEP, category="math"),
        replace(record(2, start=5, contents=(7, 8), tokens=None, reason=DropReason.ABSENT), connect_ns=1_234_567),
        failed(3, ErrorKind.HTTP_STATUS, status=503, message="over\u2028loaded"),
        record(4, start=0, contents=(1, 2), tokens=2, histogram={1: 1}, phase=Phase.WARMUP),
    ]


def written(folder: Path, records: list[RequestRecord]) -> Path:
    (folder / "profile_export.jsonl").write_bytes(b"".join(record_line(r, 0) for r in records))
    return folder


def strict(text: str | bytes) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def run_of(records: list[RequestRecord], **settings: Any) -> RunResult:
    return RunResult(
        config=ProfileConfig(url="http://host:1", api_key="sk-secret", **settings),
        url="http://host:1/v1",
        model="m",
        owned_by="vllm",
        dataset=DatasetInfo("built-in", None, 35, has_categories=True),
        wall_offset_ns=1_800_000_000_000_000_000,
        records=records,
        run_id="abc",
    )


def test_records_read_back_as_they_were(tmp_path: Path) -> None:
    records = some_records()
    records[0].prompt_hash, records[0].finish_reason = "0123456789abcdef", "length"
    loaded = load_records(written(tmp_path, records))
    assert loaded.unreadable == ()
    assert len(loaded.records) == len(records)
    for before, after in zip(records, loaded.records, strict=True):
        for name in (
            "index",
            "phase",
            "category",
            "prompt_id",
            "prompt_hash",
            "finish_reason",
            "start_ns",
            "first_content_ns",
            "last_content_ns",
        ):
            assert getattr(after, name) == getattr(before, name), name
        assert after.connect_ns == before.connect_ns
        assert after.scheduled_ns == before.scheduled_ns
        assert after.acceptance == before.acceptance
        assert after.drop_reason == before.drop_reason
        assert after.error == before.error
        assert after.output_tokens == before.output_tokens
    again = summarise(loaded.records)
    assert again.record_stats == summarise(records).record_stats
    assert again.run_values == summarise(records).run_values


def test_aiperfs_records_read_too() -> None:
    loaded = load_records(AIPERF)
    assert loaded.unreadable == ()
    theirs = json.loads((AIPERF / "profile_export_aiperf.json").read_text())
    ours = summarise(loaded.records)
    for tag in ("spec_decode_token_weighted_acceptance_length", "total_spec_decode_steps", "total_osl"):
        assert ours.run_values[tag] == pytest.approx(theirs[tag]["avg"])
    for tag in ("time_to_first_token", "inter_chunk_latency", "request_latency"):
        assert ours.record_stats[tag].value("p99") == pytest.approx(theirs[tag]["p99"], rel=1e-6)
    assert {name: round(c.acceptance.length or 0, 2) for name, c in ours.categories.items()} == {
        "coding": 1.98,
        "math": 1.77,
        "qa": 4.24,
        "writing": 1.62,
    }


def test_a_cut_or_foreign_line_costs_only_itself(tmp_path: Path) -> None:
    folder = written(tmp_path, some_records())
    path = folder / "profile_export.jsonl"
    path.write_bytes(b'{"metadata": 5}\n[]\n' + path.read_bytes() + b'{"metadata": {"sess')
    loaded = load_records(folder)
    assert len(loaded.records) == 5
    assert loaded.unreadable == (1, 2, 8)


def test_a_record_that_contradicts_itself_is_not_read(tmp_path: Path) -> None:
    folder = written(tmp_path, some_records())
    path = folder / "profile_export.jsonl"
    path.write_text(path.read_text().replace('"num_spec_steps":3', '"num_spec_steps":4'))
    assert load_records(folder).unreadable == (1,)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecProfileError, match=r"profile_export\.jsonl"):
        load_records(tmp_path)


def test_the_summary_has_aiperfs_shape() -> None:
    result = run_of(some_records())
    document = strict(summary_json(result, summarise(result.records)))
    theirs = json.loads((AIPERF / "profile_export_aiperf.json").read_text())
    shared = {tag for tag, metric in document.items() if isinstance(metric, dict) and "unit" in metric} & theirs.keys()
    assert "request_latency" in shared
    for tag in shared:
        assert document[tag]["unit"] == theirs[tag]["unit"]
        assert document[tag].keys() == theirs[tag].keys(), tag
    assert document["pooled_spec_decode_acceptance_histogram"] == {"0": 2, "3": 1}
    assert document["input_config"]["models"] == theirs["input_config"]["models"] | {"items": [{"name": "m"}]}
    assert document["input_config"]["endpoint"]["urls"] == ["http://host:1"]
    assert document["error_summary"] == [
        {"error_details": {"code": 503, "type": "http_status", "message": "over\u2028loaded"}, "count": 1}
    ]
    assert document["spec_profile"]["drop_reasons"] == {"absent": 1, "failed": 1, "zero_step": 1}
    assert document["spec_profile"]["requests"] == {
        "total": 4,
        "succeeded": 3,
        "failed": 1,
        "cancelled": 0,
        "unsent": None,
        "with_acceptance": 1,
    }
    assert document["warmup_metrics"]["request_count"]["avg"] == 1
    assert "sk-secret" not in json.dumps(document)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("host:1", "http://host:1"),
        ("http://host/v1", "http://host/v1"),
        ("http://host/openai/deployments/x/chat/completions", "http://host/openai/deployments/x"),
        ("http://user:hush@host/p/v1/?key=hush", "http://host/p/v1"),
    ],
)
def test_the_summary_names_the_url(given: str, told: str) -> None:
    config = ProfileConfig.create(url=given)
    result = replace(run_of(some_records()), config=config, url=split_endpoint(given).base)
    assert input_config(result)["endpoint"]["urls"] == [told]


def test_the_csv_has_no_figure_for_what_was_not_measured() -> None:
    text = summary_csv(summarise([failed(0, ErrorKind.CONNECT_ERROR)])).decode()
    assert text.splitlines() == ["Metric,Value", "Error Request Count,1.00", "Request Count,0.00"]


def test_json_stays_strict() -> None:
    hostile = {"nan": math.nan, "inf": -math.inf, "surrogate": "\ud800", "huge": 2**70, "huger": 10**400, 5: "key"}
    written = strict(to_json(hostile))
    assert written == {"nan": None, "inf": None, "surrogate": "?", "huge": 2**70, "huger": None, "5": "key"}


@pytest.mark.parametrize("compressed", [False, True])
def test_what_a_run_was_is_read_back_from_its_summary(tmp_path: Path, compressed: bool) -> None:
    result = run_of(some_records(), request_rate=12.5)
    dataset = replace(result.dataset, name="p.jsonl", path="/a/p.jsonl", file_hashes=("0123456789abcdef",))
    result = replace(result, dataset=dataset)
    data = summary_json(result, summarise(result.records))
    name = "profile_export_aiperf.json"
    (tmp_path / (f"{name}.gz" if compressed else name)).write_bytes(gzip.compress(data) if compressed else data)
    settings = run_settings(RunFolder(tmp_path).described)
    assert (settings.model, settings.endpoint, settings.streaming, settings.rate) == ("m", "chat", True, 12.5)
    assert (settings.prompts, settings.prompts_path) == ("p.jsonl", "/a/p.jsonl")
    assert settings.prompt_hashes == ("0123456789abcdef",)
    assert RunFolder(tmp_path).described.benchmark_id == "abc"


def test_a_summary_that_cannot_be_read_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "profile_export_aiperf.json").write_bytes(b"[1, 2")
    assert run_settings(RunFolder(tmp_path).described) == RunSettings()
    assert RunFolder(tmp_path).summary is None
