"""Cases of bytes, streams and connections."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aiperf_spec.models.run import ErrorKind, NoticeKind, RequestError, RequestRecord
from tests.public_cases.cases import CASES
from tests.public_cases.expectations import check
from tests.public_cases.running import Run, first_token_ms, gaps_ms, run_case


def _error(record: RequestRecord) -> RequestError:
    assert record.error is not None
    return record.error


def unicode_separators(run: Run) -> None:
    # The strange characters come through the raw export too, which is JSON lines itself.
    assert [response.text for response in run.responses(0) if response.is_content] == ["a\u2028b", "c\x85d", "e\u2029f"]


def read_boundaries(run: Run) -> None:
    assert "\ufffd" not in "".join(response.text for response in run.responses(0))
    (response,) = run.case.script["responses"]
    whole = b"".join(bytes.fromhex(c["hex"]) if "hex" in c else c["s"].encode() for c in response["chunks"])
    script = {"responses": [response | {"chunks": [{"hex": whole.hex()}]}]}
    at_once = run_case(run.case, run.folder.with_name("at-once"), script)
    check(at_once)
    assert at_once.raw_events(0) == run.raw_events(0)


def optional_space(run: Run) -> None:
    events = run.raw_events(0)
    assert events[0].data.startswith(b'{"')
    assert events[1].data.startswith(b'  {"')
    assert run.responses(0)[-1].is_done


def zero_gaps(run: Run) -> None:
    assert gaps_ms(run.only) == [0, 0, 0]
    assert run.row("Inter-chunk gap (ms)")[:2] == ["3", "0.00"]
    # One read brought all four tokens: no time between them was measured.
    assert run.row("ITL (ms)")[:2] == ["0", "–"]
    assert run.row("Tokens/s per user") == ["0", *"–" * 7]
    assert "output_token_throughput_per_user" not in run.document()


def line_endings(run: Run) -> None:
    assert run.raw_events(0)[2].data.startswith(b'{"choices":\n[{"index"')


def frames_without_data(run: Run) -> None:
    # Two of content, the finish, the usage, the end mark: the five other frames are nothing.
    assert len(run.responses(0)) == 5
    assert run.row("Inter-chunk gap (ms)")[0] == "1"


def nothing_more(run: Run) -> None:
    """Say that the stated expectations are the whole case."""


def no_token_here(run: Run) -> None:
    for asked in run.stub.posts:
        assert asked.raw.count(b'"stream_options"') == 1
        assert asked.raw.count(b'"include_usage"') == 1
    assert [record.input_tokens for record in run.records] == [5, 5, 5, 5]


def error_with_status_200(run: Run) -> None:
    assert _error(run.only).kind is ErrorKind.SERVER_ERROR
    assert "deadline passed" in run.printed
    assert run.summary.record_stats == {}


def error_after_tokens(run: Run) -> None:
    assert _error(run.only).kind is ErrorKind.SERVER_ERROR
    assert "engine stopped" in run.printed
    assert run.summary.record_stats == {}
    assert "output_token_throughput" not in run.summary.run_values
    assert "request_throughput" not in run.summary.run_values


def zero_tokens(run: Run) -> None:
    first, second = map(_error, run.records)
    assert (first.kind, first.message) == (ErrorKind.SERVER_ERROR, "context too small")
    assert second.kind is ErrorKind.EMPTY
    assert run.summary.record_stats == {}


def one_bad_response(run: Run) -> None:
    assert (run.summary.succeeded, run.summary.failed) == (2, 2)
    event, cut = _error(run.records[1]), _error(run.records[3])
    assert (event.kind, event.message) == (ErrorKind.SERVER_ERROR, "upstream reset")
    assert cut.kind is ErrorKind.MALFORMED
    assert '{"choices":[{"index":0,"delta":{"cont' in cut.message
    assert "2 of 4 requests succeeded, 2 failed" in run.printed
    assert "upstream reset" in run.printed
    assert '{"choices":[{"index":0,"delta":{"cont' in run.printed


def dropped_connection(run: Run) -> None:
    aborted, was_reset = map(_error, run.records)
    assert (aborted.kind, was_reset.kind) == (ErrorKind.REMOTE_PROTOCOL_ERROR, ErrorKind.READ_ERROR)
    assert aborted.cause_chain == ("RemoteProtocolError",)
    assert was_reset.cause_chain == ("ReadError", "ConnectionResetError")
    assert "peer closed connection without sending complete message body" in aborted.message
    assert "ConnectionResetError" in was_reset.message
    assert "the connection broke within the response" in run.printed
    assert [line["error"]["cause_chain"] for line in run.lines()] == [
        list(aborted.cause_chain),
        list(was_reset.cause_chain),
    ]
    assert run.summary.record_stats == {}


def unread_error_body(run: Run) -> None:
    unavailable, gateway = map(_error, run.records)
    assert (unavailable.kind, unavailable.status) == (ErrorKind.HTTP_STATUS, 503)
    assert (gateway.kind, gateway.status) == (ErrorKind.HTTP_STATUS, 502)
    for message in ("overloaded, retry later", "<html><h1>502 Bad Gateway</h1></html>"):
        assert message in run.printed


def compressed(run: Run) -> None:
    # Sent 100 ms apart, so one that waited for more input would show no gap.
    assert gaps_ms(run.only) == pytest.approx([100], abs=1)
    assert first_token_ms(run.only) == pytest.approx(50, abs=1)


CHECKS: dict[str, Callable[[Run], None]] = {
    "florimondmanca/httpx-sse#34": unicode_separators,
    "vllm-project/vllm#51172": read_boundaries,
    "triton-inference-server/perf_analyzer#87": optional_space,
    "ai-dynamo/aiperf#368": zero_gaps,
    "kubernetes-sigs/inference-perf#781": line_endings,
    "openai/openai-python#2722": frames_without_data,
    "sgl-project/sglang#37986": nothing_more,
    "encode/httpx#2422": nothing_more,
    "triton-inference-server/perf_analyzer#413": no_token_here,
    "vllm-project/guidellm#743": error_with_status_200,
    "vllm-project/vllm#57519": error_after_tokens,
    "ggml-org/llama.cpp#16109": zero_tokens,
    "triton-inference-server/perf_analyzer#440": one_bad_response,
    "npuichigo/openai_trtllm#31": dropped_connection,
    "BerriAI/litellm#4974": unread_error_body,
    "btubbs/sseclient#36": compressed,
}


@pytest.mark.parametrize("case_id", CHECKS)
def test_case(case_id: str, tmp_path: Path) -> None:
    case = CASES[case_id]
    # Of this thread alone, and of what it computes: another's load is no fault of the client's.
    start = time.thread_time()
    run = run_case(case, tmp_path / "run")
    assert time.thread_time() - start <= case.expect.get("max_wall_s", 30)
    check(run)
    CHECKS[case_id](run)


@pytest.mark.parametrize("case_id", ["encode/httpx#1171"])
def test_no_pool_limit(case_id: str, tmp_path: Path) -> None:
    # The server's six seconds pass once all are in flight: a client with a limit would wait for ever.
    run = run_case(CASES[case_id], tmp_path / "run")
    check(run)
    assert run.stub.peak == 150


@pytest.mark.parametrize("case_id", ["livekit/agents#807"])
def test_slow_first_token(case_id: str, tmp_path: Path) -> None:
    case = CASES[case_id]
    run = run_case(case, tmp_path / "run")
    check(run)
    assert first_token_ms(run.only) == pytest.approx(7000, abs=1)
    # Under a limit, real time passes instead, and no byte ever comes.
    (response,) = case.script["responses"]
    silent = {"responses": [response | {"chunks": [], "end": "hang"}]}
    limited = run_case(case, tmp_path / "limited", silent, request_timeout_seconds=0.5)
    assert _error(limited.only).kind is ErrorKind.READ_TIMEOUT
    assert "no complete response within 0.5 s (--request-timeout-seconds)" in limited.printed


def test_a_connection_gone_stale_is_replaced_once(tmp_path: Path) -> None:
    case = CASES["openai/openai-python#2722"]
    (good,) = case.script["responses"]
    # The list of models came over the connection that the first request finds closed.
    run = run_case(case, tmp_path / "stale", {"responses": [good | {"end": "unanswered"}, good]})
    assert run.only.succeeded
    assert run.only.retried
    assert len(run.stub.posts) == 2
    assert run.notices(NoticeKind.RETRIED) == [
        "1 request met a kept-alive connection that the server had closed, and went out again on a new one"
    ]
    twice = run_case(case, tmp_path / "twice", {"responses": [good | {"end": "unanswered"}]})
    assert _error(twice.only).kind is ErrorKind.REMOTE_PROTOCOL_ERROR
    assert len(twice.stub.posts) == 2
