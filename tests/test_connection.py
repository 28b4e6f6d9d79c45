"""A connection's bytes, in every framing and cut anywhere, without a network."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_spec.client.connection import CUT_OFF, NO_RESPONSE, Connection


class Wire(asyncio.Transport):
    """Takes what is written; tells the connection that it is lost when it is aborted, as a loop would."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.written = b""
        self.aborted = False
        self.unsent = 0
        self._connection = connection
        connection.connection_made(self)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        class Socket:
            def setsockopt(self, *_: int) -> None:
                pass

        return Socket()

    def write(self, data: Any) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def abort(self) -> None:
        if not self.aborted:
            self.aborted = True
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)


class Taken:
    """A sink that keeps what it is handed, with the times."""

    def __init__(self) -> None:
        self.body = b""
        self.times: list[int] = []
        self.ended_ns: int | None = None

    def started(self, now_ns: int) -> None:
        raise AssertionError

    def received(self, data: bytes, now_ns: int) -> None:
        assert data
        assert self.ended_ns is None
        self.body += data
        self.times.append(now_ns)

    def ended(self, now_ns: int) -> None:
        self.ended_ns = now_ns


async def exchange(
    pieces: Iterable[bytes], *, closes: bool = False, sinks: bool = True
) -> tuple[Taken, Exception | None, Connection, Wire]:
    """Have a connection read pieces; the clock is the number of the piece."""
    now = 0
    among: set[Connection] = set()
    connection = Connection(lambda: now, among)
    wire = Wire(connection)
    assert among == {connection}
    taken = Taken()
    task = asyncio.create_task(ask(connection, taken, sinks=sinks))
    await asyncio.sleep(0)
    assert wire.written == b"request"
    for now, piece in enumerate(pieces, start=1):  # noqa: B007  the clock reads it
        if wire.aborted:
            break
        connection.data_received(piece)
    if closes and not wire.aborted:
        wire.aborted = True
        connection.connection_lost(None)
    error: Exception | None = None
    try:
        await asyncio.wait_for(task, 60)
    except httpx.TransportError as failure:
        error = failure
    await asyncio.sleep(0)
    assert connection.is_open is (connection in among)
    return taken, error, connection, wire


async def ask(connection: Connection, taken: Taken, *, sinks: bool = True) -> None:
    """Ask, and take the body from the sink or from the stream."""
    await connection.send(b"request", taken if sinks else None, {})
    assert connection.feeds_sink is (sinks and 200 <= connection.status < 300 and connection.status not in (204, 205))
    while (piece := await connection.read()) is not None:
        assert not connection.feeds_sink
        taken.received(piece, 0)
    if not connection.feeds_sink:
        taken.ended(0)
    connection.release()


def cut(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    ends = sorted({0, len(data), *(each % (len(data) + 1) for each in cuts)})
    return [data[start:end] for start, end in pairwise(ends)]


def framed(body: list[bytes], framing: str) -> tuple[bytes, bool]:
    """Return a response's bytes from its headers on, and whether the connection's end is the body's."""
    if framing == "chunked":
        chunks = b"".join(b"%x;x=y\r\n%b\r\n" % (len(piece), piece) for piece in body if piece)
        return b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\nX-Trailer: z\r\n\r\n", False
    whole = b"".join(body)
    if framing == "length":
        return b"Content-Length: %d\r\n\r\n%b" % (len(whole), whole), False
    return b"\r\n" + whole, True


BODIES = st.lists(st.binary(max_size=30) | st.sampled_from([b"HTTP/1.1 200 OK\r\n\r\n", b"0\r\n\r\n"]), max_size=6)
CUTS = st.lists(st.integers(0, 2000), max_size=8)
INTERIM = st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"])
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
LENIENT = {
    "the same length twice": b"Content-Length: 5\r\nX: y\r\ncontent-length:5\r\n\r\nhello",
    "a list of one length": b"Content-Length: 5, 5\r\n\r\nhello",
    "a length before chunked": b"Content-Length: 99\r\n" + CHUNKED + b"\r\n5\r\nhello\r\n0\r\n\r\n",
    "a length behind chunked": CHUNKED + b"Content-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "two lengths beside chunked": CHUNKED + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "identity beside a length": b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello",
    "blanks around extensions": CHUNKED + b'\r\n2 ; a = "b; c" \r\nhe\r\n3;d\t\r\nllo\r\n0 ; e\r\nX-Trailer: z\r\n\r\n',
    "an extension without a name": CHUNKED + b"\r\n5;\r\nhello\r\n0\r\n\r\n",
    "blanks from the second chunk on": CHUNKED + b"\r\n2\r\nhe\r\n3 ; c = d\r\nllo\r\n0; e\r\nX: y; z\r\n\r\n",
    "blanks where the body ends": CHUNKED + b'\r\n1\r\nh\r\n4\r\nello\r\n0;a="b" ; c\r\n\r\n',
    "bare line feeds": b"Transfer-Encoding: chunked\n\n5; a\nhello\n0\n\n",
}
NOT_KEPT = {
    *("a length before chunked", "a length behind chunked", "two lengths beside chunked"),
    *("blanks from the second chunk on", "blanks where the body ends"),
}


@given(st.sampled_from(sorted(LENIENT)), CUTS, INTERIM, st.booleans())
def test_what_curl_reads_is_read(name: str, cuts: list[int], interim: bytes, sinks: bool) -> None:
    async def run() -> None:
        taken, error, connection, _ = await exchange(cut(interim + OK + LENIENT[name], cuts), sinks=sinks)
        assert (error, taken.body) == (None, b"hello")
        assert taken.ended_ns is not None
        assert connection.status == 200
        assert connection.is_open is (name not in NOT_KEPT)

    asyncio.run(run())


@given(
    st.lists(st.sampled_from([b"a", b"\n", b"5; x\r\n", b"0 ;\r\n\r\n", b"x;y" * 20]), max_size=8), CUTS, st.booleans()
)
def test_blanks_around_the_extension_of_any_chunk(body: list[bytes], cuts: list[int], sinks: bool) -> None:
    chunks = b"".join(b"%x%b\r\n%b\r\n" % (len(each), b" ; a = b" * (i % 3 == 2), each) for i, each in enumerate(body))

    async def run() -> None:
        pieces = cut(OK + CHUNKED + b"\r\n" + chunks + b"0\r\n\r\n", cuts)
        taken, error, _, _ = await exchange(pieces, sinks=sinks)
        assert (error, taken.body) == (None, b"".join(body))

    asyncio.run(run())


@pytest.mark.parametrize(
    "rest",
    [
        b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"Content-Length: 5, 6\r\n\r\nhello!",
        CHUNKED + b"\r\n5 ; a = b\r\nhello\r\n-1\r\n\r\n",
        CHUNKED + b"\r\nz ; a = b\r\nhello\r\n",
        CHUNKED + b"\r\n5\r\nhello\r\n5 ; a\r\nhello!\r\n0\r\n\r\n",
        CHUNKED + b"\r\n5\r\nhello\r\nz ; a\r\nhello\r\n0\r\n\r\n",
        b"Content-Length: five\r\n\r\nhello",
    ],
)
async def test_what_can_be_read_in_two_ways_is_refused(rest: bytes) -> None:
    _, error, connection, _ = await exchange([OK + rest])
    assert isinstance(error, httpx.RemoteProtocolError)
    assert not connection.is_open


@pytest.mark.parametrize("head", [b"", b"Content-Length: 0\r\n", b"Content-Length: 2\r\n", CHUNKED])
@pytest.mark.parametrize("status", [b"204", b"205"])
@pytest.mark.parametrize("body", [b"", b"2\r\nok\r\n0\r\n\r\n"])
async def test_a_status_without_a_body_waits_for_none(status: bytes, head: bytes, body: bytes) -> None:
    taken, error, connection, _ = await exchange([b"HTTP/1.1 " + status + b" X\r\n" + head + b"\r\n" + body])
    assert (error, taken.body, taken.ended_ns) == (None, b"", 0)
    if not body:
        says_none = head == b"Content-Length: 0\r\n" or (status == b"204" and not head)
        assert connection.is_open is says_none


async def test_lines_between_chunks_are_no_headers_however_many() -> None:
    pieces = [OK + CHUNKED + b"\r\n"] + [b"1;" + b"x" * 3000 + b"\r\n", b"a\r\n"] * 600 + [b"0\r\n\r\n"]
    taken, error, _, _ = await exchange(pieces)
    assert (error, taken.body) == (None, b"a" * 600)


@given(BODIES, st.sampled_from(["chunked", "length", "until the end"]), CUTS, INTERIM, st.booleans())
def test_any_body_in_any_pieces(body: list[bytes], framing: str, cuts: list[int], interim: bytes, sinks: bool) -> None:
    rest, closes = framed(body, framing)
    pieces = cut(interim + b"HTTP/1.1 200 Fine\r\nContent-Type: text/plain\r\n" + rest, cuts)

    async def run() -> None:
        taken, error, connection, _ = await exchange(pieces, closes=closes, sinks=sinks)
        assert error is None
        assert taken.body == b"".join(body)
        assert taken.ended_ns is not None
        assert (connection.status, connection.reason) == (200, b"Fine")
        assert connection.headers[0] == (b"Content-Type", b"text/plain")
        assert (b"X-Trailer", b"z") not in connection.headers
        if sinks:
            times = [connection.headers_ns, *taken.times, taken.ended_ns]
            assert times == sorted(times)
        assert connection.is_open is (framing != "until the end")

    asyncio.run(run())


@given(BODIES, st.sampled_from(["chunked", "length"]), CUTS, st.integers(0, 5000), st.booleans())
def test_what_ends_too_early_is_never_whole(
    body: list[bytes], framing: str, cuts: list[int], at: int, sinks: bool
) -> None:
    rest, _ = framed(body, framing)
    whole = b"HTTP/1.1 200 OK\r\n" + rest
    kept = whole[: at % len(whole)]

    async def run() -> None:
        taken, error, connection, _ = await exchange(cut(kept, cuts), closes=True, sinks=sinks)
        assert isinstance(error, httpx.RemoteProtocolError)
        assert str(error).startswith(CUT_OFF if kept else NO_RESPONSE)
        assert taken.ended_ns is None
        assert b"".join(body).startswith(taken.body)
        assert not connection.is_open

    asyncio.run(run())


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_any_bytes_end_in_a_response_or_an_error(pieces: list[bytes]) -> None:
    async def run() -> None:
        taken, error, connection, _ = await exchange([piece for piece in pieces if piece], closes=True)
        assert (error is None) is (taken.ended_ns is not None)
        assert not connection.is_open

    asyncio.run(run())


@given(st.binary(min_size=1, max_size=40), CUTS, st.booleans())
def test_what_follows_a_response_is_no_part_of_it(excess: bytes, cuts: list[int], sinks: bool) -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    pieces = cut(whole, cuts)

    async def run() -> None:
        taken, error, connection, wire = await exchange([*pieces[:-1], pieces[-1] + excess], sinks=sinks)
        assert (error, taken.body, taken.ended_ns is None) == (None, b"ok", False)
        if excess.strip(b"\r\n"):
            assert not connection.is_open
            assert wire.aborted

    asyncio.run(run())


@pytest.mark.parametrize(
    "head",
    [b"HTTP/1.1 500 No\r\n", b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"],
    ids=["another status", "encoded"],
)
async def test_a_body_that_no_sink_may_have_comes_in_pieces_and_may_be_left(head: bytes) -> None:
    connection = Connection(lambda: 1, set())
    wire = Wire(connection)
    task = asyncio.create_task(connection.send(b"x", Taken(), {}))
    await asyncio.sleep(0)
    connection.data_received(head + b"Transfer-Encoding: chunked\r\n\r\n")
    await task
    connection.data_received(b"5\r\nabcde\r\n5\r\nfghij\r\n")
    assert not connection.feeds_sink
    assert await connection.read() == b"abcde"
    assert not connection.release()
    assert wire.aborted


@pytest.mark.parametrize("value", [b"identity", b" Identity ", b""])
async def test_identity_is_no_encoding(value: bytes) -> None:
    response = b"HTTP/1.1 200 OK\r\nContent-Encoding: " + value + b"\r\nContent-Length: 2\r\n\r\nok"
    taken, error, _, _ = await exchange([response])
    assert (error, taken.body) == (None, b"ok")


async def test_no_task_is_woken_for_what_a_sink_takes() -> None:
    connection = Connection(lambda: 1, set())
    Wire(connection)
    woken = 0

    class Counting:
        def __init__(self) -> None:
            self._steps = ask(connection, Taken())

        def __await__(self) -> Any:
            nonlocal woken
            steps = self._steps.__await__()
            while True:
                try:
                    waiting = next(steps)
                except StopIteration:
                    return
                woken += 1
                yield waiting

    async def count() -> None:
        await Counting()

    task = asyncio.create_task(count())
    await asyncio.sleep(0)
    connection.data_received(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(100):
        connection.data_received(b"1\r\na\r\n")
        await asyncio.sleep(0)
    connection.data_received(b"0\r\n\r\n")
    await task
    assert woken == 2  # for the headers, and for the end


async def test_several_requests_one_after_the_other() -> None:
    connection = Connection(lambda: 1, set())
    Wire(connection)
    for number in range(3):
        taken = Taken()
        task = asyncio.create_task(ask(connection, taken))
        await asyncio.sleep(0)
        connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nX-%d: y\r\n\r\n%d" % (number, number))
        await task
        assert taken.body == b"%d" % number
        assert connection.headers == [(b"Content-Length", b"1"), (b"X-%d" % number, b"y")]
    assert connection.is_open


async def test_a_request_that_was_not_wholly_sent_is_its_connections_last() -> None:
    connection = Connection(lambda: 1, set())
    wire = Wire(connection)
    wire.unsent = 1
    task = asyncio.create_task(ask(connection, taken := Taken()))
    await asyncio.sleep(0)
    connection.data_received(b"HTTP/1.1 429 Busy\r\nContent-Length: 0\r\n\r\n")
    await task
    assert taken.ended_ns is not None
    assert (connection.is_open, wire.aborted) == (False, True)


@pytest.mark.parametrize("closes", [False, True])
async def test_what_comes_before_the_request_is_its_answer(closes: bool) -> None:
    now = 7
    connection = Connection(lambda: now, set())
    wire = Wire(connection)
    connection.data_received(b"HTTP/1.1 200 Early\r\n")
    connection.data_received(b"\r\nbusy")
    now = 9
    if closes:
        connection.connection_lost(None)
    task = asyncio.create_task(ask(connection, taken := Taken()))
    await asyncio.sleep(0)
    if not closes:
        connection.connection_lost(None)
    await task
    assert (connection.status, connection.headers_ns, taken.body, taken.times, taken.ended_ns) == (
        200,
        7,
        b"busy",
        [7],
        9,
    )
    assert wire.written == (b"" if closes else b"request")


async def test_a_connection_that_is_lost_before_the_request_has_not_answered() -> None:
    connection = Connection(lambda: 1, set())
    Wire(connection)
    connection.connection_lost(ConnectionResetError("reset"))
    with pytest.raises(httpx.ReadError, match="reset"):
        await connection.send(b"x", Taken(), {})
    assert not connection.is_answered


async def test_trailers_have_a_limit() -> None:
    line = b"X-Trailer: " + b"y" * 50_000 + b"\r\n"
    pieces = [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n", *[line] * 30]
    taken, error, _, _ = await exchange(pieces)
    assert isinstance(error, httpx.RemoteProtocolError)
    assert taken.body == b"a"


@pytest.mark.parametrize("method", ["received", "ended"])
@pytest.mark.parametrize("error", [ValueError("odd"), httpx.RemoteProtocolError("own")])
async def test_what_a_sink_raises_reaches_who_asked(error: Exception, method: str) -> None:
    def fail(*_: Any) -> None:
        raise error

    taken = Taken()
    setattr(taken, method, fail)
    connection = Connection(lambda: 1, set())
    wire = Wire(connection)
    task = asyncio.create_task(ask(connection, taken))
    await asyncio.sleep(0)
    connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
    with pytest.raises(type(error), match=str(error)):
        await task
    assert wire.aborted


@pytest.mark.parametrize(
    ("timeout", "unsent", "raised"),
    [
        ({"read": 0.01, "write": None}, 0, httpx.ReadTimeout),
        ({"read": None, "write": 0.01}, 1, httpx.WriteTimeout),
        ({"read": 0.01, "write": None}, 1, httpx.WriteTimeout),
    ],
)
@pytest.mark.parametrize("answered", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"])
async def test_silence_has_the_limits_that_the_request_brings(
    timeout: dict[str, float | None], unsent: int, raised: type[Exception], answered: bytes
) -> None:
    connection = Connection(time.perf_counter_ns, set())
    wire = Wire(connection)
    wire.unsent = unsent

    async def both() -> None:
        await connection.send(b"x", Taken(), timeout)
        await connection.read()

    task = asyncio.create_task(both())
    await asyncio.sleep(0)
    if answered:
        connection.data_received(answered)
    with pytest.raises(raised):
        await asyncio.wait_for(task, 60)
    assert wire.aborted


async def test_bytes_that_come_in_time_put_the_limit_off() -> None:
    now = 0
    connection = Connection(lambda: now, set())
    Wire(connection)
    task = asyncio.create_task(ask(connection, taken := Taken()))
    await asyncio.sleep(0)
    connection._timeout = {"read": 1.0}
    connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n")
    for now in range(0, 5_000_000_000, 900_000_000):  # noqa: B007  the clock reads it
        connection._check_silence()
        connection.data_received(b"")
    connection.data_received(b"a")
    await task
    assert taken.body == b"a"


async def test_who_waits_on_a_connection_that_is_closed_here_is_told() -> None:
    connection = Connection(lambda: 1, set())
    Wire(connection)
    task = asyncio.create_task(ask(connection, Taken()))
    await asyncio.sleep(0)
    connection.abort()
    with pytest.raises(httpx.ReadError, match="closed"):
        await task
