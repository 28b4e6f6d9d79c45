"""Outages in records made by hand, and what is said of them."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from aiperf_spec.config.settings import ProfileConfig, ReportSettings
from aiperf_spec.metrics.outage import outages, with_outage
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.models.run import DatasetInfo, ErrorKind, RequestRecord, RunResult
from aiperf_spec.render.run_report import run_report
from tests.records import MS, failed, record

S = 1000 * MS


def answered(index: int, start_ms: int, *, lasts_ms: int = 90) -> RequestRecord:
    return record(index, start=start_ms, contents=(lasts_ms // 2, lasts_ms), tokens=10)


def lost(index: int, start_ms: int, kind: ErrorKind = ErrorKind.CONNECT_ERROR, *, lasts_ms: int = 5) -> RequestRecord:
    status = 503 if kind is ErrorKind.HTTP_STATUS else None
    return replace(failed(index, kind, status=status), start_ns=start_ms * MS, end_ns=(start_ms + lasts_ms) * MS)


def test_an_outage_at_the_end_is_not_in_the_throughput_and_is_said() -> None:
    good = [answered(i, 100 * i) for i in range(20)]
    bad = [lost(20 + i, 2000 + 100 * i) for i in range(81)]
    values = summarise([*good, *bad]).run_values
    assert values["benchmark_duration"] == pytest.approx(1.99)
    assert values["request_throughput"] == pytest.approx(20 / 1.99)
    assert values["outage_duration"] == pytest.approx(10.005 - 2.0)
    assert values["duration_with_outage"] == pytest.approx(10.005)
    assert with_outage(values) == pytest.approx(10.005)


def test_an_outage_in_the_middle_is_in_the_duration() -> None:
    good = [*(answered(i, 100 * i) for i in range(10)), *(answered(30 + i, 5000 + 100 * i) for i in range(10))]
    bad = [lost(10 + i, 1000 + 200 * i, ErrorKind.HTTP_STATUS) for i in range(20)]
    values = summarise([*good, *bad]).run_values
    assert values["outage_duration"] == pytest.approx(4.805 - 1.0)
    assert values["duration_with_outage"] == values["benchmark_duration"] == pytest.approx(5.99)
    assert with_outage(values) is None


def test_one_at_the_start_begins_with_the_first_failure() -> None:
    records = [*(lost(i, 1000 * i) for i in range(4)), answered(9, 9000)]
    assert outages(records) == [(0, 3005 * MS)]
    assert summarise(records).run_values["duration_with_outage"] == pytest.approx(9.09)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param([lost(i, 2000 + 400 * i) for i in range(2)], id="two failures"),
        pytest.param([lost(i, 2000 + 100 * i) for i in range(8)], id="less than a second"),
        pytest.param([lost(i, 2000 + 900 * i, ErrorKind.CANCELLED) for i in range(8)], id="cancelled"),
        pytest.param(
            [replace(failed(i, ErrorKind.HTTP_STATUS, status=400), end_ns=(3 + i) * S) for i in range(8)], id="refused"
        ),
    ],
)
def test_what_is_no_outage(bad: list[RequestRecord]) -> None:
    assert outages([answered(100, 0), *bad]) == []
    assert "outage_duration" not in summarise([answered(100, 0), *bad]).run_values


def test_a_request_that_succeeds_meanwhile_shows_that_the_server_answers() -> None:
    bad = [lost(i, 1000 * i) for i in range(9)]
    assert outages([answered(100, 500, lasts_ms=8000), *bad]) == []
    assert outages(bad) == []


def test_what_is_shown_beside_the_throughput() -> None:
    config = ProfileConfig(url="h:1")
    late = [*(answered(i, 100 * i) for i in range(20)), *(lost(20 + i, 2000 + 100 * i) for i in range(81))]
    between = [answered(0, 0), *(lost(1 + i, 1000 + 200 * i) for i in range(20)), answered(30, 5000)]
    for records, said, clause in (
        (late, "over all 10.01 s it is 2.00 requests/s, 19.99 output tokens/s", "(without an outage of 8.0 s)"),
        (between, "requests failed in that time; the throughput includes it", "(with an outage of 3.8 s)"),
        (late[:20], None, None),
    ):
        info = DatasetInfo("built-in", None, 101, has_categories=False)
        result = RunResult(
            config=config, url="h", model="m", owned_by=None, dataset=info, wall_offset_ns=0, records=records
        )
        console = Console(width=100, file=io.StringIO(), color_system=None)
        console.print(run_report(result, summarise(records), settings=ReportSettings(full=True)))
        shown = " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]
        assert (said or "Throughput") in shown
        assert (clause or "tok/s") in shown
        assert ("outage" in shown) is (said is not None)
