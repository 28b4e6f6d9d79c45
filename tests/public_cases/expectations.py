"""Hold a run against what its case expects."""

from __future__ import annotations

import re
from typing import Any

import pytest

from aiperf_spec import DropReason, RequestRecord
from aiperf_spec.metrics.table import RECORD_METRICS
from tests.public_cases.running import Run, first_token_ms, gaps_ms

_NO_NUMBER = re.compile(r"\b(nan|inf|infinity)\b", re.IGNORECASE)


def check(run: Run) -> None:
    """Assert every stated expectation, and what holds for each case: complete, strict and finite output."""
    assert len(run.records) == run.case.request["requests"]
    for record in run.records:
        _check_record(run, record, run.case.expected(record.index))
    _check_averages(run)
    _check_requests(run)
    _check_output(run)


def _check_record(run: Run, record: RequestRecord, expected: dict[str, Any]) -> None:
    if expected["outcome"] == "success":
        _check_success(run, record, expected)
    elif expected["outcome"] == "failure":
        assert record.error is not None, f"request {record.index} succeeded"
        assert record.error.message, "a failure says why"
        assert expected.get("message_has", "") in record.error.message, record.error.message
    if not record.succeeded:
        assert record.drop_reason is DropReason.FAILED
        assert [metric.tag for metric in RECORD_METRICS if metric.value(record) is not None] == []


def _check_success(run: Run, record: RequestRecord, expected: dict[str, Any]) -> None:
    assert record.error is None, record.error
    responses = run.responses(record.index)
    text = "".join(response.text for response in responses)
    if "text" in expected:
        assert text == expected["text"]
    if "text_len" in expected:
        assert len(text) == expected["text_len"]
    if "content_chunks" in expected:
        assert sum(response.is_content for response in responses) == expected["content_chunks"]
        assert len(gaps_ms(record)) + 1 == expected["content_chunks"]
        assert min(gaps_ms(record), default=0) >= 0
    if "output_tokens" in expected:
        assert record.output_tokens == expected["output_tokens"]
    if "ttft_ms" in expected:
        low, high = expected["ttft_ms"]
        assert low <= first_token_ms(record) <= high, first_token_ms(record)
    if "itl_max_ms" in expected:
        assert max(gaps_ms(record)) <= expected["itl_max_ms"], gaps_ms(record)
    if "spec" in expected and expected["spec"] != "same_or_none":
        _check_acceptance(record, expected["spec"])


def _check_acceptance(record: RequestRecord, spec: dict[str, Any] | None) -> None:
    if spec is None:
        assert record.acceptance is None
        assert record.drop_reason is not None
        return
    acceptance = record.acceptance
    assert acceptance is not None, record.drop_reason
    assert acceptance.mean_acceptance_length == pytest.approx(spec["accept_len"])
    assert acceptance.draft_acceptance_rate == pytest.approx(spec["accept_rate"])
    assert acceptance.acceptance_histogram == {int(bucket): steps for bucket, steps in spec["hist"].items()}


def _check_averages(run: Run) -> None:
    good = [record for record in run.records if record.succeeded]
    assert run.summary.succeeded == len(good)
    assert run.summary.failed == len(run.records) - len(good)
    for metric in RECORD_METRICS:
        values = [value for record in good if (value := metric.value(record)) is not None]
        count = sum(len(value) if isinstance(value, list) else 1 for value in values)
        stats = run.summary.record_stats.get(metric.tag)
        assert (0 if stats is None else stats.count) == count, metric.tag


def _check_requests(run: Run) -> None:
    # A request that is sent once is counted once; none of the cases is of a connection gone stale.
    assert len(run.stub.posts) == len(run.records)
    assert not any(record.retried for record in run.records)
    for asked in run.stub.posts:
        assert asked.body.get("stream_options") == ({"include_usage": True} if run.case.request["stream"] else None)
        assert asked.headers["accept-encoding"] == "identity"


def _check_output(run: Run) -> None:
    printed = run.printed
    total = len(run.records)
    assert f"{run.summary.succeeded} of {total} request{'s' if total > 1 else ''} succeeded" in printed
    assert not _NO_NUMBER.search(printed), printed
    assert not _NO_NUMBER.search((run.folder / "profile_export_aiperf.csv").read_text())
    if not run.summary.succeeded:
        assert "TTFT" not in printed
        assert "Failed requests" in printed
    lines = {line["metadata"]["session_num"]: line for line in run.lines()}
    assert sorted(lines) == [record.index for record in run.records]
    assert len(run.raw_lines()) == total
    for record in run.records:
        line = lines[record.index]
        assert ("error" in line) is not record.succeeded
        assert (line.get("spec_decode_acceptance") is None) is (record.acceptance is None)
        if not record.succeeded:
            assert line["metrics"] == {}
    assert run.document()["request_count"]["avg"] == run.summary.succeeded
