"""Read rows from a stream of bytes: JSONL, JSON or CSV, one after the other and never all at once."""

import codecs
import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, BinaryIO

MAX_ROW = 8 * 1024 * 1024
"""Bytes of one row; a longer one is taken for a file of another kind. As values, a row may take 25 times as much."""
_BOM = b"\xef\xbb\xbf"
_CHUNK = 1 << 20
_GAP = re.compile(r"[\s,]*")
_NO_UTF8 = re.compile("[\udc80-\udcff]")
_STRUCTURED = ("messages", "turns", "conversations", "extra", "tools")
"""CSV columns that hold JSON."""
_NUMBERS = ("output_length", "output_tokens", "max_tokens", "max_completion_tokens", "timestamp")
_NUMBER = re.compile(r"\s*\d+(\.\d+)?\s*", re.ASCII)


class FileKind(StrEnum):
    """How rows are written."""

    JSONL = "jsonl"
    JSON = "json"
    CSV = "csv"


@dataclass(slots=True, frozen=True)
class Row:
    """One row: its line (of a JSON array: its place in it), and its value, or what keeps it from being read."""

    number: int
    value: Any
    fault: str | None = None


def rows(stream: BinaryIO, kind: FileKind) -> Iterator[Row]:
    """Yield the rows of a stream. A row that cannot be read has a fault; the ones after it follow.

    After a fault of a JSON array nothing follows: where the next entry begins cannot be known.
    """
    return _READERS[kind](stream)


def _jsonl(stream: BinaryIO) -> Iterator[Row]:
    # Split on LF alone: str.splitlines would cut a prompt at a raw U+2028.
    for number, line in enumerate(iter(lambda: stream.readline(MAX_ROW + 1), b""), start=1):
        if len(line) > MAX_ROW:
            yield Row(number, None, f"longer than {MAX_ROW >> 20} MiB")
            while not line.endswith(b"\n") and (line := stream.readline(MAX_ROW)):
                pass
            continue
        if number == 1:
            line = line.removeprefix(_BOM)
        if line.strip():
            yield _from_json(line, number)


def _from_json(line: bytes, number: int) -> Row:
    try:
        return Row(number, json.loads(line.decode("utf-8")))
    except UnicodeDecodeError:
        return Row(number, None, "not UTF-8")
    except (ValueError, RecursionError) as error:
        return Row(number, None, f"not JSON ({error})")


def _json(stream: BinaryIO) -> Iterator[Row]:
    # Entries are taken from a window that moves over the array, so that a file of any size fits. A file of objects
    # one after the other, which is no JSON but is called so, is read the same way.
    decoder = json.JSONDecoder()
    utf8 = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
    text, position, number, is_array, at_end = "", 0, 0, None, False
    while True:
        position = _after_gap(text, position)
        if is_array is None and position < len(text):
            is_array = text[position] == "["
            position = _after_gap(text, position + 1) if is_array else position
        if position < len(text):
            if is_array and text[position] == "]":
                return
            try:
                value, end = decoder.raw_decode(text, position)
            except RecursionError as error:
                yield Row(number + 1, None, f"not JSON ({error})")
                return
            except ValueError as error:
                # What is cut off by the window's end may be whole with more of it.
                if at_end or len(text) - position > MAX_ROW:
                    yield Row(number + 1, None, f"not JSON ({error})")
                    return
            else:
                if end < len(text) or at_end:
                    number += 1
                    # Bytes that are no UTF-8 were kept as surrogates.
                    bad = _NO_UTF8.search(text, position, end) is not None
                    yield Row(number, None if bad else value, "not UTF-8" if bad else None)
                    position = end
                    continue
        if at_end:
            if is_array:
                yield Row(number + 1, None, "not JSON (the array is not closed)")
            return
        chunk = stream.read(max(_CHUNK, len(text) - position))
        at_end = not chunk
        text, position = text[position:] + utf8.decode(chunk, final=at_end), 0


def _after_gap(text: str, position: int) -> int:
    found = _GAP.match(text, position)
    return found.end() if found else position


def _csv(stream: BinaryIO) -> Iterator[Row]:
    # The default limit of 128 KiB is less than a long prompt.
    csv.field_size_limit(MAX_ROW)
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")
    try:
        lines = _Lines(text)
        reader = csv.reader(lines, strict=True)
        header: list[str] | None = None
        while True:
            lines.taken = 0
            try:
                cells = next(reader, None)
            except csv.Error as error:
                yield Row(lines.number, None, f"not CSV ({error})")
                continue
            if cells is None:
                return
            if header is None:
                header = [cell.strip() for cell in cells]
            elif any(cells):
                yield _from_cells(header, cells, lines.number)
    finally:
        text.detach()


class _Lines:
    """Hand lines to the CSV reader; `taken` are those of the row that it is reading, which must not fill the memory."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text = text
        self.number = 0
        self.taken = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._text.readline(MAX_ROW + 1)
        if not line:
            raise StopIteration
        self.number += 1
        self.taken += len(line)
        if self.taken <= MAX_ROW:
            return line
        while line and not line.endswith(("\n", "\r")):
            line = self._text.readline(_CHUNK)
        raise csv.Error(f"a row longer than {MAX_ROW >> 20} MiB")


def _from_cells(header: list[str], cells: list[str], number: int) -> Row:
    if any(_NO_UTF8.search(cell) for cell in cells):
        return Row(number, None, "not UTF-8")
    if len(cells) > len(header):
        return Row(number, None, f"{len(cells)} cells under {len(header)} columns (quote a text that holds commas)")
    value: dict[str, Any] = {}
    for name, cell in zip(header, cells, strict=False):
        # An empty cell is how a table says that a row has no such value.
        if not cell:
            continue
        try:
            value[name] = _value(name, cell)
        except (ValueError, RecursionError) as error:
            return Row(number, None, f"{name} is not JSON ({error})")
    return Row(number, value)


def _value(name: str, cell: str) -> Any:
    if name in _STRUCTURED:
        return json.loads(cell)
    if name not in _NUMBERS or not _NUMBER.fullmatch(cell):
        return cell
    return float(cell) if "." in cell else int(cell)


_READERS = {FileKind.JSONL: _jsonl, FileKind.JSON: _json, FileKind.CSV: _csv}
