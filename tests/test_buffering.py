"""Streams that arrive whole or in clumps, which no engine sends so."""

from __future__ import annotations

import json
from array import array
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from aiperf_spec.load.notices import run_notices
from aiperf_spec.metrics.buffering import came_in_clumps, came_in_one_read, came_token_by_token
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.models.run import NoticeKind, RequestRecord
from aiperf_spec.render.notices import notice_text
from aiperf_spec.render.tables import latency_table
from tests.answering import Answer, answering
from tests.records import MS, record
from tests.simulated_runs import request
from tests.test_analysis_cli import invoke, profile, words
from tests.test_tables import a_run, shown


def stream(contents: list[float], tokens: int | None = None) -> RequestRecord:
    """Return a stream whose content came at these ms."""
    stamps = [round(MS * each) for each in contents]
    made = record(0, start=0, contents=(1, 2), tokens=len(contents) if tokens is None else tokens)
    gaps = array("q", (later - earlier for earlier, later in pairwise(stamps)))
    return replace(made, first_content_ns=stamps[0], last_content_ns=stamps[-1], chunk_gaps_ns=gaps)


STEADY = [float(20 * i) for i in range(100)]
STALLED = [*STEADY[:50], *(each + 60_000 for each in STEADY[50:])]
CLUMPS = [500.0 * (i // 20) + 0.03 * (i % 20) for i in range(100)]
"""Buffers of 20 events, each of which a few reads bring."""
STEPS = [20.0 * (i // 6) for i in range(120)]
"""Every token by itself, the six of a verify step at once."""


@pytest.mark.parametrize("contents", [STEADY, STALLED, STEPS, CLUMPS[:16], [1.0], [0.001 * i for i in range(8)]])
def test_what_an_engine_sends_is_no_clumps(contents: list[float]) -> None:
    assert not came_in_clumps(stream(contents))


@pytest.mark.parametrize("contents", [CLUMPS, [0.001 * i for i in range(40)]], ids=["buffers", "nearly at once"])
def test_what_a_buffer_sends_is_clumps(contents: list[float]) -> None:
    assert came_in_clumps(stream(contents))


def test_long_steps_of_an_engine_that_sends_every_token_by_itself_are_no_clumps() -> None:
    contents = [20.0 * (i // 12) for i in range(120)]
    drafted = request(0, (11,) * 10, k=15)
    assert came_in_clumps(stream(contents))
    assert not came_in_clumps(replace(stream(contents), acceptance=drafted.acceptance))


def test_the_tokens_of_a_step_as_chunks_of_their_own_are_the_engines_doing() -> None:
    drafted = replace(stream(STEPS), acceptance=request(0, (5,) * 20, k=5).acceptance)
    assert came_token_by_token(drafted)
    assert not came_in_clumps(drafted)
    [notice] = [each for each in run_notices(a_run([drafted]), proxy=None, adapter_warnings=()) if "chunk" in each.kind]
    assert notice.kind is NoticeKind.TOKEN_CHUNKS
    assert notice_text(notice).startswith("1 stream of 1 had each token of a step in a chunk of its own")
    # A chunk a step, one token a step, tokens that came as far apart as steps, and nothing known of steps.
    assert not came_token_by_token(replace(stream(STEADY[:20], tokens=120), acceptance=drafted.acceptance))
    assert not came_token_by_token(replace(stream(STEADY), acceptance=request(0, (0,) * 99, k=5).acceptance))
    assert not came_token_by_token(replace(stream(STEADY), acceptance=request(0, (4,) * 20, k=5).acceptance))
    assert not came_token_by_token(stream(STEPS))


def test_one_read_is_told_by_its_tokens_or_its_events() -> None:
    assert came_in_one_read(stream([5.0, 5.0]))
    assert came_in_one_read(stream([5.0], tokens=9))
    assert not came_in_one_read(stream([5.0], tokens=1))
    assert not came_in_one_read(stream(CLUMPS))
    assert not came_in_one_read(replace(stream([5.0], tokens=9), first_content_ns=None))


def test_clumps_are_told_and_marked() -> None:
    run = [replace(stream(CLUMPS if i < 3 else STEADY), index=i) for i in range(20)]
    result = a_run(run)
    [notice] = [each for each in run_notices(result, proxy=None, adapter_warnings=()) if each.kind is NoticeKind.CLUMPS]
    assert notice_text(notice).startswith("3 streams of 20 arrived in clumps: most gaps are near 0, a few are large")
    text = shown(latency_table(summarise(run)), 100)
    assert "ITL (ms) *" in text
    assert "Tokens/s per user *" in text
    assert "* 3 streams arrived in clumps" in text
    assert "*" not in shown(latency_table(summarise(run[3:])), 100)
    few = a_run([replace(each, index=i) for i, each in enumerate([*run[:1], *run[3:] * 2])])
    assert not [each for each in run_notices(few, proxy=None, adapter_warnings=()) if each.kind is NoticeKind.CLUMPS]


def test_the_mean_of_throughputs_stands_beside_the_throughput_at_the_mean() -> None:
    # 10 ms and 0.01 ms a token: 100 and 100,000 tokens/s.
    run = [stream([0.0, 10.0]), stream([0.0, 0.01])]
    values = summarise(run)
    assert values.record_stats["output_token_throughput_per_user"].avg == pytest.approx(50_050)
    assert values.run_values["output_token_throughput_per_user_at_mean_itl"] == pytest.approx(1000 / 5.005)
    assert "Tokens/s at mean ITL 2 199.8" in words(shown(latency_table(values), 100))


def test_a_proxy_that_buffers_whole_responses_leaves_no_inter_token_latency(tmp_path: Path) -> None:
    deltas = [{"index": 0, "delta": {"content": f"w{i} "}, "finish_reason": None} for i in range(30)]
    ends = [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 31, "total_tokens": 34}}
    events = [*({"choices": [delta]} for delta in deltas), *ends, usage]
    body = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in events) + b"data: [DONE]\n\n"
    models = {"object": "list", "data": [{"id": "m", "object": "model"}]}
    with answering(Answer(body, headers={"content-type": "text/event-stream"}), models) as server:
        result = profile(server.url, tmp_path / "run", "--require", "inter_token_latency.p99 <= 5")
    assert result.exit_code == 3, result.output
    assert "33 streams of 33 arrived in one read" in words(result.output)
    summary = json.loads((tmp_path / "run" / "profile_export_aiperf.json").read_text())
    assert "inter_token_latency" not in summary
    assert "output_token_throughput_per_user" not in summary
    assert summary["time_to_first_token"]["count"] == 33
    assert "arrived in one read" in words(invoke("report", str(tmp_path / "run"), "--metric", "throughput").output)
