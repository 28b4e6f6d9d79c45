"""Talk to servers that misbehave, over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket
import time
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from aiperf_spec.adapters.registry import BUILT_IN, AdapterRegistry
from aiperf_spec.client import sink as sink_module
from aiperf_spec.client.client import Client, request_headers
from aiperf_spec.client.failures import RequestFailedError
from aiperf_spec.client.sink import RequestTrace
from aiperf_spec.config.redaction import Redactor
from aiperf_spec.config.server_url import split_endpoint
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.load.plan import PlannedRequest
from aiperf_spec.load.requester import Requester
from aiperf_spec.models.run import ErrorKind, Phase, RequestRecord
from aiperf_spec.profiling import Hooks, profile_async
from aiperf_spec.wire.response_reader import ResponseReader
from aiperf_spec.workload.prompts import Prompt
from tests.raw_server import (
    DONE,
    STREAM_HEAD,
    USAGE,
    Call,
    RawServer,
    Reads,
    Respond,
    chunked,
    event,
    forever,
    head,
    reset,
    send,
    send_json,
    send_stream,
    send_until,
    serving,
    token,
)
from tests.waiting import happens

Writer = asyncio.StreamWriter
PROMPTS = (Prompt("p", text="hi"),)
OPENER = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})
WHOLE = (OPENER, token("a"), token("b"), token("c", "stop"), USAGE, DONE)
BODY = {
    "choices": [{"index": 0, "message": {"content": "abc"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 4, "completion_tokens": 3, "total_tokens": 7},
}


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000

    def __call__(self) -> int:
        return self.now_ns

    def pass_ms(self, ms: int) -> None:
        self.now_ns += ms * 1_000_000


class Watched(ResponseReader):
    """Tells the server of a test what the client has read, over all requests."""

    bytes_read = 0
    ends_read = 0

    def feed(self, data: bytes, now_ns: int) -> None:
        super().feed(data, now_ns)
        Watched.bytes_read += len(data)
        Watched.ends_read += self.has_ended


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> type[Watched]:
    monkeypatch.setattr("aiperf_spec.load.requester.ResponseReader", Watched)
    Watched.bytes_read = Watched.ends_read = 0
    return Watched


async def send_read(writer: Writer, watched: type[Watched], *pieces: bytes, clock: Clock | None = None) -> None:
    """Write each piece as a chunk once the client has read the one before, and the clock has gone on by 50 ms."""
    for piece in pieces:
        await send_until(writer, chunked(piece), lambda: watched.bytes_read)
        if clock is not None:
            clock.pass_ms(50)


@pytest.fixture
async def skip_seconds(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Give what lets the event loop's time jump, so that what is due by then is due now."""
    loop = asyncio.get_running_loop()
    skipped = 0.0
    real = loop.time

    def skip(seconds: float) -> None:
        nonlocal skipped
        skipped += seconds

    monkeypatch.setattr(loop, "time", lambda: real() + skipped)
    return skip


def work(index: int) -> PlannedRequest:
    return PlannedRequest(index, Phase.PROFILING, PROMPTS)


async def records(
    respond: Respond,
    *,
    count: int = 1,
    server: RawServer | None = None,
    clock: Callable[[], int] = time.perf_counter_ns,
    **values: Any,
) -> list[RequestRecord]:
    """Send requests one after the other through one client; return their records."""
    async with serving(respond) as running:
        config = ProfileConfig(url=running.url, model="m", **{"request_timeout_seconds": 60, **values})
        where = split_endpoint(config.url)
        async with Client(config, where, clock=clock) as client:
            requester = Requester(config, "m", client, AdapterRegistry(BUILT_IN), Redactor(config, where))
            found = [await requester.send(work(index)) for index in range(count)]
        if server is not None:
            server.calls, server.connections = running.calls, running.connections
    return found


async def one(respond: Respond, **values: Any) -> RequestRecord:
    [record] = await records(respond, **values)
    return record


def failure(record: RequestRecord) -> tuple[ErrorKind, str]:
    assert record.error is not None
    assert record.drop_reason == "failed"
    return record.error.kind, record.error.message


def succeeds(record: RequestRecord) -> bool:
    return record.error is None and record.usage is not None and record.usage.completion_tokens == 3


async def answer(call: Call, writer: Writer) -> None:
    await send_stream(writer, *WHOLE)


class TestStreams:
    async def test_a_stream(self) -> None:
        record = await one(answer)
        assert succeeds(record)
        assert (record.status, record.streaming, record.retried) == (200, True, False)
        assert record.ack_ns is not None
        assert record.first_content_ns is not None
        assert record.last_content_ns is not None
        moments = [record.start_ns, record.ack_ns, record.first_content_ns, record.last_content_ns, record.end_ns]
        assert moments == sorted(moments)

    async def test_events_are_stamped_when_their_last_byte_was_read(self, watched: type[Watched]) -> None:
        clock = Clock()

        async def respond(call: Call, writer: Writer) -> None:
            await send(writer, STREAM_HEAD)
            start, end = token("b")[:20], token("b")[20:]
            await send_read(
                writer, watched, OPENER, token("a"), start, end, token("c", "stop"), USAGE, DONE, clock=clock
            )
            await send(writer, chunked(b""))

        record = await one(respond, clock=clock)
        assert succeeds(record)
        assert list(record.chunk_gaps_ns or ()) == [100_000_000, 50_000_000]

    async def test_time_after_the_last_content_does_not_count(self, watched: type[Watched]) -> None:
        clock = Clock()

        async def respond(call: Call, writer: Writer) -> None:
            await send(writer, STREAM_HEAD)
            await send_read(writer, watched, token("a"), token("b"), token("c", "stop"), USAGE, DONE, clock=clock)
            await send(writer, chunked(b""))

        record = await one(respond, clock=clock)
        assert succeeds(record)
        assert record.last_content_ns is not None
        assert record.end_ns - record.last_content_ns == 150_000_000

    @pytest.mark.parametrize(
        "kind", ["text/event-stream", "application/json", "text/plain", "application/octet-stream", ""]
    )
    async def test_content_types_lie(self, kind: str) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            headers = {"transfer-encoding": "chunked", **({"content-type": kind} if kind else {})}
            await send(writer, head(200, "OK", headers), *map(chunked, (*WHOLE, b"")), pause=0)

        record = await one(respond)
        assert succeeds(record)
        assert record.first_content_ns is not None

    @pytest.mark.parametrize(
        "start", [b"\n", b"  \r\n\n", b": ping\n\n", b"\xef\xbb\xbf", b"id: 1\n", b"event: message\n"]
    )
    @pytest.mark.parametrize("cut", [False, True])
    async def test_a_stream_may_start_with_something_else(self, start: bytes, cut: bool) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            first = [start[i : i + 1] for i in range(len(start))] if cut else [start]
            await send_stream(writer, *first, *WHOLE, pause=0.001)

        assert succeeds(await one(respond))

    @pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
    async def test_a_json_body_to_a_streaming_request_is_a_success_without_a_first_token(self, kind: str) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send_json(writer, 200, BODY, {"content-type": kind})

        record = await one(respond)
        assert succeeds(record)
        assert (record.first_content_ns, record.chunk_gaps_ns) == (None, None)
        assert record.last_content_ns is not None

    @pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b"\n\n ", b" " * 70_000])
    async def test_a_json_body_may_come_in_pieces(self, start: bytes) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            body = orjson.dumps(BODY)
            pieces = [start[:1], start[1:2], start[2:], body[:1], body[1:50], body[50:]]
            await send(writer, STREAM_HEAD, *(chunked(piece) for piece in pieces if piece), chunked(b""), pause=0.001)

        record = await one(respond, streaming=False)
        assert succeeds(record)

    async def test_a_stream_to_a_request_for_a_body_has_no_first_token(self) -> None:
        record = await one(answer, streaming=False)
        assert succeeds(record)
        assert (record.first_content_ns, record.chunk_gaps_ns) == (None, None)

    async def test_a_stream_without_chunked_framing_ends_with_the_connection(self) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send(writer, head(200, "OK", {"content-type": "text/event-stream"}), *WHOLE, pause=0)
            writer.close()

        assert succeeds(await one(respond))

    async def test_an_error_within_the_stream_fails_it(self) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send_stream(writer, OPENER, token("a"), event({"error": {"message": "out of memory"}}), USAGE, DONE)

        record = await one(respond)
        assert failure(record) == (ErrorKind.SERVER_ERROR, "out of memory")
        assert (record.status, record.usage, record.first_content_ns) == (200, None, None)

    async def test_what_the_server_said_outweighs_how_the_connection_ended(self, watched: type[Watched]) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send(writer, STREAM_HEAD)
            await send_read(writer, watched, token("a"), event({"error": "out of memory"}))
            reset(writer)

        assert failure(await one(respond)) == (ErrorKind.SERVER_ERROR, "out of memory")

    async def test_a_stream_without_an_end_is_incomplete(self) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send_stream(writer, OPENER, token("a"), token("b"))

        assert failure(await one(respond))[0] is ErrorKind.INCOMPLETE


class TestEndMark:
    @pytest.mark.parametrize("mark", [DONE, b"data:[DONE]\n\n", b"data:  [DONE] \n\n", DONE + event({"ping": 1})])
    async def test_a_connection_that_lingers_is_given_up(
        self, mark: bytes, watched: type[Watched], skip_seconds: Callable[[float], None]
    ) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send(writer, STREAM_HEAD, *map(chunked, (*WHOLE[:-1], mark)))
            await happens(lambda: watched.ends_read > 0, "the end mark to be read")
            skip_seconds(sink_module._AFTER_DONE_SECONDS)
            await forever()

        async with asyncio.timeout(120):
            record = await one(respond, request_timeout_seconds=3600)
        assert succeeds(record)

    @pytest.mark.parametrize("ending", [reset, lambda writer: writer.close()], ids=["reset", "no last chunk"])
    async def test_a_connection_that_breaks_is_a_success(
        self, ending: Callable[[Writer], None], watched: type[Watched]
    ) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send(writer, STREAM_HEAD, *map(chunked, WHOLE))
            await happens(lambda: watched.ends_read > 0, "the end mark to be read")
            ending(writer)

        record = await one(respond)
        assert succeeds(record)
        assert not record.retried


class TestBrokenConnections:
    async def test_refused(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}"
        result = await profile_async(ProfileConfig(url=url, model="m", request_count=2), Hooks())
        assert len(result.records) == 2
        for record in result.records:
            kind, message = failure(record)
            assert kind is ErrorKind.CONNECT_ERROR
            assert message.startswith("no connection: ")
            assert (record.status, record.ack_ns, record.retried) == (None, None, False)
            assert record.error is not None
            assert "ConnectionRefusedError" in record.error.cause_chain

    async def test_a_name_that_does_not_resolve(self) -> None:
        result = await profile_async(ProfileConfig(url="nowhere.invalid", model="m", request_count=1), Hooks())
        kind, message = failure(result.records[0])
        assert kind is ErrorKind.CONNECT_ERROR
        assert "nowhere.invalid" in message

    @pytest.mark.parametrize("ending", [reset, lambda writer: writer.close()], ids=["reset", "closed"])
    async def test_broken_before_the_headers(self, ending: Callable[[Writer], None]) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            ending(writer)

        server = RawServer(0)
        record = await one(respond, server=server)
        assert failure(record)[0] in (ErrorKind.REMOTE_PROTOCOL_ERROR, ErrorKind.READ_ERROR)
        # It was no kept-alive connection, so the server may have seen the request.
        assert (record.retried, len(server.posts)) == (False, 1)

    @pytest.mark.parametrize("ending", [reset, lambda writer: writer.close()], ids=["reset", "closed"])
    @pytest.mark.parametrize("where", ["within the headers", "within an event", "between events"])
    async def test_broken_within_the_response(
        self, ending: Callable[[Writer], None], where: str, watched: type[Watched]
    ) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            if where == "within the headers":
                await send(writer, STREAM_HEAD[:30])
            else:
                await send(writer, STREAM_HEAD)
                await send_read(writer, watched, OPENER, token("a"))
            if where == "within an event":
                await send(writer, chunked(token("b"))[:25])
            ending(writer)

        record = await one(respond)
        kind, message = failure(record)
        assert kind in (ErrorKind.REMOTE_PROTOCOL_ERROR, ErrorKind.READ_ERROR)
        assert "timeout" not in message.lower()
        assert record.status == (None if where == "within the headers" else 200)
        assert not record.retried

    @pytest.mark.parametrize("ending", [reset, lambda writer: writer.close()], ids=["reset", "closed"])
    async def test_a_kept_alive_connection_that_is_dead_is_replaced_once(
        self, ending: Callable[[Writer], None]
    ) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            if call.on_connection:
                ending(writer)
            else:
                await send_stream(writer, *WHOLE)

        server = RawServer(0)
        found = await records(respond, count=3, server=server)
        assert [succeeds(record) for record in found] == [True, True, True]
        assert found[0].retried is False
        assert found[1].retried is True
        assert len({call.headers["x-request-id"] for call in server.posts}) == 3

    async def test_the_time_of_a_replaced_connection_starts_anew(self) -> None:
        clock = Clock()

        async def respond(call: Call, writer: Writer) -> None:
            if call.on_connection:
                clock.pass_ms(500)
                writer.close()
            else:
                await send_stream(writer, *WHOLE)

        [first, second] = await records(respond, count=2, clock=clock)
        assert (first.retried, second.retried) == (False, True)
        assert second.start_ns - first.start_ns == 500_000_000
        assert second.end_ns == second.start_ns

    async def test_a_second_failure_is_not_retried(self) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            if call.number:
                writer.close()
            else:
                await send_stream(writer, *WHOLE)

        server = RawServer(0)
        [first, second] = await records(respond, count=2, server=server)
        assert succeeds(first)
        assert failure(second)[0] is ErrorKind.REMOTE_PROTOCOL_ERROR
        assert second.retried
        assert len(server.posts) == 3

    async def test_a_kept_alive_connection_that_breaks_within_the_response_is_not_retried(self) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            if call.number:
                await send(writer, STREAM_HEAD, chunked(token("a")))
                writer.close()
            else:
                await send_stream(writer, *WHOLE)

        server = RawServer(0)
        [_, second] = await records(respond, count=2, server=server)
        assert failure(second)[0] is ErrorKind.REMOTE_PROTOCOL_ERROR
        assert (second.retried, len(server.posts)) == (False, 2)

    @pytest.mark.parametrize(
        "rubbish",
        [b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 abc\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"<html></html>\r\n\r\n"],
    )
    async def test_what_is_not_http_is_said(self, rubbish: bytes) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send(writer, rubbish)
            writer.close()

        kind, message = failure(await one(respond))
        assert kind is ErrorKind.REMOTE_PROTOCOL_ERROR
        assert message.startswith("the response is not HTTP: ")

    async def test_a_broken_chunk_size_is_a_failure(self) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send(writer, STREAM_HEAD, chunked(token("a")), b"zz\r\nhello\r\n")
            writer.close()

        kind, message = failure(await one(respond))
        assert kind is ErrorKind.REMOTE_PROTOCOL_ERROR
        assert message.startswith("the response is not HTTP: ")


class TestTimeouts:
    @pytest.mark.parametrize(
        "sent", [(), (STREAM_HEAD,), (STREAM_HEAD, chunked(token("a")))], ids=["none", "head", "some"]
    )
    async def test_a_server_that_falls_silent(
        self, sent: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch, skip_seconds: Callable[[float], None]
    ) -> None:
        reads = Reads(monkeypatch)

        async def respond(call: Call, writer: Writer) -> None:
            await reads.send(writer, *sent)
            await asyncio.sleep(0)  # in which the task that waits for the headers gets them
            skip_seconds(3600)
            await forever()

        record = await one(respond, request_timeout_seconds=3600)
        assert failure(record) == (
            ErrorKind.READ_TIMEOUT,
            "no complete response within 3600 s (--request-timeout-seconds)",
        )
        assert record.status == (200 if sent else None)
        assert not record.retried

    async def test_a_server_that_is_never_done(self) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send(writer, STREAM_HEAD)
            while True:
                await send(writer, chunked(token("a")), chunked(b": ping\n\n"), pause=0.02)

        kind, message = failure(await one(respond, request_timeout_seconds=0.3))
        assert (kind, message) == (
            ErrorKind.READ_TIMEOUT,
            "no complete response within 0.3 s (--request-timeout-seconds)",
        )


class TestStatus:
    @pytest.mark.parametrize("status", [400, 401, 404, 422, 429, 500, 503])
    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ({"error": {"message": "too long", "type": "x"}}, ": too long"),
            ({"object": "error", "message": "too long", "code": 400}, ": too long"),
            ({"detail": "too long"}, ": too long"),
            ({"detail": [{"loc": ["body"], "msg": "too long"}]}, ": too long"),
            (b"<html>too long</html>", ": <html>too long</html>"),
            (b"too long\n", ": too long"),
            (b"", ""),
            (b"caf\xe9", ": caf\ufffd"),
            (b'{"error":' * 1010 + b"1" + b"}" * 1010, ': {"error": 1}'),
        ],
        ids=["object", "flat", "detail", "details", "HTML", "text", "empty", "not UTF-8", "deep"],
    )
    async def test_a_status_fails_with_what_the_server_said(self, status: int, body: Any, said: str) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send_json(writer, status, body, reason="Reason")

        record = await one(respond)
        assert failure(record) == (ErrorKind.HTTP_STATUS, f"HTTP {status} Reason{said}")
        assert record.status == status
        assert record.error is not None
        assert record.error.status == status

    async def test_a_redirect_is_not_followed(self) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send_json(writer, 307, b"", {"location": "http://127.0.0.1:1/elsewhere"}, reason="Temporary Redirect")

        server = RawServer(0)
        record = await one(respond, server=server)
        text = "HTTP 307 Temporary Redirect to http://127.0.0.1:1/elsewhere (redirects are not followed)"
        assert failure(record) == (ErrorKind.HTTP_STATUS, text)
        assert len(server.calls) == 1

    async def test_a_huge_error_body_is_read_in_part(self) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send(writer, head(500, "X", {"transfer-encoding": "chunked"}))
            while True:
                await send(writer, chunked(b"x" * 65536))

        kind, message = failure(await one(respond))
        assert kind is ErrorKind.HTTP_STATUS
        assert 4000 < len(message) < 5000

    @pytest.mark.parametrize(("sent", "said"), [(b"busy", "busy"), (b"", "body lost (TimeoutError)")])
    async def test_an_error_body_that_never_ends_does_not_hide_the_status(
        self, sent: bytes, said: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sink_module, "_REFUSAL_SECONDS", 0.1)

        async def respond(call: Call, writer: Writer) -> None:
            # In one piece: a time-out between the two would be another test.
            await send(writer, head(503, "Busy", {"content-length": "99"}) + sent)
            await forever()

        record = await one(respond, request_timeout_seconds=3600)
        assert failure(record) == (ErrorKind.HTTP_STATUS, f"HTTP 503 Busy: {said}")

    async def test_an_error_body_that_is_cut_off_does_not_hide_the_status(self) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send(writer, head(503, "Busy", {"content-length": "99"}), b"half a rea")
            writer.close()

        kind, message = failure(await one(respond))
        assert kind is ErrorKind.HTTP_STATUS
        assert message.startswith("HTTP 503 Busy: ")

    async def test_a_secret_that_the_server_echoes_is_taken_out(self) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send_json(writer, 401, {"error": {"message": f"bad {call.headers['authorization']}"}})

        record = await one(respond, api_key="sk-hunter2")
        assert "hunter2" not in failure(record)[1]
        assert "bad Bearer <redacted>" in failure(record)[1]

    @pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"null", b'{"choices": []}', b"<html>", b"OK", b'{"choices":'])
    async def test_a_success_that_holds_nothing_is_a_failure(self, body: bytes) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send_json(writer, 200, body)

        for streaming in (True, False):
            record = await one(respond, streaming=streaming)
            assert failure(record)[0] in (ErrorKind.MALFORMED, ErrorKind.INCOMPLETE)


def compressed(encoding: str, pieces: tuple[bytes, ...]) -> list[bytes]:
    """Compress each piece so that it can be read when it came, as a server does that flushes."""
    bits = {"gzip": 31, "x-gzip": 31, "deflate": 15}[encoding]
    compressor = zlib.compressobj(wbits=bits)
    flushed = [compressor.compress(piece) + compressor.flush(zlib.Z_SYNC_FLUSH) for piece in pieces]
    return [*flushed, compressor.flush()]


class TestCompression:
    @pytest.mark.parametrize("encoding", ["gzip", "deflate", "GZIP"])
    async def test_a_server_that_compresses_anyway_is_decoded_event_by_event(
        self, encoding: str, watched: type[Watched]
    ) -> None:
        clock = Clock()

        async def respond(call: Call, writer: Writer) -> None:
            assert call.headers["accept-encoding"] == "identity"
            headers = {
                "content-type": "text/event-stream",
                "transfer-encoding": "chunked",
                "content-encoding": encoding,
            }
            *pieces, end = compressed(encoding.lower(), WHOLE)
            await send(writer, head(200, "OK", headers))
            await send_read(writer, watched, *pieces, clock=clock)
            await send(writer, chunked(end), chunked(b""))

        record = await one(respond, clock=clock)
        assert succeeds(record)
        assert list(record.chunk_gaps_ns or ()) == [50_000_000, 50_000_000]

    async def test_an_error_body_is_decoded_too(self) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            body = gzip.compress(b'{"error": {"message": "too long"}}')
            await send_json(writer, 400, body, {"content-encoding": "gzip"})

        assert failure(await one(respond)) == (ErrorKind.HTTP_STATUS, "HTTP 400 X: too long")

    @pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, br", "rot13"])
    async def test_an_encoding_that_nobody_asked_for_is_said(self, encoding: str) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send_json(writer, 200, b"\x00\x01", {"content-encoding": encoding})

        kind, message = failure(await one(respond))
        assert kind is ErrorKind.DECODING_ERROR
        assert message == f"the response cannot be decoded: it is compressed as {encoding!r}, which was not asked for"

    async def test_what_is_not_gzip_is_said(self) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send_json(writer, 200, BODY, {"content-encoding": "gzip"})

        kind, message = failure(await one(respond))
        assert kind is ErrorKind.DECODING_ERROR
        assert "cannot be decoded" in message


class TestRequests:
    async def test_what_is_sent(self) -> None:
        server = RawServer(0)
        headers = (("X-Team", "search"), ("Accept", "x/y"))
        await one(answer, server=server, api_key="sk-1", headers=headers)
        [call] = server.calls
        assert (call.method, call.path) == ("POST", "/v1/chat/completions")
        sent = call.headers
        assert sent["authorization"] == "Bearer sk-1"
        assert (sent["x-team"], sent["accept"], sent["content-type"]) == ("search", "x/y", "application/json")
        assert sent["accept-encoding"] == "identity"
        assert sent["user-agent"].startswith("spec-profile/")
        assert len(sent["x-request-id"]) == 36
        assert call.json["messages"] == [{"role": "user", "content": "hi"}]

    @pytest.mark.parametrize("value", ["", " ", "a: b", "~!@#$%^&*()", "x" * 4000])
    async def test_a_header_of_any_text_that_is_taken_is_sent(self, value: str) -> None:
        server = RawServer(0)
        assert succeeds(await one(answer, server=server, headers=(("x-note", value),), api_key=value))
        assert server.calls[0].headers["x-note"] == value.strip()

    def test_the_users_headers_win_whatever_their_case(self) -> None:
        config = ProfileConfig(url="h", api_key="sk-1", headers=(("AUTHORIZATION", "Basic x"), ("User-Agent", "me")))
        headers = request_headers(config, split_endpoint("h"))
        assert (headers["authorization"], headers["user-agent"]) == ("Basic x", "me")
        assert len({name.lower() for name in headers}) == len(headers)

    def test_credentials_of_the_url_become_a_header(self) -> None:
        config = ProfileConfig(url="http://user:pass@h")
        assert request_headers(config, split_endpoint(config.url))["authorization"] == "Basic dXNlcjpwYXNz"
        config = ProfileConfig(url="http://user:pass@h", api_key="k")
        assert request_headers(config, split_endpoint(config.url))["authorization"] == "Bearer k"

    @pytest.mark.parametrize("cookie", ["id=1", "id=1; Path=/; Domain=127.0.0.1", "broken", "=;=;", "a=b; expires=x"])
    async def test_cookies_are_not_sent_back(self, cookie: str) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send_json(writer, 200, BODY, {"set-cookie": cookie})

        server = RawServer(0)
        found = await records(respond, count=3, server=server)
        assert all(map(succeeds, found))
        assert all("cookie" not in call.headers for call in server.calls)
        assert server.connections == 1


class TestConnections:
    async def test_as_many_requests_are_in_flight_as_were_asked_for(self) -> None:
        count = 150
        arrived = 0
        everyone = asyncio.Event()

        async def respond(call: Call, writer: Writer) -> None:
            nonlocal arrived
            arrived += 1
            if arrived == count:
                everyone.set()
            await everyone.wait()
            await send_stream(writer, *WHOLE)

        async with serving(respond) as server:
            config = ProfileConfig(
                url=server.url, model="m", concurrency=count, request_count=count, request_timeout_seconds=60
            )
            result = await profile_async(config, Hooks())
            assert len(result.records) == count
            assert all(map(succeeds, result.records))
            assert len(server.posts) == count

    async def test_a_connection_is_used_again(self) -> None:
        server = RawServer(0)
        assert all(map(succeeds, await records(answer, count=5, server=server)))
        assert server.connections == 1

    @pytest.mark.parametrize("broken", [False, True])
    async def test_every_connection_is_closed_in_the_end(self, broken: bool) -> None:
        # A session or a connection left open would be a ResourceWarning, which fails the test too.
        async def respond(call: Call, writer: Writer) -> None:
            if broken and call.number % 2:
                await send(writer, STREAM_HEAD, chunked(token("a")))
                reset(writer)
            else:
                await send_stream(writer, *WHOLE)

        async with serving(respond) as server:
            config = ProfileConfig(url=server.url, model="m", concurrency=4, request_count=12)
            result = await profile_async(config, Hooks())
            assert len(result.records) == 12
            await happens(lambda: server.open_connections == 0, "connections to be closed")


class TestGets:
    @pytest.fixture
    async def client(self) -> AsyncIterator[tuple[Client, list[bytes]]]:
        """Give a client, and the list that holds what its server answers."""
        answers = [b""]

        def respond(request: httpx.Request) -> httpx.Response:
            if not answers[0]:
                raise httpx.ConnectError("refused")
            return httpx.Response(int(answers[0][:3]), content=answers[0][4:])

        config = ProfileConfig(url="http://h", model="m")
        async with Client(config, split_endpoint(config.url), transport=httpx.MockTransport(respond)) as client:
            yield client, answers

    @pytest.mark.parametrize(
        ("reply", "value"),
        [
            (b'200 {"data": []}', {"data": []}),
            (b"200 <html>", None),
            (b'404 {"error": 1}', None),
            (b"503 {}", None),
            (b"", None),
        ],
    )
    async def test_get_json(self, client: tuple[Client, list[bytes]], reply: bytes, value: Any) -> None:
        asking, answers = client
        answers[0] = reply
        assert await asking.get_json("http://h/v1/models") == value


class TestFakeClock:
    async def test_stamps_are_the_clocks(self) -> None:
        """Drive time by hand: each look at the clock is a moment later."""
        now = iter(range(100, 10_000, 100))

        async def stream() -> AsyncIterator[bytes]:
            yield OPENER + token("a")
            yield token("b") + token("c", "stop")
            yield USAGE + DONE

        class Chunks(httpx.AsyncByteStream):
            def __aiter__(self) -> AsyncIterator[bytes]:
                return stream()

        transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=Chunks()))
        config = ProfileConfig(url="http://h", model="m")
        exchange, reader = RequestTrace(), ResponseReader(())
        async with Client(config, split_endpoint("http://h"), transport=transport, clock=lambda: next(now)) as client:
            await client.post(b"{}", "id", exchange, reader)
        assert (exchange.start_ns, exchange.ack_ns) == (100, 200)
        assert [response.arrival_ns for response in reader.responses] == [300, 300, 400, 400, 500, 500]
        assert exchange.end_ns == 600
        assert (exchange.status, reader.is_stream, exchange.retried) == (200, True, False)

    async def test_an_event_past_the_limit_is_a_failure(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("aiperf_spec.wire.response_reader.MAX_EVENT_BYTES", 100)
        transport = httpx.MockTransport(lambda request: httpx.Response(200, content=b"{" + b" " * 200))
        config = ProfileConfig(url="http://h", model="m")
        async with Client(config, split_endpoint("http://h"), transport=transport) as client:
            with pytest.raises(RequestFailedError) as caught:
                await client.post(b"{}", "id", RequestTrace(), ResponseReader(()))
        assert caught.value.error.kind is ErrorKind.MALFORMED


async def test_an_endless_answer_to_a_get_is_given_up() -> None:
    sent = 0

    class Endless(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            nonlocal sent
            while True:
                sent += 1
                yield b"x" * (1024 * 1024)

    transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=Endless()))
    config = ProfileConfig(url="http://h", model="m")
    async with Client(config, split_endpoint("http://h"), transport=transport) as client:
        assert await client.get("http://h/metrics") is None
    assert sent == 33


class TestEverythingIsSentByHttpx:
    @pytest.fixture
    def sent(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Give the list of the paths that `httpx.AsyncClient.send` was given."""
        paths: list[str] = []
        send_of_httpx = httpx.AsyncClient.send

        async def counting(client: httpx.AsyncClient, request: httpx.Request, **options: Any) -> httpx.Response:
            paths.append(request.url.path)
            return await send_of_httpx(client, request, **options)

        monkeypatch.setattr(httpx.AsyncClient, "send", counting)
        return paths

    @pytest.mark.parametrize("given", [None, httpx.AsyncHTTPTransport], ids=["ours", "httpx's"])
    async def test_over_sockets(self, sent: list[str], given: Callable[[], httpx.AsyncBaseTransport] | None) -> None:
        async with serving(answer) as server:
            config = ProfileConfig(url=server.url, model="m", concurrency=3, request_count=9, warmup_request_count=2)
            transport = None if given is None else given()
            result = await profile_async(config, Hooks(transport=transport))
        assert all(map(succeeds, result.records))
        assert sorted(sent) == sorted(call.path for call in server.calls)
        assert {"/v1/models", "/metrics", "/v1/chat/completions"} <= set(sent)
        assert sent.count("/v1/chat/completions") == 11
        opened = [record for record in result.records if record.connect_ns is not None]
        assert len(opened) == (0 if given else server.connections - 1)  # the list of models opened one

    async def test_over_a_transport_that_is_no_network(self, sent: list[str]) -> None:
        asked: list[str] = []

        def respond(request: httpx.Request) -> httpx.Response:
            asked.append(request.url.path)
            if request.method == "GET":
                return httpx.Response(200, json={"data": [{"id": "m"}]} if "models" in request.url.path else None)
            assert orjson.loads(request.content)["model"] == "m"
            return httpx.Response(200, content=b"".join(WHOLE), headers={"content-type": "text/event-stream"})

        config = ProfileConfig(url="http://nowhere.invalid", concurrency=2, request_count=5)
        result = await profile_async(config, Hooks(transport=httpx.MockTransport(respond)))
        assert all(map(succeeds, result.records))
        assert (len(result.records), sent) == (5, asked)


async def test_a_cookie_of_a_load_balancer_does_not_pin_the_run() -> None:
    """The balancer follows its cookie, and deals requests without one out in turn."""
    replicas: list[str] = []

    async def respond(call: Call, writer: Writer) -> None:
        replica = call.headers.get("cookie", f"replica={len(replicas) % 3}")
        replicas.append(replica)
        await send_json(writer, 200, BODY, {"set-cookie": f"{replica}; Path=/"})

    async with serving(respond) as server:
        config = ProfileConfig(url=server.url, model="m", streaming=False, concurrency=2, request_count=9)
        result = await profile_async(config, Hooks())
    assert all(map(succeeds, result.records))
    assert sorted(replicas) == ["replica=0"] * 3 + ["replica=1"] * 3 + ["replica=2"] * 3


@pytest.mark.parametrize("location", ["http://[", "http://h:port/", "//", "\x00", "/elsewhere"])
async def test_a_redirect_to_no_url_is_a_status_all_the_same(location: str) -> None:
    async def respond(call: Call, writer: Writer) -> None:
        await send_json(writer, 302, b"", {"location": location}, reason="Found")

    kind, message = failure(await one(respond))
    if location != "\x00":  # which is no header
        assert kind is ErrorKind.HTTP_STATUS
        assert message.startswith(f"HTTP 302 Found to {location} (redirects are not followed)")


@pytest.mark.parametrize("proxied", [False, True])
async def test_no_secret_is_logged(
    proxied: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(answer) as server:
        url = server.url
        if proxied:
            monkeypatch.setenv("http_proxy", server.url)
            monkeypatch.setenv("no_proxy", "")
            url = "http://server.invalid"
        config = ProfileConfig(
            url=f"{url.replace('://', '://user:hunter2@')}/v1?key=hunter3&x=1",
            api_key="hunter4",
            request_count=2,
            model="m",
        )
        with caplog.at_level(logging.DEBUG):
            result = await profile_async(config, Hooks())
        assert all(map(succeeds, result.records))
        assert server.posts[0].path.endswith("/v1/chat/completions?key=hunter3&x=1")
    assert "/v1/chat/completions?..." in caplog.text
    for secret in ("hunter2", "hunter3", "hunter4"):
        assert secret not in caplog.text
    # Whoever else uses httpx in this process finds its log as it was.
    assert logging.getLogger("httpx").filters == []


async def test_what_the_environment_says_of_a_host_is_not_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login user password hunter2\n")
    monkeypatch.setenv("NETRC", str(netrc))
    server = RawServer(0)
    assert succeeds(await one(answer, server=server))
    assert "authorization" not in server.calls[0].headers


async def test_an_unknown_exception_of_a_transport_is_no_failure_of_a_request() -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        raise RuntimeError("a fault of the program")

    config = ProfileConfig(url="http://h", model="m")
    async with Client(config, split_endpoint(config.url), transport=httpx.MockTransport(respond)) as client:
        with pytest.raises(RuntimeError, match="a fault"):
            await client.post(b"{}", "id", RequestTrace(), ResponseReader(()))
