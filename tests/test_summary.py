"""Figures of a run made by hand."""

from __future__ import annotations

from array import array

import pytest

from aiperf_spec.metrics.summary import summarise
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.run import ErrorKind, Phase, RequestError, RequestRecord
from tests.records import MS, acceptance, failed, record


def test_latencies_of_one_request() -> None:
    summary = summarise([record(0, start=0, contents=(100, 150, 300), tokens=5)])
    values = {tag: stats.avg for tag, stats in summary.record_stats.items()}
    assert values["time_to_first_token"] == 100
    assert values["request_latency"] == 300
    assert values["inter_token_latency"] == 50
    assert values["inter_chunk_latency"] == 100
    assert values["output_token_throughput_per_user"] == 20
    assert summary.record_stats["inter_chunk_latency"].count == 2


def test_a_bundled_first_chunk_does_not_change_the_divisor() -> None:
    summary = summarise([record(0, start=0, contents=(100, 150, 200, 250), tokens=7)])
    assert summary.record_stats["inter_token_latency"].avg == 25


@pytest.mark.parametrize("tokens", [None, 0, 1])
def test_below_two_tokens_there_is_no_inter_token_latency(tokens: int | None) -> None:
    summary = summarise([record(0, start=0, contents=(100, 150), tokens=tokens)])
    assert "inter_token_latency" not in summary.record_stats
    assert "output_token_throughput_per_user" not in summary.record_stats


def test_content_that_came_in_one_read_came_in_no_time_that_was_measured() -> None:
    summary = summarise([record(0, start=0, contents=(100, 100, 100), tokens=3)])
    assert summary.record_stats["inter_chunk_latency"].max == 0
    assert "inter_token_latency" not in summary.record_stats
    assert "output_token_throughput_per_user" not in summary.record_stats
    assert summary.record_stats["time_to_first_token"].avg == 100


def test_a_body_has_a_latency_alone() -> None:
    whole = RequestRecord(0, Phase.PROFILING, "p", None, start_ns=0, end_ns=300 * MS, last_content_ns=300 * MS)
    whole.output_tokens = 10
    assert set(summarise([whole]).record_stats) == {"request_latency", "output_sequence_length"}


def test_failed_and_warm_up_requests_are_in_no_figure() -> None:
    good = record(0, start=0, contents=(100, 200), tokens=2, histogram={0: 1, 2: 1})
    warm = record(1, start=0, contents=(900, 990), tokens=50, phase=Phase.WARMUP, histogram={5: 9})
    bad = failed(2, ErrorKind.HTTP_STATUS, status=500)
    bad.last_content_ns, bad.output_tokens, bad.acceptance = 5000 * MS, 99, acceptance({5: 5})
    summary = summarise([good, warm, bad])
    assert summary.record_stats["request_latency"].max == 200
    assert summary.run_values["benchmark_duration"] == pytest.approx(0.2)
    assert summary.run_values["output_token_throughput"] == pytest.approx(10)
    assert summary.acceptance.steps == 2
    assert (summary.succeeded, summary.failed, summary.total) == (1, 1, 2)
    assert summary.drop_reasons == {DropReason.FAILED: 1}


def test_pooled_and_mean_are_different_figures() -> None:
    # One step that accepted its one draft, and nine that accepted none: 2.0 and 1.0 by request, 1.1 by step.
    records = [
        record(0, start=0, contents=(1,), tokens=2, histogram={1: 1}, proposed=3),
        record(1, start=0, contents=(1,), tokens=9, histogram={0: 9}, proposed=27),
        record(2, start=0, contents=(1,), tokens=9, reason=DropReason.ABSENT),
    ]
    summary = summarise(records)
    assert summary.record_stats["spec_decode_acceptance_length"].avg == 1.5
    assert summary.record_stats["spec_decode_acceptance_length"].count == 2
    assert summary.run_values["spec_decode_token_weighted_acceptance_length"] == pytest.approx(1.1)
    assert summary.record_stats["spec_decode_draft_acceptance_rate"].avg == pytest.approx(100 / 6)
    assert summary.run_values["spec_decode_overall_draft_acceptance_rate"] == pytest.approx(100 / 30)
    assert summary.acceptance.requests == 2
    assert sum(summary.drop_reasons.values()) + summary.acceptance.requests == summary.total


def test_throughput_needs_the_tokens_of_every_request() -> None:
    records = [record(0, start=0, contents=(100,), tokens=10), record(1, start=0, contents=(100,), tokens=None)]
    summary = summarise(records)
    assert "output_token_throughput" not in summary.run_values
    assert summary.run_values["request_throughput"] == pytest.approx(20)


def test_categories_say_how_many_requests_stand_behind_them() -> None:
    records = [
        record(0, start=0, contents=(1,), tokens=2, histogram={2: 2}, category="coding"),
        record(1, start=0, contents=(1,), tokens=2, histogram={0: 2}, category="coding"),
        record(2, start=0, contents=(1,), tokens=2, reason=DropReason.ZERO_STEP, category="coding"),
        record(3, start=0, contents=(1,), tokens=2, histogram={1: 1}),
    ]
    coding = summarise(records).categories["coding"]
    assert (coding.requests, coding.acceptance.requests, coding.acceptance.length) == (3, 2, 2.0)
    assert summarise(records).run_values["spec_decode_zero_step_requests"] == 1


def test_errors_are_grouped_with_their_first_message() -> None:
    records = [
        failed(0, ErrorKind.HTTP_STATUS, status=503, message="first"),
        failed(1, ErrorKind.HTTP_STATUS, status=503, message="second"),
        failed(2, ErrorKind.HTTP_STATUS, status=400),
        failed(3, ErrorKind.CANCELLED),
    ]
    summary = summarise(records)
    assert (summary.errors[0].first.message, summary.errors[0].count) == ("first", 2)
    assert len(summary.errors) == 3
    assert (summary.failed, summary.cancelled, summary.succeeded) == (3, 1, 0)
    assert "benchmark_duration" not in summary.run_values


def test_a_success_without_content_lasts_to_its_end() -> None:
    silent = RequestRecord(0, Phase.PROFILING, "p", None, start_ns=0, end_ns=50 * MS, chunk_gaps_ns=array("q"))
    silent.output_tokens = 1
    summary = summarise([silent])
    assert summary.run_values["benchmark_duration"] == pytest.approx(0.05)
    assert "time_to_first_token" not in summary.record_stats
    assert "request_latency" not in summary.record_stats


def test_an_empty_run_has_no_figures() -> None:
    summary = summarise([])
    assert summary.record_stats == {}
    assert summary.run_values == {"request_count": 0, "error_request_count": 0}


def test_request_errors_are_values() -> None:
    assert RequestError(ErrorKind.EMPTY, "x") == RequestError(ErrorKind.EMPTY, "x")
