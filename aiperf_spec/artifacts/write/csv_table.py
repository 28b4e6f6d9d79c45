"""Write CSV that a spreadsheet takes for data."""

import csv
import io
from collections.abc import Iterable

_RUN = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet takes for the start of a formula, or skips before one."""


def csv_bytes(rows: Iterable[Iterable[str]], line_end: str = "\n") -> bytes:
    """Return rows as CSV in UTF-8; a text that a spreadsheet would run gets an apostrophe before it."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator=line_end).writerows(map(csv_safe, row) for row in rows)
    return buffer.getvalue().encode("utf-8", "replace")


def csv_safe(text: str) -> str:
    """Return the text as a spreadsheet should take it; numbers (negative too) and harmless text stay as they are."""
    if not text.startswith(_RUN):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text
