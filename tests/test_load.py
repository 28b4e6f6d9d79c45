"""Load shapes, against simulators."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import sysconfig
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from aiperf_spec.cli.app import app
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.load.event_loop import monitored_loop_lag
from aiperf_spec.load.notices import run_notices
from aiperf_spec.load.stop import Stop
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.models.run import DatasetInfo, ErrorKind, Notice, NoticeKind, RequestRecord, RunResult
from aiperf_spec.profiling import Hooks, profile, profile_async
from aiperf_spec.render.notices import notice_text
from aiperf_spec.render.run_header import run_table
from tests.answering import Answer, answering
from tests.raw_server import DONE, USAGE, Call, event, send_stream, serving, token
from tests.simulated_runs import request
from tests.support import Simulate
from tests.waiting import PATIENCE_SECONDS, happens

SCRIPT = str(Path(sysconfig.get_path("scripts")) / "spec-profile")


def run(url: str, **settings: Any) -> RunResult:
    return profile(ProfileConfig.create(url=url, temperature=0, server_metrics=False, **settings))


async def test_an_open_loop_does_not_wait_for_a_slow_server() -> None:
    # The server answers nobody until the last has asked: a loop that waited for an answer would never get one.
    asked = asyncio.Event()

    async def respond(call: Call, writer: asyncio.StreamWriter) -> None:
        if len(server.posts) == 40:
            asked.set()
        await asyncio.wait_for(asked.wait(), PATIENCE_SECONDS)
        await send_stream(writer, token("a"), token("b", "stop"), USAGE, DONE)

    settings: dict[str, Any] = {"request_rate": 40, "arrival_pattern": "constant", "request_count": 40}
    async with serving(respond) as server:
        config = ProfileConfig.create(url=server.url, model="m", server_metrics=False, **settings)
        result = await profile_async(config, Hooks())
    records = result.profiled()
    assert [record.error for record in records] == [None] * 40
    due = sorted(record.scheduled_ns or 0 for record in records)
    assert [at - due[0] for at in due] == [round(i / 40 * 1e9) for i in range(40)]
    stats = summarise(records).record_stats
    assert stats["schedule_lag"].min >= 0
    # A request is late by what the loop is late, and by no more than it takes to send a few.
    assert stats["schedule_lag"].value("p50") < 50 + max(result.loop_lags_ns) / 1e6
    assert stats["scheduled_latency"].avg == pytest.approx(
        stats["request_latency"].avg + stats["schedule_lag"].avg, rel=1e-9
    )


def test_a_cap_makes_requests_wait_and_says_so(simulate: Simulate) -> None:
    simulator = simulate("vllm", prefill_time_ms=100.0)
    simulator.reset_ledger()
    settings: dict[str, Any] = {"request_rate": 50, "arrival_pattern": "constant", "request_count": 20, "max_tokens": 1}
    result = run(simulator.url, concurrency=2, **settings)
    lag = summarise(result.records).record_stats["schedule_lag"]
    # Twenty requests of 0.1 s, two at a time, take a second; they were due within 0.4 s.
    assert lag.max > 300
    assert NoticeKind.SCHEDULE_LAG in {notice.kind for notice in result.notices}
    assert max(entry["in_flight"] for entry in simulator.ledger()) == 2
    # The n-th was sent when n - 2 had ended.
    records = sorted(result.profiled(), key=lambda record: record.start_ns)
    ends = sorted(record.end_ns for record in records)
    assert all(end <= record.start_ns for end, record in zip(ends, records[2:], strict=False))


def test_what_was_due_and_never_sent_is_counted(simulate: Simulate, tmp_path: Path) -> None:
    url, out = simulate("vllm", prefill_time_ms=300.0).url, tmp_path / "run"
    load = ("--request-rate", "100", "--arrival-pattern", "constant", "--concurrency", "2", "--benchmark-duration", "1")
    ran = CliRunner().invoke(app, ["--url", url, "--artifact-dir", str(out), *load, "--max-tokens", "4"])
    assert ran.exit_code == 0
    summary = json.loads((out / "profile_export_aiperf.json").read_text())
    sent = summary["request_count"]["avg"]
    assert 2 <= sent <= 8
    assert summary["unsent_request_count"] == {"unit": "requests", "avg": 100 - sent}
    assert summary["spec_profile"]["requests"]["unsent"] == 100 - sent
    outcome = f"{sent:.0f} of 100 succeeded, {100 - sent:.0f} never sent"
    assert outcome in ran.stdout
    assert "Scheduled latency (ms) †" in ran.stdout
    assert f"† Only requests that were sent: {100 - sent:.0f} more were due but never sent." in ran.stdout
    assert f"{100 - sent:.0f} requests of 100 were due but never sent" in " ".join(ran.stderr.split())
    again = CliRunner().invoke(app, ["report", str(out), "--require", "unsent_request_count <= 5"])
    assert again.exit_code == 3
    assert outcome in CliRunner().invoke(app, ["report", str(out), "--pool"]).stdout


def test_what_was_due_when_a_run_was_stopped_is_counted(simulate: Simulate) -> None:
    # Two of the requests that are due by then hold both slots for good, and the run is stopped a second later.
    url = simulate("vllm", faults=(("stall", 1.0),)).url
    settings: dict[str, Any] = {"request_rate": 20.0, "arrival_pattern": "constant", "concurrency": 2}

    async def stop_later(in_flight: Callable[[], int]) -> None:
        await happens(lambda: in_flight() == 2, "two requests in flight")
        await asyncio.sleep(1)
        stops[0].request("SIGINT")

    stops: list[Stop] = []
    config = ProfileConfig.create(url=url, temperature=0, server_metrics=False, request_count=1000, **settings)
    result = profile(config, Hooks(on_stop=stops.append, watch=stop_later))
    assert len(result.records) == 2
    # One is due each 50 ms; a busy machine is late with stopping, and more are due by then.
    assert result.unsent is not None
    assert 19 <= result.unsent < 998


def test_nothing_is_missed_where_all_is_sent(simulate: Simulate) -> None:
    url = simulate("vllm").url
    for settings in ({"request_count": 5}, {"request_count": 5, "request_rate": 100.0}, {"benchmark_duration": 0.2}):
        assert run(url, max_tokens=4, **settings).unsent == 0


def test_a_closed_loop_has_no_schedule(simulate: Simulate) -> None:
    stats = summarise(run(simulate("vllm").url, request_count=2).records).record_stats
    assert "schedule_lag" not in stats
    assert "scheduled_latency" not in stats


def test_a_duration_ends_the_sending_of_a_closed_loop(simulate: Simulate) -> None:
    now, ended = itertools.count(step=1000), 0

    def clock() -> int:
        return next(now) + (1_000_000_000 if ended >= 30 else 0)

    def end(record: RequestRecord) -> None:
        nonlocal ended
        ended += 1

    settings: dict[str, Any] = {"benchmark_duration": 1.0, "benchmark_grace_period": 60, "max_tokens": 20}
    config = ProfileConfig.create(url=simulate("vllm").url, concurrency=4, server_metrics=False, **settings)
    records = profile(config, Hooks(sinks=[end], clock=clock)).profiled()
    # The second was over when the thirtieth had ended; up to four were sent by then, and ended too.
    assert 30 <= len(records) <= 34
    assert all(record.succeeded for record in records)


def test_a_duration_ends_conversations_between_their_turns(simulate: Simulate, tmp_path: Path) -> None:
    now, ended = itertools.count(step=1000), 0

    def clock() -> int:
        return next(now) + (1_000_000_000 if ended >= 3 else 0)

    def end(record: RequestRecord) -> None:
        nonlocal ended
        ended += 1

    file = tmp_path / "turns.jsonl"
    file.write_text("".join(json.dumps({"turns": ["a", "b", "c", "d"], "session_id": name}) + "\n" for name in "xyz"))
    settings: dict[str, Any] = {"benchmark_duration": 1.0, "benchmark_grace_period": 60, "max_tokens": 4}
    config = ProfileConfig.create(
        url=simulate("vllm").url, input_file=file, concurrency=2, server_metrics=False, **settings
    )
    result = profile(config, Hooks(sinks=[end], clock=clock))
    records = result.profiled()
    # Two conversations have eight turns; the time was over when the third had ended.
    assert 3 <= len(records) <= 5
    assert all(record.succeeded for record in records)
    unsent = sum(record.unsent_turns for record in records)
    assert len(records) + unsent == 4 * len({record.prompt_id for record in records})
    [said] = [notice_text(notice) for notice in result.notices if notice.kind is NoticeKind.TURNS_OUT_OF_TIME]
    assert said.startswith("--benchmark-duration ended ")
    assert f"{unsent} turn" in said


def test_a_rate_of_conversations_is_that_of_their_starts_and_is_shown_as_such(
    simulate: Simulate, tmp_path: Path
) -> None:
    file = tmp_path / "turns.jsonl"
    file.write_text("".join(json.dumps({"turns": ["a", "b", "c"], "session_id": str(i)}) + "\n" for i in range(8)))
    settings: dict[str, Any] = {"request_rate": 20, "arrival_pattern": "constant", "max_tokens": 4}
    result = run(simulate("vllm").url, input_file=file, **settings)
    records = result.profiled()
    assert len(records) == 24
    due = [record.scheduled_ns for record in records if record.turn_index == 0]
    assert [at - (due[0] or 0) for at in due if at is not None] == [i * 50_000_000 for i in range(8)]
    assert {record.scheduled_ns for record in records if record.turn_index} == {None}
    console = Console(width=100, file=io.StringIO(), color_system=None)
    console.print(run_table(result, summarise(result.records)))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "20 conversations/s, constant" in shown
    requests_a_second = 24 / (summarise(result.records).run_values["benchmark_duration"])
    assert f"{requests_a_second:.2f} requests/s" in shown


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("workers", [1, 2])
def test_rows_are_sent_at_their_times(workers: int, simulate: Simulate, tmp_path: Path) -> None:
    rows = [{"turns": [str(time)], "timestamp": time} for time in (5400, 5000, 5150.5, 5000)]
    # One turn pauses, and the next is due at a time of its own; the last one's time is over when it can be sent.
    turns = [
        {"text": "a"},
        {"text": "b", "delay": 50},
        {"text": "c", "timestamp": 5350},
        {"text": "d", "timestamp": 5001},
    ]
    file = write(tmp_path / "trace.jsonl", *rows, {"session_id": "s", "timestamp": 5100, "turns": turns})
    result = run(simulate("vllm").url, input_file=file, fixed_schedule=True, max_tokens=4, workers=workers)
    records = result.profiled()
    assert [record.error for record in records] == [None] * 8
    starts_ns = min(record.scheduled_ns or 0 for record in records if record.turn_index == 0)
    due = {
        (record.prompt_id, record.turn_index): None if record.scheduled_ns is None else record.scheduled_ns - starts_ns
        for record in records
    }
    ms = 1_000_000
    assert due == {
        ("line-2", 0): 0,
        ("line-4", 0): 0,
        ("s", 0): 100 * ms,
        ("s", 1): None,
        ("s", 2): 350 * ms,
        ("s", 3): 1 * ms,
        ("line-3", 0): 150.5 * ms,
        ("line-1", 0): 400 * ms,
    }
    assert all(record.start_ns >= (record.scheduled_ns or 0) for record in records)
    talk = [record for record in records if record.prompt_id == "s"]
    assert talk[1].start_ns - talk[0].end_ns >= 50 * ms
    assert talk[3].start_ns >= talk[2].end_ns
    stats = summarise(result.records).record_stats
    assert stats["schedule_lag"].count == stats["scheduled_latency"].count == 7
    assert result.unsent == 0


def test_a_trace_that_is_cut_short_counts_what_was_due(simulate: Simulate, tmp_path: Path) -> None:
    # The first request holds the only slot for good, and the run is over a quarter of a second later.
    url = simulate("vllm", faults=(("stall", 1.0),)).url
    file = write(tmp_path / "trace.jsonl", *({"text": "a", "timestamp": time} for time in (0, 10, 20, 9000)))
    settings: dict[str, Any] = {"benchmark_duration": 0.25, "benchmark_grace_period": 0.0, "concurrency": 1}
    result = run(url, input_file=file, fixed_schedule=True, **settings)
    assert len(result.profiled()) == 1
    assert result.unsent == 2
    console = Console(width=100, file=io.StringIO(), color_system=None)
    console.print(run_table(result, summarise(result.records)))
    assert "fixed schedule, concurrency at most 1, for 0.25 s" in console.file.getvalue()  # type: ignore[attr-defined]


def test_figures_are_of_the_counts_where_the_length_as_sent_is_another() -> None:
    body = json.loads((Path(__file__).parent / "wire" / "vllm" / "chat-nonstream-n1.json").read_text())
    report = body["metrics"]["speculative_decoding"]
    counted = 1 + report["num_accepted_draft_tokens"] / report["num_spec_steps"]
    report["mean_acceptance_length"] = 1.0
    with answering(Answer(body)) as server:
        result = run(server.url, model="m", request_count=5, streaming=False)
    [said] = [notice_text(notice) for notice in result.notices if notice.kind is NoticeKind.OTHER_LENGTH]
    assert said.startswith("5 responses of 5 reported a mean acceptance length that does not follow from its counts: ")
    assert f"1.00 on average as sent, {counted:.2f} as 1 + accepted / steps" in said
    stats = summarise(result.records).record_stats
    assert stats["spec_decode_acceptance_length"].avg == counted
    assert stats["spec_decode_sent_acceptance_length"].avg == 1.0
    report["mean_acceptance_length"] = counted
    with answering(Answer(body)) as server:
        result = run(server.url, model="m", request_count=1, streaming=False)
    assert NoticeKind.OTHER_LENGTH not in {notice.kind for notice in result.notices}
    assert "spec_decode_sent_acceptance_length" not in summarise(result.records).record_stats


async def test_text_in_a_field_that_is_not_read_is_told() -> None:
    def thought(text: str) -> bytes:
        return event({"choices": [{"index": 0, "delta": {"thought [b]": text}}]})

    async def respond(call: Call, writer: asyncio.StreamWriter) -> None:
        await send_stream(writer, *map(thought, "abcde"), token("a"), token("b", "stop"), USAGE, DONE)

    async with serving(respond) as server:
        config = ProfileConfig.create(url=server.url, model="m", server_metrics=False, request_count=2, temperature=0)
        result = await profile_async(config, Hooks())
    [said] = [notice_text(notice) for notice in result.notices if notice.kind is NoticeKind.UNREAD_FIELDS]
    assert said.startswith("in 2 responses of 2, most chunks without content have text in a field that is not known, ")
    assert "thought [b]" in said


@pytest.mark.parametrize(("limit", "legacy"), [(1, False), (1, True), (2, False)])
def test_a_limit_that_the_server_ignores_is_told(limit: int, legacy: bool) -> None:
    with answering(Answer()) as server:
        result = run(server.url, model="m", request_count=3, max_tokens=limit, use_legacy_max_tokens=legacy)
    said = [notice_text(notice) for notice in result.notices if notice.kind is NoticeKind.MAX_TOKENS_IGNORED]
    if limit == 2:
        assert said == []
    else:
        [text] = said
        assert text.startswith("3 responses of 3 had more tokens")
        assert ("leave out --use-legacy-max-tokens" if legacy else "add --use-legacy-max-tokens") in text


def test_a_duration_ends_the_sending_of_an_open_loop(simulate: Simulate) -> None:
    settings: dict[str, Any] = {"request_rate": 60, "arrival_pattern": "constant", "request_count": 200}
    result = run(simulate("vllm").url, benchmark_duration=1.0, benchmark_grace_period=60, max_tokens=20, **settings)
    records = result.profiled()
    # Due are one at 0 s, and one each sixtieth after it: the last within the second is the sixtieth.
    assert len(records) == 60
    assert all(record.succeeded for record in records)


def test_the_grace_period_ends_what_is_stalled(simulate: Simulate) -> None:
    # The server never ends a response: that the run ends is the grace period's doing.
    url = simulate("vllm", faults=(("stall", 1.0),)).url
    begun = time.monotonic()
    result = run(url, benchmark_duration=0.5, benchmark_grace_period=0.5, concurrency=3)
    assert time.monotonic() - begun > 0.9
    assert len(result.records) == 3
    assert {record.error.kind for record in result.records if record.error} == {ErrorKind.CANCELLED}
    assert result.stopped_by is None


async def test_a_blocked_loop_is_seen() -> None:
    async with monitored_loop_lag(time.perf_counter_ns) as lags_ns:
        await happens(lambda: len(lags_ns) > 0, "a first beat")
        time.sleep(0.2)  # noqa: ASYNC251  what a saturated client does
        await happens(lambda: max(lags_ns) > 100e6, "a late beat")


async def test_a_lag_is_what_a_beat_was_late_by() -> None:
    now = 0
    async with monitored_loop_lag(lambda: now) as lags_ns:
        await happens(lambda: len(lags_ns) == 3, "three beats")
        now += 220_000_000
        await happens(lambda: len(lags_ns) > 4, "two beats more")
    assert [lag for lag in lags_ns if lag] == [200_000_000]


def test_a_saturated_client_says_so(simulate: Simulate) -> None:
    def block(record: object) -> None:
        time.sleep(0.05)

    config = ProfileConfig.create(url=simulate("vllm").url, request_count=20, max_tokens=4, concurrency=2)
    result = profile(config, Hooks(sinks=[block]))
    (notice,) = (n for n in result.notices if n.kind is NoticeKind.SATURATED)
    assert notice.values["p99"] > 10
    assert "which is up to" in notice_text(notice)


def test_a_lag_that_hardly_moves_the_figures_is_not_told() -> None:
    lags = array("q", [0] * 90 + [30_000_000] * 10)
    records = [replace(request(i, (1, 1)), first_content_ns=900_000_000, last_content_ns=None) for i in range(10)]

    def told(records: Sequence[RequestRecord], streaming: bool = True) -> list[Notice]:
        run = RunResult(
            config=ProfileConfig(url="h", streaming=streaming),
            url="h",
            model="m",
            owned_by=None,
            dataset=DatasetInfo("d", None, 1, has_categories=False),
            wall_offset_ns=0,
            records=records,
            loop_lags_ns=lags,
        )
        found = run_notices(run, proxy=None, adapter_warnings=())
        return [notice for notice in found if notice.kind is NoticeKind.SATURATED]

    assert told(records) == []
    (notice,) = told([replace(record, first_content_ns=100_000_000) for record in records])
    assert notice.values["share"] == pytest.approx(0.3)
    assert notice.values["figure"] == "TTFT p99"
    unstreamed = [
        replace(record, first_content_ns=None, last_content_ns=100_000_000, streaming=False) for record in records
    ]
    assert told(unstreamed, streaming=False)[0].values["figure"] == "latency p99"
