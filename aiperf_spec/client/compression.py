"""Decode compressed bodies in pieces of bounded size: a few bytes may stand for gigabytes."""

import zlib
from collections.abc import Iterator
from typing import Any

import httpx

PIECE_BYTES = 256 * 1024
_GZIP_START = b"\x1f\x8b"
_GZIP_BITS = 16 + zlib.MAX_WBITS


class BodyDecoder:
    """Decode the content encodings of a response, the last one first. Raises `httpx.DecodingError`."""

    def __init__(self, header: str) -> None:
        names = [name for each in header.split(",") if (name := each.strip().lower()) not in ("", "identity")]
        if not {"gzip", "x-gzip", "deflate"}.issuperset(names):
            raise httpx.DecodingError(f"it is compressed as {header!r}, which was not asked for")
        self._decoders = [_Zlib(is_gzip=name.endswith("gzip")) for name in reversed(names)]

    def decode(self, data: bytes, depth: int = 0) -> Iterator[bytes]:
        """Yield what the next bytes stand for, at most `PIECE_BYTES` at once."""
        if depth == len(self._decoders):
            yield data
            return
        for piece in self._decoders[depth].decode(data):
            yield from self.decode(piece, depth + 1)


class _Zlib:
    def __init__(self, *, is_gzip: bool) -> None:
        self._is_gzip = is_gzip
        self._stream: Any = None

    def decode(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._stream is None:
                self._stream = zlib.decompressobj(_GZIP_BITS if self._is_gzip else _deflate_bits(data))
            elif self._stream.eof:
                # Another member, else padding or what nobody can read: curl passes over it too.
                data = data.lstrip(b"\0")
                if not (self._is_gzip and data.startswith(_GZIP_START[: len(data)] or b"?")):
                    return
                self._stream = zlib.decompressobj(_GZIP_BITS)
            try:
                piece = self._stream.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                raise httpx.DecodingError(str(error)) from None
            if piece:
                yield piece
            data = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail


def _deflate_bits(data: bytes) -> int:
    # "deflate" is zlib's format, and some servers send the bare one, which never begins with a byte like this.
    return zlib.MAX_WBITS if data[0] & 0x0F == 8 else -zlib.MAX_WBITS
