"""Profile a server that answers as a real one did: every capture, over real HTTP, through the whole program."""

from __future__ import annotations

import asyncio
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from aiperf_spec.adapters.registry import BUILT_IN, AdapterRegistry
from aiperf_spec.config.choices import EndpointType, ExportLevel
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.models.draft_totals import DraftTotals
from aiperf_spec.models.response import ParsedResponse, last_usage
from aiperf_spec.models.run import RequestRecord
from aiperf_spec.profiling import Hooks, profile_async
from aiperf_spec.wire.chunk import parse_event
from aiperf_spec.wire.sse import SSEEvent
from tests.acceptance_figures import figures_of
from tests.derive_expected import WIRE, captures, expected_of, request_of
from tests.raw_server import Call, chunked, send, serving

EXPECTED: dict[str, dict[str, Any]] = json.loads((WIRE / "expected.json").read_text())
PATHS = AdapterRegistry(BUILT_IN).payload_paths
RAW_HTTP = WIRE / "sglang" / "chat-stream-n1-usage-rawchunks.http"


def head_of(path: Path) -> bytes:
    file = path.with_name(path.stem + ".headers.txt")
    if file.exists():
        # Paths of the capturing machine were taken out of some bodies, so their length is another one now.
        length = f"content-length: {path.stat().st_size}"
        text = re.sub(r"(?im)^content-length: *\d+", length, file.read_text().strip())
        return text.replace("\n", "\r\n").encode() + b"\r\n\r\n"
    kind = "text/event-stream" if path.suffix == ".sse" else "application/json"
    return f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n".encode()


def cut(body: bytes) -> list[bytes]:
    """Cut a body where it hurts: within line ends, within tokens, within UTF-8 sequences."""
    edges = {0, 1, 2, 7, len(body), max(len(body) - 1, 0), max(len(body) - 9, 0)}
    edges |= set(range(0, len(body), 997))
    edges |= {position + 1 for position in range(0, len(body) - 1, 13) if body[position : position + 2] == b"\n\n"}
    edges |= {position for position, byte in enumerate(body) if byte & 0xC0 == 0x80}
    ordered = sorted(edge for edge in edges if edge <= len(body))
    return [body[a:b] for a, b in pairwise(ordered)]


def config_for(request: dict[str, Any], url: str, folder: Path) -> ProfileConfig:
    """Return the configuration whose first request is the one that the capture answers."""
    given = {key: value for key, value in request.items() if key not in ("model", "stream", "messages", "prompt")}
    streaming = bool(request.get("stream"))
    if streaming and "stream_options" not in given:
        given["stream_options"] = {"include_usage": False}
    prompts = request.get("prompt")
    texts = prompts if isinstance(prompts, list) else [prompts]
    rows = [{"messages": request["messages"]}] if "messages" in request else [{"text": text} for text in texts]
    file = folder / "prompts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ProfileConfig(
        url=url,
        model=request["model"],
        endpoint_type=EndpointType.CHAT if "messages" in request else EndpointType.COMPLETIONS,
        streaming=streaming,
        extra_inputs=given,
        input_file=file,
        batch_size_text=len(rows),
        request_count=1,
        export_level=ExportLevel.RAW,
        request_timeout_seconds=60,
    )


async def profiled(head: bytes, pieces: list[bytes], request: dict[str, Any], folder: Path) -> RequestRecord:
    """Profile a server that answers with these bytes; return the one record."""

    async def respond(call: Call, writer: asyncio.StreamWriter) -> None:
        await send(writer, head, *pieces, pause=0)

    async with serving(respond) as server:
        result = await profile_async(config_for(request, server.url, folder), Hooks())
        [call] = server.posts
        assert call.path == ("/v1/chat/completions" if "messages" in request else "/v1/completions")
        sent = call.json
    if request.get("stream") and "stream_options" not in request:
        assert sent.pop("stream_options") == {"include_usage": False}
    assert sent == {"stream": False, **request}
    [record] = result.records
    assert record.acceptance is None or record.drop_reason is None
    assert [notice for notice in result.notices if notice.kind == "adapter"] == []
    return record


def responses_of(record: RequestRecord) -> list[ParsedResponse]:
    """Return what the record's raw events say."""
    assert record.raw is not None
    events = ((arrival, dict(fields)["data"].encode()) for arrival, fields in record.raw.events)
    parsed = (parse_event(SSEEvent(data), arrival, PATHS) for arrival, data in events)
    return [response for response in parsed if response is not None]


def check_record(record: RequestRecord, expected: dict[str, Any] | None) -> None:
    if expected is None:
        assert record.acceptance is None
        return
    assert figures_of(record) == expected


def check_totals(totals: DraftTotals | None, expected: dict[str, Any] | None) -> None:
    assert (totals is None) is (expected is None)
    if totals is not None:
        assert {
            "drafted": totals.num_draft_tokens,
            "accepted": totals.num_accepted_draft_tokens,
            "steps": [totals.fewest_steps, totals.most_steps],
            "completion_tokens": totals.completion_tokens,
        } == expected


def check(record: RequestRecord, expected: dict[str, Any], *, streaming: bool) -> None:
    if "error" in expected:
        assert record.error is not None
        assert (record.error.kind, record.error.message) == (expected["error"], expected["message"])
        assert (record.drop_reason, record.acceptance, record.usage) == ("failed", None, None)
        assert (record.first_content_ns, record.last_content_ns, record.output_tokens) == (None, None, None)
        return
    assert record.error is None
    assert record.status == 200
    assert record.drop_reason == expected.get("drop")
    check_record(record, expected.get("record"))
    check_totals(record.draft_totals, expected.get("totals"))
    usage = record.usage
    # Where each sequence has usage of its own, none of them is the request's.
    whole = expected["usage"] and expected["usage"][:2] if expected.get("whole_usage", True) else None
    assert (usage and [usage.prompt_tokens, usage.completion_tokens]) == whole
    responses = responses_of(record)
    sent = last_usage(responses)
    assert (sent and [sent.prompt_tokens, sent.completion_tokens, sent.total_tokens]) == expected["usage"]
    assert record.raw is not None
    assert len(record.raw.events) == expected["events"]
    assert "".join(response.text for response in responses) == expected["text"]
    assert "".join(response.reasoning for response in responses) == expected["reasoning"]
    contents = [response.arrival_ns for response in responses if response.is_content]
    assert len(contents) == expected["contents"]
    if streaming:
        assert record.chunk_gaps_ns is not None
        assert len(record.chunk_gaps_ns) == expected["contents"] - 1
        assert (record.first_content_ns, record.last_content_ns) == (contents[0], contents[-1])
        assert record.start_ns < contents[0] <= contents[-1] <= record.end_ns
    else:
        assert (record.first_content_ns, record.chunk_gaps_ns) == (None, None)
        assert record.last_content_ns == responses[-1].arrival_ns


def test_the_table_is_what_the_bytes_say() -> None:
    assert {f"{path.parent.name}/{path.name}": expected_of(path) for path in captures()} == EXPECTED


def test_no_capture_is_forgotten() -> None:
    others = {
        # SGLang's own endpoint speaks another language than the two that are profiled.
        "sglang/generate-native-nonstream.json",
        "sglang/generate-native-stream.sse",
        "sglang/chat-stream-n1-usage-rawchunks.http",  # replayed below
    }
    bodies = {
        f"{path.parent.name}/{path.name}"
        for path in WIRE.glob("*/*")
        if path.suffix in (".sse", ".json", ".http") and not path.name.endswith(".request.json")
    }
    assert bodies == {*EXPECTED} | others


@pytest.mark.parametrize("name", EXPECTED)
async def test_a_capture(name: str, tmp_path: Path) -> None:
    path, expected = WIRE / name, EXPECTED[name]
    request = request_of(path)
    body, head = path.read_bytes(), head_of(path)
    pieces = cut(body)
    if b"chunked" in head.lower():
        pieces = [*map(chunked, pieces), chunked(b"")]
    record = await profiled(head, pieces, request, tmp_path)
    check(record, expected, streaming=bool(request.get("stream")))


@pytest.mark.parametrize("size", [1, 100, 1 << 20])
async def test_the_framing_of_a_real_server(size: int, tmp_path: Path) -> None:
    head, blank, body = RAW_HTTP.read_bytes().partition(b"\r\n\r\n")
    data = b"".join(line[6:] for line in body.split(b"\n") if line.startswith(b"data: {"))
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    request = json.loads(RAW_HTTP.with_suffix(".request.json").read_text())
    record = await profiled(head + blank, pieces, request, tmp_path)
    assert record.error is None
    assert record.raw is not None
    received = "".join(dict(fields)["data"] for _, fields in record.raw.events)
    assert received == data.decode() + "[DONE]"
    assert record.acceptance is not None
    assert record.acceptance.completion_tokens == 40
    assert record.drop_reason is None


# Read off the captures by eye, and worked out on paper: the table above comes from a script.
BY_HAND: dict[str, dict[str, Any]] = {
    "vllm/completions-stream-n1-usage.sse": {
        "length": 2.7917,
        "rate": 0.3707,
        "histogram": {"0": 9, "1": 3, "2": 5, "3": 2, "4": 1, "5": 4},
        "accepted": 43,
        "drafted": 116,
        "steps": 24,
        "k": 5,
        "completion_tokens": 96,
    },
    "sglang/chat-stream-n1-usage.sse": {
        "length": 1.3333,
        "rate": 0.0476,
        "histogram": {"0": 23, "1": 5, "2": 1, "3": 1},
        "accepted": 10,
        "drafted": 210,
        "steps": 30,
        "k": None,
        "completion_tokens": 40,
    },
    "llama_cpp/chat-stream-timings-per-token-usage.sse": {
        "length": 1.9167,  # the server's log: "mean len = 1.92"
        "rate": 0.1947,
        "histogram": {"0": 13, "1": 6, "2": 3, "5": 2},
        "accepted": 22,
        "drafted": 113,
        "steps": 24,
        "k": None,
        "completion_tokens": 48,
    },
    "llama_cpp/ngram-completions-stream-timings-per-token-usage.sse": {
        "length": 3.0,
        "rate": 0.4348,
        "histogram": {"0": 1, "1": 1, "2": 2, "5": 1},
        "accepted": 10,
        "drafted": 23,
        "steps": 5,
        "k": None,
        "completion_tokens": 64,
    },
    "tensorrt_llm/chat-stream-n1-usage.sse": {
        "length": 2.5,
        "rate": 0.5,
        "histogram": {"0": 8, "2": 6, "3": 6},
        "accepted": 30,
        "drafted": 60,
        "steps": 20,
        "k": 3,
        "completion_tokens": 51,
    },
}


@pytest.mark.parametrize("name", BY_HAND)
def test_the_table_by_hand(name: str) -> None:
    row = EXPECTED[name]["record"]
    assert {key: row[key] for key in BY_HAND[name]} == BY_HAND[name]


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("sglang/completions-nonstream-2prompts-n1.json", "drop", "multi_sequence"),
        ("sglang/completions-nonstream-2prompts-n1-first-noverify.json", "drop", "multi_sequence"),
        ("sglang/chat-stream-n2-one-choice-noverify-usage.sse", "drop", "multi_sequence"),
        ("tensorrt_llm/chat-stream-n2-one-drafted-usage.sse", "drop", "multi_sequence"),
        ("sglang/draft1-server-chat-nonstream.json", "drop", "malformed"),
        ("sglang/chat-stream-noverify-usage.sse", "drop", "absent"),
        ("sglang/chat-nonstream-typo-param.json", "drop", "absent"),
        ("vllm/chat-nonstream-zerostep.json", "drop", "zero_step"),
        ("vllm/chat-stream-nousage.sse", "drop", "absent"),
        ("tensorrt_llm/chat-nonstream-inconsistent.json", "drop", "malformed"),
        ("sglang/chat-stream-error-midstream-usage.sse", "error", "server_error"),
        ("sglang/chat-stream-error-midstream-usage.sse", "message", "Request running timeout reached."),
        ("sglang/completions-stream-abort-graceful-usage.sse", "error", "aborted"),
        ("llama_cpp/chat-nonstream.json", "drop", "totals_only"),
        (
            "llama_cpp/chat-nonstream.json",
            "totals",
            {"drafted": 113, "accepted": 22, "steps": [1, 25], "completion_tokens": 48},
        ),
        ("llama_cpp/chat-stream-nousage.sse", "drop", "totals_only"),
        ("llama_cpp/chat-nonstream-maxtokens1.json", "drop", "zero_step"),
        ("llama_cpp/chat-stream-n2-usage.sse", "drop", "multi_sequence"),
        ("llama_cpp/completions-stream-2prompts-usage.sse", "drop", "multi_sequence"),
        ("vllm/chat-error-unknown-model.json", "error", "http_status"),
        ("vllm/chat-stream-zerostep-usage.sse", "text", "H"),
        ("vllm/chat-stream-n1-usage.sse", "usage", [49, 96, 145]),
        ("sglang/bytes-emptydeltas-completions-stream-n1-usage.sse", "contents", 1),
    ],
)
def test_other_cells_of_the_table_by_hand(name: str, key: str, value: Any) -> None:
    assert EXPECTED[name][key] == value
