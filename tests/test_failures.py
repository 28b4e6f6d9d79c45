"""What goes wrong on the way is named after httpx's exceptions, whichever transport was in use."""

from __future__ import annotations

import socket
import ssl

import httpx
import pytest

from aiperf_spec.client.client import Client
from aiperf_spec.client.connection import CUT_OFF, NO_RESPONSE
from aiperf_spec.client.failures import RequestFailedError, name_failure
from aiperf_spec.client.sink import RequestTrace
from aiperf_spec.config.server_url import split_endpoint
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.models.run import ErrorKind
from aiperf_spec.wire.response_reader import ResponseReader
from aiperf_spec.wire.sse import EventTooLargeError


def from_cause(outer: BaseException, *causes: BaseException) -> BaseException:
    current = outer
    for cause in causes:
        current.__cause__ = cause
        current = cause
    return outer


FAILURES: list[tuple[BaseException, ErrorKind, str]] = [
    (EventTooLargeError("an event of more than 64 MiB"), ErrorKind.MALFORMED, "the server sent an event"),
    (httpx.DecodingError("bad gzip"), ErrorKind.DECODING_ERROR, "cannot be decoded"),
    (httpx.RemoteProtocolError("bad chunk size"), ErrorKind.REMOTE_PROTOCOL_ERROR, "the response is not HTTP: bad"),
    (httpx.RemoteProtocolError(NO_RESPONSE), ErrorKind.REMOTE_PROTOCOL_ERROR, "the server closed the connection"),
    (httpx.RemoteProtocolError(CUT_OFF), ErrorKind.REMOTE_PROTOCOL_ERROR, "the connection broke within the response"),
    (httpx.ProxyError("403 Forbidden"), ErrorKind.PROXY_ERROR, "no connection through the proxy: 403"),
    (httpx.ConnectError(""), ErrorKind.CONNECT_ERROR, "no connection"),
    (httpx.ConnectTimeout(""), ErrorKind.CONNECT_TIMEOUT, "no connection"),
    (httpx.PoolTimeout(""), ErrorKind.TRANSPORT_ERROR, "no connection"),
    (httpx.UnsupportedProtocol("x"), ErrorKind.TRANSPORT_ERROR, "no connection"),
    (httpx.InvalidURL("x"), ErrorKind.TRANSPORT_ERROR, "no connection"),
    (
        from_cause(httpx.ConnectError("h"), socket.gaierror(-2, "unknown")),
        ErrorKind.CONNECT_ERROR,
        "cannot be resolved",
    ),
    (from_cause(httpx.ConnectError("h"), ssl.SSLError(1, "handshake")), ErrorKind.CONNECT_ERROR, "TLS failed"),
    (httpx.ReadTimeout(""), ErrorKind.READ_TIMEOUT, "fell silent"),
    (httpx.WriteTimeout(""), ErrorKind.WRITE_TIMEOUT, "fell silent"),
    (
        from_cause(httpx.ReadError("reset"), ConnectionResetError(104, "x")),
        ErrorKind.READ_ERROR,
        "ConnectionResetError",
    ),
    (httpx.WriteError("x"), ErrorKind.WRITE_ERROR, "the connection broke"),
    (httpx.CloseError("x"), ErrorKind.TRANSPORT_ERROR, "the connection broke"),
    (httpx.StreamClosed(), ErrorKind.TRANSPORT_ERROR, "StreamClosed: "),
    (OSError(28, "no space"), ErrorKind.TRANSPORT_ERROR, "OSError: [Errno 28] no space"),
]


@pytest.mark.parametrize(
    ("error", "kind", "said"), FAILURES, ids=["+".join(name_failure(e, None).cause_chain) for e, *_ in FAILURES]
)
def test_failures_are_named_after_their_cause(error: BaseException, kind: ErrorKind, said: str) -> None:
    named = name_failure(error, 200)
    assert (named.kind, named.status) == (kind, 200)
    assert named.cause_chain[0] == type(error).__name__
    assert said in named.message
    assert "\n" not in named.message
    assert not named.message.endswith(": ")


def test_where_the_connection_broke() -> None:
    assert name_failure(httpx.ReadError("x"), None).message == "the connection broke before the response: ReadError: x"
    assert name_failure(httpx.ReadError("x"), 200).message == "the connection broke within the response: ReadError: x"


def test_causes_in_a_circle_end() -> None:
    first, second = OSError("a"), OSError("b")
    first.__cause__, second.__cause__ = second, first
    assert name_failure(first, None).cause_chain == ("OSError", "OSError")


@pytest.mark.parametrize(
    ("raised", "kind"),
    [(error, kind) for error, kind, _ in FAILURES if isinstance(error, httpx.HTTPError | httpx.StreamError)],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
async def test_what_a_transport_raises_is_named(raised: Exception, kind: ErrorKind) -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        raise raised

    config = ProfileConfig(url="http://h", model="m")
    async with Client(config, split_endpoint(config.url), transport=httpx.MockTransport(respond)) as client:
        with pytest.raises(RequestFailedError) as caught:
            await client.post(b"{}", "id", RequestTrace(), ResponseReader(()))
        assert await client.get("http://h/v1/models") is None
    assert caught.value.error.kind is kind
    assert type(raised).__name__ in caught.value.error.cause_chain


@pytest.mark.parametrize(
    ("former", "kind"),
    [
        ("connect", ErrorKind.CONNECT_ERROR),
        ("timeout", ErrorKind.READ_TIMEOUT),
        ("disconnected", ErrorKind.READ_ERROR),
        ("protocol", ErrorKind.REMOTE_PROTOCOL_ERROR),
        ("http_status", ErrorKind.HTTP_STATUS),
        ("SomethingOfAIPerf", ErrorKind.SERVER_ERROR),
        (None, ErrorKind.SERVER_ERROR),
        (7, ErrorKind.SERVER_ERROR),
        (["x"], ErrorKind.SERVER_ERROR),
    ],
)
def test_names_in_files_are_read(former: object, kind: ErrorKind) -> None:
    assert ErrorKind.read(former) is kind
    assert ErrorKind.read(str(kind)) is kind
