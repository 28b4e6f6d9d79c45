"""Open the files of a run's folder, compressed or not."""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import orjson

from aiperf_spec.errors import SpecProfileError

UNREADABLE = (OSError, EOFError, zlib.error)
"""What a file raises that cannot be read, or is compressed and damaged."""
_BLOCK = 1 << 20
"""What is read at once, into one buffer: a fifth less time a line than with 64 KiB."""


def existing(folder: Path, name: str) -> Path | None:
    """Return the file of this name, or its compressed form; None where there is neither."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def open_binary(path: Path) -> BinaryIO:
    """Open a file for reading, decompressed where its name ends in .gz."""
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    return path.open("rb", buffering=_BLOCK)


def lines(path: Path, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """Yield the lines that begin within these bytes of a file, or up to its end."""
    with open_binary(path) as file:
        if start:
            # The line that begins exactly at `start` is ours; one that began before it is the part's before.
            file.seek(start - 1)
            start += len(file.readline()) - 1
        if end is None:
            yield from file
            return
        for line in file:
            if start >= end:
                return
            start += len(line)
            yield line


def load_json(folder: Path, name: str) -> dict[str, Any]:
    """Return the object in the file of this name, or in its compressed form; empty where none can be read."""
    path = existing(folder, name)
    if path is None:
        return {}
    try:
        with open_binary(path) as file:
            document = parse_json(file.read())
    except (*UNREADABLE, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def parse_json(data: bytes) -> Any:
    """Return what JSON says, NaN and infinity as None, for some writers have them; raises `ValueError` otherwise."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        # Python's reader takes lone surrogates and integers of any size as well.
        return json.loads(data, parse_constant=lambda name: None)


def unreadable(path: Path, error: Exception) -> SpecProfileError:
    """Return the error that names a file which cannot be read."""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return SpecProfileError(f"{str(path)!r}: {reason}", "give the folder of a run exported at records or raw level")
