"""Connections: what is kept alive, what a response may look like on the wire, and the way through a proxy."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from aiperf_spec.client import client as client_module
from aiperf_spec.client import stamping_transport
from aiperf_spec.client.client import Client
from aiperf_spec.client.connection import Connection
from aiperf_spec.client.failures import RequestFailedError
from aiperf_spec.client.sink import RequestTrace
from aiperf_spec.client.stamping_transport import StampingTransport
from aiperf_spec.config.server_url import split_endpoint
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import ConfigError
from aiperf_spec.models.run import ErrorKind
from aiperf_spec.wire.response_reader import ResponseReader
from tests.raw_server import (
    DONE,
    STREAM_HEAD,
    Call,
    RawServer,
    Reads,
    Respond,
    chunked,
    forever,
    head,
    send,
    send_json,
    send_stream,
    send_until,
    serving,
    token,
)
from tests.waiting import happens

Writer = asyncio.StreamWriter
TLS = Path(__file__).parent / "tls"
WHOLE = (token("a"), token("b"), token("c", "stop"), DONE)
BODY = b'{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}]}'
FOUND = head(200, "OK", {"content-length": str(len(BODY))}) + BODY


async def answer(call: Call, writer: Writer) -> None:
    await send_stream(writer, *WHOLE)


def said(reader: ResponseReader) -> str:
    return "".join(response.text for response in reader.responses)


async def ask(client: Client) -> tuple[RequestTrace, ResponseReader]:
    exchange, reader = RequestTrace(), ResponseReader(())
    await client.post(b"{}", "id", exchange, reader)
    return exchange, reader


async def texts(respond: Respond, *, count: int = 1, **values: Any) -> tuple[list[str], RawServer]:
    """Send requests one after the other; return what was answered, and what the server saw."""
    async with serving(respond) as server:
        config = ProfileConfig(url=server.url, model="m", **{"request_timeout_seconds": 60, **values})
        async with Client(config, split_endpoint(config.url)) as client:
            found = [said((await ask(client))[1]) for _ in range(count)]
    return found, server


async def failure(respond: Respond) -> tuple[ErrorKind, str]:
    with pytest.raises(RequestFailedError) as caught:
        await texts(respond)
    return caught.value.error.kind, caught.value.error.message


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


class TestKeepAlive:
    async def test_a_connection_that_the_server_closes_is_not_used_again(self) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            headers = {"connection": "close", "content-length": str(len(BODY))}
            await send(writer, head(200, "OK", headers) + BODY)

        found, server = await texts(respond, count=3)
        assert (found, server.connections) == (["x"] * 3, 3)

    async def test_a_connection_that_was_idle_for_too_long_is_not_used_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(stamping_transport, "KEEP_ALIVE_SECONDS", 0.0)
        found, server = await texts(answer, count=3)
        assert (found, server.connections) == (["abc"] * 3, 3)

    @pytest.mark.parametrize("excess", [b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nxxx", b"xxx", b"\r\n"])
    @pytest.mark.parametrize("is_late", [False, True])
    async def test_what_comes_behind_a_response_is_nobodys(self, excess: bytes, is_late: bool) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send(writer, FOUND if is_late else FOUND + excess)
            if is_late:
                await happens(lambda: answered > call.number, "the answer to be read")
                await send(writer, excess)

        answered = 0
        async with serving(respond) as server:
            config = ProfileConfig(url=server.url, model="m")
            async with Client(config, split_endpoint(config.url)) as client:
                for _ in range(3):
                    assert said((await ask(client))[1]) == "x"
                    answered += 1
                    if is_late:
                        await happens(lambda: server.open_connections == 0, "the connection to be closed")
        # Blank lines between responses are within what HTTP lets a server send.
        assert server.connections == (1 if excess == b"\r\n" and not is_late else 3)

    async def test_no_connection_is_left_behind_by_what_is_cancelled(self) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send(writer, STREAM_HEAD, chunked(token("a")))
            arrived.set()
            await forever()

        arrived = asyncio.Event()
        async with serving(respond) as server:
            config = ProfileConfig(url=server.url, model="m")
            async with Client(config, split_endpoint(config.url)) as client:
                task = asyncio.create_task(ask(client))
                await arrived.wait()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                # Seen by the server as an error of its own task: it reads nothing more.
                assert not [each for each in connections() if each.is_open]


class TestMemory:
    @pytest.mark.parametrize("how", ["refused", "broken", "status", "not HTTP"])
    async def test_failed_requests_leave_no_circles(self, how: str) -> None:
        """The run collects young garbage alone: what refers to itself from an old object would stay to its end."""

        async def respond(call: Call, writer: Writer) -> None:
            if how == "status":
                await send_json(writer, 500, {"error": "no"})
                return
            await send(writer, *((STREAM_HEAD, chunked(token("a"))) if how == "broken" else (b"SSH-2.0\r\n",)))
            writer.close()

        async with serving(respond) as server:
            url = "http://127.0.0.1:1" if how == "refused" else server.url
            config = ProfileConfig(url=url, model="m")
            readers: list[weakref.ref[ResponseReader]] = []
            async with Client(config, split_endpoint(config.url)) as client:
                before = connections()
                gc.disable()
                try:
                    for _ in range(5):
                        reader = ResponseReader(())
                        readers.append(weakref.ref(reader))
                        with pytest.raises(RequestFailedError):
                            await client.post(b"{}", "id", RequestTrace(), reader)
                        del reader
                        await asyncio.sleep(0)
                        await asyncio.sleep(0)
                    alive = [ref for ref in readers if ref() is not None]
                    left = [each for each in connections() if all(each is not known for known in before)]
                finally:
                    gc.enable()
        assert alive == []
        assert len(left) == (how == "status")  # the one that is kept alive


def connections() -> list[Connection]:
    return [each for each in gc.get_objects() if type(each) is Connection]


class TestResponses:
    @pytest.mark.parametrize("status", [100, 102, 103])
    @pytest.mark.parametrize("together", [True, False])
    async def test_interim_responses_are_passed_over(self, status: int, together: bool, reads: Reads) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            interim = head(status, "Wait", {"link": "x"})
            await reads.send(writer, *((interim + FOUND,) if together else (interim, FOUND)))

        found, server = await texts(respond, count=2)
        assert (found, server.connections) == (["x"] * 2, 1)

    async def test_a_switch_to_another_protocol_is_a_failure(self) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send(writer, head(101, "Switching Protocols", {"connection": "upgrade", "upgrade": "h2c"}), b"\x00")

        kind, message = await failure(respond)
        assert kind is ErrorKind.HTTP_STATUS
        assert message.startswith("HTTP 101 Switching Protocols")

    @pytest.mark.parametrize("version", ["1.0", "1.1"])
    async def test_a_body_may_end_with_the_connection(self, version: str, reads: Reads) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await reads.send(writer, f"HTTP/{version} 200 OK\r\n\r\n".encode(), BODY[:9], BODY[9:])
            writer.close()

        found, server = await texts(respond, count=2)
        assert (found, server.connections) == (["x"] * 2, 2)

    @pytest.mark.parametrize("end", ["\r\n", "\n"])
    async def test_trailers_and_chunk_extensions(self, end: str, reads: Reads) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            body = f"{len(BODY):x};name=value{end}".encode() + BODY + f"{end}0{end}x-trailer: y{end}{end}".encode()
            await (
                send(writer, STREAM_HEAD + body)
                if end == "\n"
                else reads.send(writer, STREAM_HEAD, body[:40], body[40:])
            )

        if end == "\n":  # chunks are framed by CR LF: what is not is refused, not guessed at
            assert (await failure(respond))[0] is ErrorKind.REMOTE_PROTOCOL_ERROR
        else:
            found, server = await texts(respond, count=2)
            assert (found, server.connections) == (["x"] * 2, 1)

    async def test_endless_headers_are_given_up(self) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send(writer, b"HTTP/1.1 200 OK\r\n")
            while True:
                await send(writer, b"x-header: " + b"y" * 60_000 + b"\r\n")

        kind, message = await failure(respond)
        assert (kind, message) == (
            ErrorKind.REMOTE_PROTOCOL_ERROR,
            "the response is not HTTP: headers of more than 1 MiB",
        )

    async def test_a_body_shorter_than_it_says_is_broken(self) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send(writer, head(200, "OK", {"content-length": "999"}) + BODY)
            writer.close()

        kind, message = await failure(respond)
        assert kind is ErrorKind.REMOTE_PROTOCOL_ERROR
        assert "within the response" in message

    async def test_every_cut_of_a_response_gives_the_same(self, reads: Reads) -> None:
        whole = STREAM_HEAD + b"".join(map(chunked, (*WHOLE, b"")))

        async def respond(call: Call, writer: Writer) -> None:
            at = call.number * 7 + 1
            await reads.send(writer, whole[:at], whole[at:])

        found, server = await texts(respond, count=len(whole) // 7)
        assert set(found) == {"abc"}
        assert server.connections == 1


class TestConnecting:
    async def test_a_name_is_resolved_once_for_many_connections(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        asked: list[Any] = []
        resolve = loop.getaddrinfo

        async def counting(*arguments: Any, **options: Any) -> Any:
            asked.append(arguments)
            return await resolve("127.0.0.1", *arguments[1:], **options)

        monkeypatch.setattr(loop, "getaddrinfo", counting)
        monkeypatch.setattr(stamping_transport, "KEEP_ALIVE_SECONDS", 0.0)
        async with serving(answer) as server:
            config = ProfileConfig(url=f"http://some.host:{server.port}", model="m")
            async with Client(config, split_endpoint(config.url)) as client:
                both = await asyncio.gather(*(ask(client) for _ in range(5)))
            assert [said(reader) for _, reader in both] == ["abc"] * 5
            assert server.connections == 5
            assert server.calls[0].headers["host"] == f"some.host:{server.port}"
        assert asked == [("some.host", server.port)]

    async def test_connections_opened_at_once_share_the_replicas_behind_a_name(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def two(*_: Any, **__: Any) -> Any:
            replicas = (one.port, other.port)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in replicas]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", two)
        monkeypatch.setattr(stamping_transport, "KEEP_ALIVE_SECONDS", 0.0)
        async with serving(answer) as one, serving(answer) as other:
            config = ProfileConfig(url="http://some.host", model="m")
            async with Client(config, split_endpoint(config.url)) as client:
                await asyncio.gather(*(ask(client) for _ in range(6)))
            assert (one.connections, other.connections) == (3, 3)

    @pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
    @pytest.mark.parametrize("host", ["::1", "localhost"])
    async def test_a_server_on_one_family_alone(self, host: str) -> None:
        async def connected(reader: asyncio.StreamReader, writer: Writer) -> None:
            await reader.readuntil(b"\r\n\r\n")
            await send_stream(writer, *WHOLE)
            writer.close()

        found = {info[0] for info in socket.getaddrinfo("localhost", 0, type=socket.SOCK_STREAM)}
        if host == "localhost" and socket.AF_INET6 not in found:
            pytest.skip("localhost has no IPv6 address here")
        try:
            listener = await asyncio.start_server(connected, "::1", 0, family=socket.AF_INET6)
        except OSError:
            pytest.skip("no IPv6 loopback here")
        port = listener.sockets[0].getsockname()[1]
        config = ProfileConfig(url=f"http://{f'[{host}]' if ':' in host else host}:{port}", model="m")
        async with Client(config, split_endpoint(config.url)) as client:
            for _ in range(3):
                assert said((await ask(client))[1]) == "abc"
        listener.close()
        await listener.wait_closed()

    async def test_an_address_that_refuses_is_passed_over(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()

        async def two(host: str, port: int, **options: Any) -> Any:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (where, port)) for where in ("127.0.0.9", "127.0.0.1")]

        monkeypatch.setattr(loop, "getaddrinfo", two)
        async with serving(answer) as server:
            config = ProfileConfig(url=f"http://some.host:{server.port}", model="m")
            async with Client(config, split_endpoint(config.url)) as client:
                for _ in range(3):
                    assert said((await ask(client))[1]) == "abc"

    async def test_a_name_that_does_not_resolve_is_said_to_all_who_wait(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = 0

        async def slowly(*_: Any, **__: Any) -> Any:
            nonlocal asked
            asked += 1
            await happens(lambda: waiting == 5, "five who wait")
            raise socket.gaierror(-3, "Temporary failure in name resolution")

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", slowly)
        config = ProfileConfig(url="http://some.host", model="m")
        waiting = 0

        async def waits(client: Client) -> None:
            nonlocal waiting
            waiting += 1
            await ask(client)

        async with Client(config, split_endpoint(config.url)) as client:
            found = await asyncio.gather(*(waits(client) for _ in range(5)), return_exceptions=True)
            assert {error.error.message for error in found if isinstance(error, RequestFailedError)} == {
                "the host name cannot be resolved: some.host:80: Temporary failure in name resolution"
            }
            assert (len(found), asked) == (5, 1)

    @pytest.mark.parametrize("steps", range(1, 14))
    async def test_who_is_cancelled_while_connecting_leaves_nothing(self, steps: int) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")

        async def connected(reader: asyncio.StreamReader, writer: Writer) -> None:
            with suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
                await reader.readuntil(b"\r\n\r\n")
                await send_stream(writer, *WHOLE)
            writer.close()

        listener = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
        port = listener.sockets[0].getsockname()[1]
        config = ProfileConfig(url=f"https://localhost:{port}", model="m", ca_file=TLS / "cert.pem")
        async with Client(config, split_endpoint(config.url)) as client:
            task = asyncio.create_task(ask(client))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            for _ in range(2):
                assert said((await ask(client))[1]) == "abc"
        listener.close()
        await listener.wait_closed()

    def test_certificates_that_cannot_be_read_are_said_at_once(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
        for url, proxy in (("https://server", None), ("http://server", "http://127.0.0.1:9")):
            if proxy is not None:
                monkeypatch.setenv("http_proxy", proxy)
            config = ProfileConfig(url=url, model="m")
            with pytest.raises(ConfigError, match=r"missing\.pem' \(SSL_CERT_FILE"):
                Client(config, split_endpoint(config.url))

    async def test_a_get_has_no_id_and_no_body(self) -> None:
        async with serving(answer) as server:
            config = ProfileConfig(url=server.url, model="m")
            async with Client(config, split_endpoint(config.url)) as client:
                assert await client.get_json(f"{server.url}/v1/models") is None
            [call] = server.calls
        assert (call.method, call.body) == ("GET", b"")
        assert not {"x-request-id", "content-length"} & call.headers.keys()

    async def test_a_connection_that_takes_too_long(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def never(*_: Any, **__: Any) -> Any:
            await forever()

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", never)
        monkeypatch.setattr(client_module, "CONNECT_TIMEOUT_SECONDS", 0.05)
        config = ProfileConfig(url="http://some.host", model="m")
        async with Client(config, split_endpoint(config.url)) as client:
            with pytest.raises(RequestFailedError) as caught:
                await ask(client)
        error = caught.value.error
        assert (error.kind, error.message) == (ErrorKind.CONNECT_TIMEOUT, "no connection: none within 0.05 s")

    @pytest.mark.parametrize("host", ["b\u00fc..b", "b\u00fc" + "x" * 64])
    async def test_a_name_that_cannot_be_written_in_ascii_is_refused_at_once(self, host: str) -> None:
        config = ProfileConfig(url=f"http://{host}/v1?key=hunter2", model="m")
        with pytest.raises(ConfigError, match="IDNA") as caught:
            Client(config, split_endpoint(config.url))
        assert host in caught.value.message
        assert "hunter2" not in caught.value.message

    @pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".example"])
    async def test_a_name_that_no_host_can_have(self, host: str) -> None:
        config = ProfileConfig(url=f"http://{host}", model="m")
        async with Client(config, split_endpoint(config.url)) as client:
            with pytest.raises(RequestFailedError) as caught:
                await ask(client)
            assert await client.get(f"http://{host}/metrics") is None
        assert caught.value.error.kind is ErrorKind.CONNECT_ERROR
        assert host in caught.value.error.message

    async def test_https(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
        connections = 0

        async def connected(reader: asyncio.StreamReader, writer: Writer) -> None:
            nonlocal connections
            connections += 1
            while await reader.readline():
                while await reader.readline() != b"\r\n":
                    pass
                await reader.readexactly(2)
                await send_stream(writer, *WHOLE)
            writer.close()

        listener = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
        port = listener.sockets[0].getsockname()[1]
        config = ProfileConfig(url=f"https://localhost:{port}", model="m", ca_file=TLS / "cert.pem")
        async with Client(config, split_endpoint(config.url)) as client:
            for _ in range(3):
                exchange, reader = await ask(client)
                assert said(reader) == "abc"
                assert exchange.ack_ns is not None
        assert connections == 1
        listener.close()
        await listener.wait_closed()

    async def test_certificates_that_nobody_vouches_for(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
        listener = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
        config = ProfileConfig(url=f"https://localhost:{listener.sockets[0].getsockname()[1]}", model="m")
        async with Client(config, split_endpoint(config.url)) as client:
            with pytest.raises(RequestFailedError) as caught:
                await ask(client)
        assert caught.value.error.kind is ErrorKind.CONNECT_ERROR
        assert caught.value.error.message.startswith("TLS failed: localhost:")
        listener.close()
        await listener.wait_closed()


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/v1/x", "/v1/x"),
        ("/v1/x?a=b c", "/v1/x?a=b%20c"),
        ("", "/"),
        ("/\u00e9?q=%2F", "/%C3%A9?q=%2F"),
    ],
)
@pytest.mark.parametrize(
    ("host", "sent"), [("127.0.0.1", "127.0.0.1"), ("stra\u00dfe.localhost", "xn--strae-oqa.localhost")]
)
async def test_what_httpx_builds_is_what_is_sent(
    path: str, target: str, host: str, sent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    resolve = loop.getaddrinfo
    monkeypatch.setattr(loop, "getaddrinfo", lambda *given, **options: resolve("127.0.0.1", *given[1:], **options))
    async with serving(answer) as server, httpx.AsyncClient(transport=StampingTransport()) as client:
        response = await client.post(f"http://{host}:{server.port}{path}", content=b"{}", headers={"accept": "x/y"})
    assert (response.status_code, response.text, response.http_version) == (200, b"".join(WHOLE).decode(), "HTTP/1.1")
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    [call] = server.calls
    assert (call.method, call.path, call.body) == ("POST", target, b"{}")
    assert call.headers["host"] == f"{sent}:{server.port}"
    assert (call.headers["accept"], call.headers["content-length"]) == ("x/y", "2")


async def test_what_opening_a_connection_took_is_told_once() -> None:
    async with serving(answer) as server, httpx.AsyncClient(transport=StampingTransport()) as client:
        took = [(await client.post(server.url)).extensions["connect_ns"] for _ in range(2)]
    assert took[0] > 0
    assert took[1] is None


class TestProxies:
    """The proxy of these tests is a server that answers in the other one's place, as a forwarding proxy does."""

    @pytest.fixture
    def through(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
        def use(proxy: str) -> None:
            for scheme in ("http", "https"):
                monkeypatch.setenv(f"{scheme}_proxy", proxy)
            monkeypatch.delenv("no_proxy", raising=False)
            monkeypatch.delenv("NO_PROXY", raising=False)

        return use

    async def failure(self, url: str) -> tuple[ErrorKind, str]:
        config = ProfileConfig(url=url, model="m", request_timeout_seconds=60)
        async with Client(config, split_endpoint(config.url)) as client:
            with pytest.raises(RequestFailedError) as caught:
                await ask(client)
        return caught.value.error.kind, caught.value.error.message

    async def test_a_stream(self, through: Callable[[str], None]) -> None:
        now_ns = 1_000_000
        pieces_read = 0

        class Counting(ResponseReader):
            def feed(self, data: bytes, at_ns: int) -> None:
                nonlocal pieces_read
                pieces_read += 1
                super().feed(data, at_ns)

        async def respond(call: Call, writer: Writer) -> None:
            nonlocal now_ns
            await send(writer, STREAM_HEAD)
            for piece in WHOLE:
                await send_until(writer, chunked(piece), lambda: pieces_read)
                now_ns += 1000
            await send(writer, chunked(b""))

        async with serving(respond) as proxy:
            through(proxy.url)
            config = ProfileConfig(url="http://server.invalid:8000", model="m", headers=(("x-team", "a"),))
            async with Client(config, split_endpoint(config.url), clock=lambda: now_ns) as client:
                for _ in range(2):
                    start_ns, exchange, reader = now_ns, RequestTrace(), Counting(())
                    await client.post(b"{}", "id", exchange, reader)
                    assert said(reader) == "abc"
                    assert (exchange.status, exchange.retried, exchange.connect_ns) == (200, False, None)
                    stamps = [at for each in reader.responses for at in each.arrivals_ns or [each.arrival_ns]]
                    assert stamps == [start_ns, start_ns + 1000, start_ns + 2000, start_ns + 3000]
                assert await client.get_json("http://server.invalid:8000/v1/models") is None
            assert [call.path for call in proxy.calls[:2]] == ["http://server.invalid:8000/v1/chat/completions"] * 2
            assert proxy.calls[0].headers["host"] == "server.invalid:8000"
            assert proxy.calls[0].headers["x-team"] == "a"
            assert proxy.connections == 1

    @pytest.mark.parametrize("excess", [1, 2], ids=["part of a response", "a whole one"])
    async def test_a_response_that_nobody_asked_for_answers_nothing(
        self, excess: int, through: Callable[[str], None]
    ) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            text = b'{"choices":[{"message":{"content":"%d"},"finish_reason":"stop"}]}' % call.number
            whole = head(200, "OK", {"content-length": str(len(text))}) + text
            stale = whole.replace(b'"content":"', b'"content":"stale ').replace(
                b": %d" % len(text), b": %d" % (len(text) + 6)
            )
            # In one write with the response: what comes later is seen on the idle connection.
            await send(writer, whole + stale[: len(stale) // (3 - excess)])

        async with serving(respond) as proxy:
            through(proxy.url)
            config = ProfileConfig(url="http://server.invalid", model="m", streaming=False)
            async with Client(config, split_endpoint(config.url)) as client:
                found = [await ask(client) for _ in range(3)]
            assert [(said(reader), exchange.retried) for exchange, reader in found] == [
                ("0", False),
                ("1", False),
                ("2", False),
            ]
            assert proxy.connections == 3

    async def test_what_the_server_behind_it_says_no_to(self, through: Callable[[str], None]) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send_json(writer, 502, {"error": "no server"}, reason="Bad Gateway")

        async with serving(respond) as proxy:
            through(proxy.url)
            found = await self.failure("http://server.invalid")
        assert found == (ErrorKind.HTTP_STATUS, "HTTP 502 Bad Gateway: no server")

    @pytest.mark.parametrize("sent", [(), (STREAM_HEAD, chunked(token("a")))], ids=["before", "within"])
    async def test_a_connection_that_breaks(self, sent: tuple[bytes, ...], through: Callable[[str], None]) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            await send(writer, *sent)
            writer.close()

        async with serving(respond) as proxy:
            through(proxy.url)
            assert (await self.failure("http://server.invalid"))[0] is ErrorKind.REMOTE_PROTOCOL_ERROR

    async def test_a_kept_alive_connection_that_is_dead_is_replaced_once(self, through: Callable[[str], None]) -> None:
        async def respond(call: Call, writer: Writer) -> None:
            if call.on_connection:
                writer.close()
            else:
                await send_stream(writer, *WHOLE)

        async with serving(respond) as proxy:
            through(proxy.url)
            config = ProfileConfig(url="http://server.invalid", model="m")
            async with Client(config, split_endpoint(config.url)) as client:
                found = [await ask(client) for _ in range(3)]
            assert [(said(reader), exchange.retried) for exchange, reader in found] == [
                ("abc", False),
                ("abc", True),
                ("abc", True),
            ]

    async def test_a_proxy_that_is_not_there(self, through: Callable[[str], None]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            through(f"http://127.0.0.1:{free.getsockname()[1]}")
        kind, message = await self.failure("http://server.invalid")
        assert kind is ErrorKind.CONNECT_ERROR
        assert message.startswith("no connection: ")

    async def test_a_proxy_that_refuses_a_tunnel(self, through: Callable[[str], None]) -> None:
        async def connected(reader: asyncio.StreamReader, writer: Writer) -> None:
            await reader.readuntil(b"\r\n\r\n")
            await send(writer, head(403, "Forbidden", {"content-length": "0"}))
            writer.close()

        listener = await asyncio.start_server(connected, "127.0.0.1", 0)
        through(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
        kind, message = await self.failure("https://server.invalid")
        assert kind is ErrorKind.PROXY_ERROR
        assert message == "no connection through the proxy: 403 Forbidden"
        listener.close()
        await listener.wait_closed()

    @pytest.mark.parametrize("proxy", ["ftp://127.0.0.1:9", "http://127.0.0.1:port"])
    def test_a_proxy_that_cannot_be_used_is_named(self, proxy: str, through: Callable[[str], None]) -> None:
        through(proxy)
        config = ProfileConfig(url="http://server.invalid", model="m")
        with pytest.raises(ConfigError, match="the proxy that the environment names cannot be used"):
            Client(config, split_endpoint(config.url))
