from __future__ import annotations

import asyncio
import socket
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
import pytest

from aiperf_spec.simulator import FAULT_OUTCOMES, FAULTS, RunningSimulator, SimulatorConfig
from aiperf_spec.simulator.faults import breaking, fault_for, harmless
from tests.waiting import PATIENCE_SECONDS, happens

Serve = Callable[..., Awaitable[RunningSimulator]]
Ask = Callable[..., Awaitable[tuple[int, bytes]]]
Read = Callable[[bytes], list[dict[str, Any]]]

ENGINES = ["vllm", "tensorrt_llm", "sglang"]
STREAM: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True}


def request_bytes(body: dict[str, Any]) -> bytes:
    """Shape a request for a plain socket."""
    values = {"model": "m", "messages": [{"role": "user", "content": "Write a poem."}], "max_tokens": 30}
    data = orjson.dumps(values | {"return_spec_tokens_details": True} | body)
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return f"{head}Connection: close\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


async def plain(server: RunningSimulator, **body: Any) -> tuple[bytes, bool]:
    """Ask over a plain socket; return all bytes and whether the connection was reset."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    received = b""
    try:
        writer.write(request_bytes(body))
        while piece := await reader.read(65536):
            received += piece
    except ConnectionResetError:
        return received, True
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)
    return received, False


@asynccontextmanager
async def stalled(server: RunningSimulator, **body: Any) -> AsyncIterator[tuple[bytes, asyncio.StreamReader]]:
    """Ask over a plain socket and read until content came; the connection is closed when the block ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request_bytes(body))
    async with asyncio.timeout(PATIENCE_SECONDS):
        yield await reader.readuntil(b'"id":"chatcmpl-'), reader
    writer.close()
    await writer.wait_closed()


def content(response: bytes) -> bytes:
    """Take the chunks of a chunked response apart, tolerating one that was cut."""
    rest = response.split(b"\r\n\r\n", 1)[1]
    joined = b""
    while b"\r\n" in rest:
        size, rest = rest.split(b"\r\n", 1)
        joined, rest = joined + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return joined


@pytest.fixture
def spoiled(serve: Serve) -> Serve:
    """Start a server every response of which suffers one fault."""

    async def begin(engine: str, fault: str, **settings: Any) -> RunningSimulator:
        return await serve(engine, faults=((fault, 1.0),), **settings)

    return begin


def test_shares_and_repeatability() -> None:
    config = SimulatorConfig("vllm", faults=(("stall", 0.1), ("gzip", 0.25)), seed=4)
    chosen = [fault_for(config, sequence) for sequence in range(8000)]
    assert chosen == [fault_for(config, sequence) for sequence in range(8000)]
    counts = Counter(chosen)
    assert counts["stall"] == pytest.approx(800, rel=0.15)
    assert counts["gzip"] == pytest.approx(2000, rel=0.1)
    assert fault_for(SimulatorConfig("vllm"), 0) is None


@pytest.mark.parametrize("body", [{}, STREAM], ids=["body", "stream"])
async def test_connection_refused(spoiled: Serve, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaking, "REFUSING_S", 3600)
    server = await spoiled("vllm", "connection_refused")
    assert (await plain(server, **body))[0] == b""
    with pytest.raises(ConnectionRefusedError):
        await plain(server)


async def test_refusing_ends(spoiled: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaking, "REFUSING_S", 0.05)
    server = await spoiled("vllm", "connection_refused")

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", server.port)) == 0

    for _ in range(2):
        await happens(listens, "the listener's return")
        assert (await plain(server))[0] == b""
    assert len(server.ledger.entries) == 2


async def test_a_server_can_stop_while_it_refuses(spoiled: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaking, "REFUSING_S", 3600)
    server = await spoiled("vllm", "connection_refused")
    await plain(server)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await server.stop()
    with pytest.raises(ConnectionRefusedError):
        await plain(server)


@pytest.mark.parametrize("body", [{}, STREAM], ids=["body", "stream"])
async def test_reset_before_headers(spoiled: Serve, body: dict[str, Any]) -> None:
    assert await plain(await spoiled("vllm", "reset_before_headers"), **body) == (b"", True)


@pytest.mark.parametrize("engine", ENGINES)
async def test_reset_mid_event(spoiled: Serve, engine: str) -> None:
    server = await spoiled(engine, "reset_mid_event")
    received, reset = await plain(server, **STREAM)
    assert reset
    whole, _, cut = content(received).rpartition(b"\n\n")
    assert whole.count(b"data: ") == 2
    assert cut.startswith(b"data: {")
    assert not server.ledger.entries[0].finished
    received, reset = await plain(server)
    assert reset
    assert b"Content-Length" in received
    assert received.split(b"\r\n\r\n", 1)[1].startswith(b'{"id"')


@pytest.mark.parametrize("body", [{}, STREAM], ids=["body", "stream"])
async def test_stall(spoiled: Serve, body: dict[str, Any]) -> None:
    server = await spoiled("vllm", "stall")
    async with stalled(server, **body) as (received, reader):
        assert received.startswith(b"HTTP/1.1 200 OK")
        # However long one waits, it does not end.
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(), 0.2)
    await happens(lambda: server.ledger.in_flight == 0, "the client's leaving")


async def test_slow_first_byte(spoiled: Serve, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harmless, "SLOW_FIRST_BYTE_S", 0.1)
    server = await spoiled("vllm", "slow_first_byte")
    started = asyncio.get_running_loop().time()
    status, _ = await ask(server)
    assert status == 200
    assert asyncio.get_running_loop().time() - started > 0.095
    assert server.ledger.entries[0].finished


@pytest.mark.parametrize("body", [{}, STREAM], ids=["body", "stream"])
@pytest.mark.parametrize(
    ("fault", "status", "kind", "start"),
    [
        ("http_400_json", 400, "application/json", b'{"error":{"message"'),
        ("http_500_json", 500, "application/json", b'{"error":{"message"'),
        ("http_503_flat_json", 503, "application/json", b'{"object":"error","message"'),
        ("http_502_html", 502, "text/html", b"<html>"),
        ("http_500_empty", 500, "application/octet-stream", b""),
    ],
)
async def test_error_statuses(
    spoiled: Serve,
    session: aiohttp.ClientSession,
    fault: str,
    status: int,
    kind: str,
    start: bytes,
    body: dict[str, Any],
) -> None:
    server = await spoiled("vllm", fault)
    values = {"model": "m", "messages": [{"role": "user", "content": "x"}]} | body
    async with session.post(server.url + "/v1/chat/completions", json=values) as response:
        assert (response.status, response.content_type) == (status, kind)
        data = await response.read()
    assert data.startswith(start)
    assert bool(data) == bool(start)
    entry = server.ledger.entries[0]
    assert (entry.fault, entry.outcome, entry.status) == (fault, "error", status)
    assert not entry.stats_sent


@pytest.mark.parametrize("engine", ENGINES)
async def test_ok_with_error_object(spoiled: Serve, ask: Ask, events: Read, engine: str) -> None:
    server = await spoiled(engine, "ok_with_error_object")
    status, stream = await ask(server, return_spec_tokens_details=True, **STREAM)
    objects = events(stream)
    assert status == 200
    assert objects[2]["error"]["object"] == "error"
    assert len(objects) == (5 if engine == "sglang" else 3)
    status, body = await ask(server)
    assert status == 200
    assert ("error" in orjson.loads(body)) == (engine == "vllm")
    assert (orjson.loads(body).get("object") == "error") == (engine != "vllm")


async def test_truncated_json(spoiled: Serve, ask: Ask) -> None:
    server = await spoiled("vllm", "truncated_json")
    status, stream = await ask(server, **STREAM)
    last = stream.split(b"\n\n")[-2]
    assert status == 200
    assert last.startswith(b"data: {")
    assert b"[DONE]" not in stream
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(last[6:])
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads((await ask(server))[1])


async def test_endless_line(spoiled: Serve, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    assert breaking.ENDLESS_BYTES == 80 * 1024 * 1024
    monkeypatch.setattr(breaking, "ENDLESS_BYTES", 3 * 1024 * 1024)
    server = await spoiled("vllm", "endless_line")
    for body in (STREAM, {}):
        _, data = await ask(server, **body)
        assert len(data.split(b"\n")[-1]) > breaking.ENDLESS_BYTES


@pytest.mark.parametrize("body", [{}, STREAM], ids=["body", "stream"])
async def test_wrong_content_type(spoiled: Serve, session: aiohttp.ClientSession, body: dict[str, Any]) -> None:
    server = await spoiled("vllm", "wrong_content_type")
    values = {"model": "m", "messages": [{"role": "user", "content": "x"}]} | body
    async with session.post(server.url + "/v1/chat/completions", json=values) as response:
        assert response.content_type == "text/plain"
        assert b'"finish_reason":"length"' in await response.read()


def statistics(objects: list[dict[str, Any]]) -> list[Any]:
    """List the statistics in a stream, wherever an engine puts them."""
    found = []
    for item in objects:
        found += [item[key] for key in ("metrics", "sglext", "timings") if key in item]
        found += [c["speculative_decoding"] for c in item["choices"] if "speculative_decoding" in c]
    return found


@pytest.mark.parametrize("engine", [*ENGINES, "llama_cpp"])
@pytest.mark.parametrize("endpoint", ["chat", "completions"])
async def test_faults_of_statistics(
    serve: Serve, spoiled: Serve, ask: Ask, events: Read, engine: str, endpoint: str
) -> None:
    body = STREAM | {"return_spec_tokens_details": True}
    plain_events = events((await ask(await serve(engine), endpoint, **body))[1])
    expected = statistics(plain_events)
    assert len(expected) == 1

    twice = events((await ask(await spoiled(engine, "duplicate_stats"), endpoint, **body))[1])
    assert statistics(twice) == expected * 2
    assert answer_text(twice) == answer_text(plain_events)

    always = events((await ask(await spoiled(engine, "stats_on_every_chunk"), endpoint, **body))[1])
    running = statistics(always)
    assert len(running) > len(expected) + 3
    assert running[-1] == expected[0]
    assert len({repr(item) for item in running}) > 3

    server = await spoiled(engine, "missing_usage")
    silent = events((await ask(server, endpoint, **body))[1])
    assert not any("usage" in item for item in silent)
    assert statistics(silent) == expected
    assert "usage" not in orjson.loads((await ask(server, endpoint))[1])
    assert server.ledger.entries[0].outcome == "ok"


def answer_text(objects: list[dict[str, Any]]) -> str:
    """Join the content of a stream."""
    choices = [choice for item in objects for choice in item["choices"]]
    return "".join(c["text"] if "text" in c else c["delta"].get("content") or "" for c in choices)


async def test_gzip_is_flushed_with_every_event(spoiled: Serve) -> None:
    server = await spoiled("vllm", "gzip", step_time_ms=15.0)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request_bytes(STREAM))
    head = await reader.readuntil(b"\r\n\r\n")
    assert b"Content-Encoding: gzip" in head
    decoder, texts = zlib.decompressobj(wbits=31), []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        texts.append(decoder.decompress(await reader.readexactly(size)))
        await reader.readexactly(2)
    writer.close()
    await writer.wait_closed()
    assert decoder.eof
    assert all(text.startswith(b"data: ") and text.endswith(b"\n\n") for text in texts[:-1])
    assert b"".join(texts).endswith(b"data: [DONE]\n\n")


async def test_gzip_body(spoiled: Serve, ask: Ask) -> None:
    assert orjson.loads((await ask(await spoiled("vllm", "gzip")))[1])["object"] == "chat.completion"


async def test_comments_and_line_ends(serve: Serve, spoiled: Serve, ask: Ask, events: Read) -> None:
    expected = answer_text(events((await ask(await serve("vllm"), **STREAM))[1]))
    commented = (await ask(await spoiled("vllm", "keepalive_comments"), **STREAM))[1]
    assert commented.count(b": keep-alive\n\n") == commented.count(b"data: {")
    assert answer_text(events(commented)) == expected
    crlf = (await ask(await spoiled("vllm", "crlf"), **STREAM))[1]
    assert crlf.count(b"\r\n") == crlf.count(b"\n") > 4
    assert answer_text(events(crlf)) == expected


@pytest.mark.parametrize("body", [{}, STREAM], ids=["body", "stream"])
async def test_split_utf8(spoiled: Serve, session: aiohttp.ClientSession, body: dict[str, Any]) -> None:
    server = await spoiled("vllm", "split_utf8")
    values = {"model": "m", "messages": [{"role": "user", "content": "Write a poem."}]} | body
    pieces = []
    async with session.post(server.url + "/v1/chat/completions", json=values) as response:
        async for piece, _ in response.content.iter_chunks():
            pieces.append(piece)
    assert b"".join(pieces).decode()
    if body:
        assert any(piece and piece[0] & 0xC0 == 0x80 for piece in pieces)


@pytest.mark.parametrize("fault", FAULTS)
async def test_ledger_tells_the_fault(spoiled: Serve, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harmless, "SLOW_FIRST_BYTE_S", 0.0)
    monkeypatch.setattr(breaking, "ENDLESS_BYTES", 262_144)
    server = await spoiled("vllm", fault)
    if fault == "stall":
        async with stalled(server, **STREAM):
            pass
    else:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await plain(server, **STREAM)
    entry = server.ledger.entries[0]
    assert (entry.fault, entry.outcome) == (fault, FAULT_OUTCOMES[fault])
    assert entry.finished == (entry.outcome == "ok" or fault.startswith("http_"))
    assert entry.steps > 0
    assert entry.stats_sent == (entry.outcome == "ok")
