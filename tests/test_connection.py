"""A connection's bytes, in every framing and cut anywhere, without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_spec.client.transport.connection import Connection
from aiperf_spec.client.transport.errors import (
    IncompleteResponseError,
    NotHTTPError,
    StaleConnectionError,
    TransportError,
)
from aiperf_spec.client.transport.exchange import Head


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
    """Keeps what it is handed, with the times; wants no more than `limit` bytes."""

    def __init__(self, limit: float = float("inf")) -> None:
        self.heads: list[Head] = []
        self.body = b""
        self.times: list[int] = []
        self.ended = False
        self._limit = limit

    def restart(self, now_ns: int) -> None:
        raise AssertionError

    def head(self, head: Head, now_ns: int) -> None:
        self.heads.append(head)
        self.times.append(now_ns)

    def data(self, data: bytes, now_ns: int, is_last: bool) -> bool:
        assert data
        assert not self.ended
        self.body += data
        self.times.append(now_ns)
        return len(self.body) >= self._limit

    def end(self, now_ns: int) -> None:
        self.ended = True
        self.times.append(now_ns)


async def exchange(
    pieces: Iterable[bytes], *, closes: bool = False, taken: Taken | None = None
) -> tuple[Taken, TransportError | None, Connection, Wire]:
    """Have a connection read pieces; the clock is the number of the piece."""
    now = 0
    among: set[Connection] = set()
    connection = Connection(lambda: now, among)
    wire = Wire(connection)
    assert among == {connection}
    taken = taken or Taken()
    task = asyncio.create_task(connection.exchange(b"request", taken))
    await asyncio.sleep(0)
    assert wire.written == b"request"
    for now, piece in enumerate(pieces, start=1):  # noqa: B007  the clock reads it
        if wire.aborted:
            break
        connection.data_received(piece)
    if closes and not wire.aborted:
        wire.aborted = True
        connection.connection_lost(None)
    error: TransportError | None = None
    try:
        await asyncio.wait_for(task, 1)
    except TransportError as failure:
        error = failure
    await asyncio.sleep(0)
    assert connection.is_open is (connection in among)
    return taken, error, connection, wire


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


@given(BODIES, st.sampled_from(["chunked", "length", "until the end"]), CUTS, INTERIM)
def test_any_body_in_any_pieces(body: list[bytes], framing: str, cuts: list[int], interim: bytes) -> None:
    rest, closes = framed(body, framing)
    pieces = cut(interim + b"HTTP/1.1 200 Fine\r\nContent-Type: text/plain\r\n" + rest, cuts)

    async def run() -> None:
        taken, error, connection, _ = await exchange(pieces, closes=closes)
        assert error is None
        assert taken.body == b"".join(body)
        assert taken.ended
        [head] = taken.heads
        assert (head.status, head.reason, head.headers["content-type"]) == (200, "Fine", "text/plain")
        assert taken.times == sorted(taken.times)
        assert connection.is_open is (framing != "until the end")

    asyncio.run(run())


@given(BODIES, st.sampled_from(["chunked", "length"]), CUTS, st.integers(0, 5000))
def test_what_ends_too_early_is_never_whole(body: list[bytes], framing: str, cuts: list[int], at: int) -> None:
    rest, _ = framed(body, framing)
    whole = b"HTTP/1.1 200 OK\r\n" + rest
    kept = whole[: at % len(whole)]

    async def run() -> None:
        taken, error, connection, _ = await exchange(cut(kept, cuts), closes=True)
        assert type(error) is (IncompleteResponseError if kept else StaleConnectionError)
        assert not taken.ended
        assert b"".join(body).startswith(taken.body)
        assert not connection.is_open

    asyncio.run(run())


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_any_bytes_end_in_a_response_or_an_error(pieces: list[bytes]) -> None:
    async def run() -> None:
        taken, error, connection, _ = await exchange([piece for piece in pieces if piece], closes=True)
        assert (error is None) is taken.ended
        assert not connection.is_open

    asyncio.run(run())


@given(st.binary(min_size=1, max_size=40), CUTS)
def test_what_follows_a_response_is_no_part_of_it(excess: bytes, cuts: list[int]) -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    async def run() -> None:
        taken, error, connection, wire = await exchange([*cut(whole, cuts)[:-1], cut(whole, cuts)[-1] + excess])
        assert (error, taken.body, taken.ended) == (None, b"ok", True)
        if excess.strip(b"\r\n"):
            assert not connection.is_open
            assert wire.aborted

    asyncio.run(run())


async def test_no_more_is_read_than_is_wanted() -> None:
    pieces = [b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n", b"5\r\nabcde\r\n", b"5\r\nfghij\r\n"]
    taken, error, connection, wire = await exchange(pieces, taken=Taken(limit=3))
    assert (error, taken.body, taken.ended) == (None, b"abcde", False)
    assert (connection.is_open, wire.aborted) == (False, True)


async def test_several_requests_one_after_the_other() -> None:
    connection = Connection(lambda: 0, set())
    Wire(connection)
    for number in range(3):
        taken = Taken()
        task = asyncio.create_task(connection.exchange(b"x", taken))
        await asyncio.sleep(0)
        connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nX-%d: y\r\n\r\n%d" % (number, number))
        await task
        assert taken.body == b"%d" % number
        assert set(taken.heads[0].headers) == {"content-length", f"x-{number}"}
    assert connection.is_open


async def test_a_request_that_was_not_wholly_sent_is_its_connections_last() -> None:
    connection = Connection(lambda: 0, set())
    wire = Wire(connection)
    wire.unsent = 1
    task = asyncio.create_task(connection.exchange(b"x", taken := Taken()))
    await asyncio.sleep(0)
    connection.data_received(b"HTTP/1.1 429 Busy\r\nContent-Length: 0\r\n\r\n")
    await task
    assert taken.ended
    assert (connection.is_open, wire.aborted) == (False, True)


@pytest.mark.parametrize("closes", [False, True])
async def test_what_comes_before_the_request_is_its_answer(closes: bool) -> None:
    now = 7
    connection = Connection(lambda: now, set())
    wire = Wire(connection)
    connection.data_received(b"HTTP/1.1 503 Overloaded\r\n")
    connection.data_received(b"\r\nbusy")
    now = 9
    if closes:
        connection.connection_lost(None)
    task = asyncio.create_task(connection.exchange(b"x", taken := Taken()))
    await asyncio.sleep(0)
    if not closes:
        connection.connection_lost(None)
    await task
    assert (taken.heads[0].status, taken.body, taken.times) == (503, b"busy", [7, 7, 9])
    assert wire.written == (b"" if closes else b"x")


async def test_a_connection_that_is_lost_before_the_request_is_stale() -> None:
    connection = Connection(lambda: 0, set())
    Wire(connection)
    connection.connection_lost(ConnectionResetError("reset"))
    with pytest.raises(StaleConnectionError, match="reset"):
        await connection.exchange(b"x", Taken())


async def test_trailers_have_a_limit() -> None:
    line = b"X-Trailer: " + b"y" * 50_000 + b"\r\n"
    pieces = [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n", *[line] * 30]
    taken, error, _, _ = await exchange(pieces)
    assert (type(error), taken.body) == (NotHTTPError, b"a")


@pytest.mark.parametrize("error", [ValueError("odd"), NotHTTPError("own")])
async def test_what_a_reader_raises_reaches_who_asked(error: Exception) -> None:
    class Failing(Taken):
        def data(self, data: bytes, now_ns: int, is_last: bool) -> bool:
            raise error

    connection = Connection(lambda: 0, set())
    wire = Wire(connection)
    task = asyncio.create_task(connection.exchange(b"x", Failing()))
    await asyncio.sleep(0)
    connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
    with pytest.raises(type(error), match=str(error)):
        await task
    assert wire.aborted
