"""Write CSV that a spreadsheet takes for data."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

_RUN = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet takes for the start of a formula, or skips before one."""


class CsvTable:
    """Collect rows and give them as CSV; a text that a spreadsheet would run gets an apostrophe before it."""

    def __init__(self, line_end: str = "\n") -> None:
        self._buffer = io.StringIO()
        self._writer = csv.writer(self._buffer, lineterminator=line_end)

    def writerow(self, row: Iterable[str]) -> None:
        """Add a row."""
        self._writer.writerow([csv_safe(text) for text in row])

    def to_bytes(self) -> bytes:
        """Return the rows as UTF-8."""
        return self._buffer.getvalue().encode("utf-8", "replace")


def csv_safe(text: str) -> str:
    """Return the text as a spreadsheet should take it; numbers (negative too) and harmless text stay as they are."""
    if not text.startswith(_RUN):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text
