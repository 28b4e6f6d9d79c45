"""Undo the content encodings that servers use although nobody asked for one."""

from __future__ import annotations

import zlib
from collections.abc import Callable

_GZIP, _ZLIB, _RAW = 31, 15, -15
"""Window bits of zlib: which container is around the data."""


class UndecodableError(ValueError):
    """Say that a body is not in the encoding that its header names, or in one that was not asked for."""


def decoder(encoding: str) -> Callable[[bytes], bytes] | None:
    """Return what decodes a body piece by piece, as far as each piece allows; None where there is nothing to decode.

    Takes the value of `content-encoding`; raises `UndecodableError` for one that is neither gzip nor deflate.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding in ("gzip", "x-gzip"):
        return _Inflater(_GZIP)
    if encoding == "deflate":
        return _Inflater(_ZLIB, _RAW)
    raise UndecodableError(f"it is compressed as {encoding!r}, which was not asked for")


class _Inflater:
    # Some servers send deflate without zlib's container: what fails in one kind is tried as the next, from the start.
    def __init__(self, *bits: int) -> None:
        self._inflate, *self._others = [zlib.decompressobj(wbits=each) for each in bits]
        self._seen = b""

    def __call__(self, piece: bytes) -> bytes:
        if self._others:
            self._seen += piece
        try:
            data = self._inflate.decompress(piece)
        except zlib.error as error:
            if not self._others:
                raise UndecodableError(str(error)) from None
            self._inflate = self._others.pop()
            return self(self._seen)
        if data:
            self._others.clear()
        return data
