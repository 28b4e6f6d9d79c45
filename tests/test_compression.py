"""Compressed bodies: every member, in pieces of bounded size, cut anywhere."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from itertools import pairwise

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_spec.client.compression import PIECE_BYTES, BodyDecoder

TEXT = b"data: {}\n\n" * 20
RAW = zlib.compressobj(wbits=-15)
BODIES = {
    "": TEXT,
    "identity": TEXT,
    "gzip": gzip.compress(TEXT, mtime=0),
    "GZIP, identity": gzip.compress(TEXT[:70], mtime=0) + gzip.compress(b"") + gzip.compress(TEXT[70:]),
    "x-gzip": gzip.compress(TEXT, mtime=0) + b"\0" * 700,
    " gzip ": gzip.compress(TEXT, mtime=0) + b"what nobody can read",
    "deflate": zlib.compress(TEXT),
    "Deflate": RAW.compress(TEXT) + RAW.flush(),
    "gzip, deflate": zlib.compress(gzip.compress(TEXT, mtime=0)),
    "gzip, gzip": gzip.compress(gzip.compress(TEXT[:70], mtime=0) + gzip.compress(TEXT[70:])),
}


@given(st.sampled_from(sorted(BODIES)), st.lists(st.integers(0, 2000), max_size=8))
def test_any_body_in_any_pieces(encoding: str, cuts: list[int]) -> None:
    body = BODIES[encoding]
    ends = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
    decoder = BodyDecoder(encoding)
    assert b"".join(piece for start, end in pairwise(ends) for piece in decoder.decode(body[start:end])) == TEXT


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip"])
def test_a_bomb_is_handed_out_in_small_pieces(encoding: str) -> None:
    size = 64 * 1024 * 1024
    bomb = gzip.compress(bytes(size))
    if encoding == "gzip, gzip":
        bomb = gzip.compress(bomb, mtime=0)
    decoder = BodyDecoder(encoding)
    tracemalloc.start()
    total = 0
    for piece in decoder.decode(bomb):
        assert len(piece) <= PIECE_BYTES
        total += len(piece)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total == size
    assert peak < 8 * PIECE_BYTES + 3 * len(bomb)


@pytest.mark.parametrize("encoding", ["br", "gzip, zstd", "rot13"])
def test_what_was_not_asked_for_is_named(encoding: str) -> None:
    with pytest.raises(httpx.DecodingError, match=encoding):
        BodyDecoder(encoding)


@pytest.mark.parametrize("body", [b"hello", gzip.compress(TEXT, mtime=0)[:-8] + b"\xff" * 8])
def test_what_is_not_compressed_so_is_an_error(body: bytes) -> None:
    with pytest.raises(httpx.DecodingError):
        list(BodyDecoder("gzip").decode(body))
