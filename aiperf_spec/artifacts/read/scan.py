"""Read records for their acceptance alone: bytes in, sums out.

Most of a line is gaps between chunks and per-step figures. Lines as AIPerf and this program write them are searched for
the five values that count; any other line is parsed in full. A quotation mark within a JSON string is escaped, so a key
with its quotes and colon is found only where it is a key.

Large files are read by processes of their own, which import this module and little else.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import orjson

_BLOCK = 1 << 18
_KIND = b'"source_kind":'
_METADATA = b'{"metadata":{'
_FIRST_TURN = b'"turn_index":0,'
_TURN = _FIRST_TURN + _KIND
"""How both writers put it."""
_PROFILING = b'"benchmark_phase":"profiling"'
_METRICS = b'},"metrics":{'
_ACCEPTANCE = b'"spec_decode_acceptance":{'
_ERROR = b'"error":{'
_COUNTS = re.compile(rb'"num_accepted_draft_tokens":(\d+),"num_draft_tokens":(\d+),"num_spec_steps":(\d+)[,}]')
Terms = tuple[int, int, int]
"""What one request adds: accepted drafts, verify steps, proposed drafts."""
UNREADABLE = (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, ValueError)
"""What a line raises that is no record."""


@dataclass(slots=True)
class Sums:
    """Whole-number sums of a part of a file. `rows` holds, by category, the fields of `CategoryPool` in order."""

    rows: dict[str | None, list[int]] = field(default_factory=dict)
    succeeded: int = 0
    unreadable: int = 0
    has_turns: bool = False

    def add(self, category: str | None, accepted: int, steps: int, proposed: int) -> None:
        """Add one request."""
        row = self.rows.setdefault(category, [0] * 9)
        squares = (accepted * accepted, accepted * steps, steps * steps, accepted * proposed, proposed * proposed)
        for i, value in enumerate((1, accepted, steps, proposed, *squares)):
            row[i] += value


def open_binary(path: Path, buffering: int = 0) -> BinaryIO:
    """Open a file for reading, decompressed where its name ends in .gz; unbuffered unless told otherwise."""
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    return path.open("rb", buffering=buffering)


def read_part(path: Path, start: int, end: int | None) -> Sums:
    """Return the sums of the lines that begin in these bytes; to the end of the file where `end` is None."""
    part = Sums()
    with open_binary(path) as file:
        for block, first, last in blocks(file, start, end):
            _take(block, first, last, part)
    return part


def blocks(file: BinaryIO, start: int, end: int | None) -> Iterator[tuple[bytes, int, int]]:
    # Yields (block, first, last): whole lines from first up to last, the newline at last - 1 included.
    rest, position = b"", start
    if start:
        # The line that begins exactly at `start` is ours; one that began before is the part's before.
        position = start - 1
        file.seek(position)
        while True:
            block = file.read(_BLOCK)
            if not block:
                return
            newline = block.find(b"\n")
            if newline >= 0:
                rest = block[newline + 1 :]
                position += newline + 1
                break
            position += len(block)
    while True:
        block = file.read(_BLOCK)
        if block:
            data = rest + block
            last = data.rfind(b"\n") + 1
        else:
            data = rest + b"\n" if rest else b""
            last = len(data)
        if end is not None and position + last > end:
            # Lines that begin before `end` belong to this part, wherever they end.
            if position >= end:
                return
            cut = data.find(b"\n", end - position - 1) + 1
            if 0 < cut <= last:
                yield data, 0, cut
                return
        if last:
            yield data, 0, last
        if not block:
            return
        position += last
        rest = data[last:]


def _take(block: bytes, first: int, last: int, part: Sums) -> None:
    find, rfind, starts, counts_in = block.find, block.rfind, block.startswith, _COUNTS.search
    rows: dict[bytes, list[int]] = {}
    position = first
    while (newline := find(b"\n", position, last)) >= 0:
        # Metadata comes first and says profiling, then metrics, and nothing but acceptance behind them.
        kind = find(_KIND, position, newline) + len(_KIND)
        phase = find(_PROFILING, kind, newline)
        at = rfind(_ACCEPTANCE, position, newline)
        category = block[kind : find(b",", kind, newline)]
        counts = counts_in(block, at, newline) if 0 <= phase < at else None
        row = rows.get(category)
        if (
            counts is None
            or kind < position + len(_KIND)
            or not starts(_METADATA, position)
            or find(_METRICS, phase, at) < 0
            or find(_ERROR, counts.end(), newline) >= 0
            or (row is None and not _is_plain(category))
        ):
            if newline > position:
                _parse(block[position:newline], part)
            position = newline + 1
            continue
        if not starts(_TURN, kind - len(_TURN)) and find(_FIRST_TURN, position, kind) < 0:
            part.has_turns = True
        position = newline + 1
        a, p, s = counts.groups()
        accepted, proposed, steps = int(a), int(p), int(s)
        if accepted > proposed or (proposed and not steps):
            part.unreadable += 1
            continue
        if row is None:
            row = rows[category] = [0] * 9
        row[0] += 1
        row[1] += accepted
        row[2] += steps
        row[3] += proposed
        row[4] += accepted * accepted
        row[5] += accepted * steps
        row[6] += steps * steps
        row[7] += accepted * proposed
        row[8] += proposed * proposed
    for encoded, row in rows.items():
        part.succeeded += row[0]
        into = part.rows.setdefault(_decoded(encoded), [0] * 9)
        for i, value in enumerate(row):
            into[i] += value


def _is_plain(category: bytes) -> bool:
    # A comma or an escape within the name is for a parser.
    whole = category[:1] == b'"' == category[-1:] and len(category) > 2
    return (whole or category == b"null") and b"\\" not in category


def _decoded(category: bytes) -> str | None:
    return None if category == b"null" else category[1:-1].decode("utf-8", "replace")


def _parse(line: bytes, part: Sums) -> None:
    try:
        read = terms(orjson.loads(line))
    except UNREADABLE:
        if line.strip():
            part.unreadable += 1
        return
    if read is None:
        return
    category, turn, figures = read
    part.succeeded += 1
    part.has_turns |= turn > 0
    if figures is not None:
        part.add(category, *figures)


def terms(record: dict[str, Any]) -> tuple[str | None, int, Terms | None] | None:
    """Return (category, turn, terms) of a successful profiled record, None for another; raises one of `UNREADABLE`."""
    metadata = record["metadata"]
    if "warmup" in (metadata.get("benchmark_phase"), metadata.get("phase_kind")):
        return None
    if record.get("error") is not None:
        return None
    category, turn = metadata.get("source_kind") or None, metadata.get("turn_index") or 0
    if category is not None and not isinstance(category, str):
        raise TypeError("a category that is no text")
    acceptance = record.get("spec_decode_acceptance")
    if acceptance is None:
        return category, turn, None
    accepted, steps = acceptance["num_accepted_draft_tokens"], acceptance["num_spec_steps"]
    proposed = acceptance["num_draft_tokens"]
    if any(type(count) is not int for count in (accepted, steps, proposed)):
        raise TypeError("a count that is no whole number")
    if min(accepted, steps) < 0 or accepted > proposed or (proposed and not steps):
        raise ValueError("counts that contradict each other")
    return category, turn, (accepted, steps, proposed)
