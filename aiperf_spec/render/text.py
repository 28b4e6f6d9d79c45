"""Make text from a server or a file safe to show: it is data, never markup and never a terminal's command."""

import json
import unicodedata
from collections.abc import Sequence

from rich.text import Text

_ESCAPED = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
"""Control, format (bidi overrides among them), private-use and surrogate characters, line and paragraph separators."""


def printable(text: str, limit: int = 200) -> str:
    """Return one line of at most `limit` characters, with every invisible or commanding character spelled out."""
    cut = text[: limit + 1]
    spelled = "".join(_spell(c) if unicodedata.category(c) in _ESCAPED else c for c in " ".join(cut.split()))
    if len(text) > limit or len(spelled) > limit:
        return spelled[: max(limit - 3, 0)] + "..."
    return spelled


def spelled(document: str, *, as_json: bool = False) -> str:
    """Return a document with every character but a line's end that commands a terminal spelled out, in JSON as JSON."""
    spell = _json_escape if as_json else _spell
    return "".join(spell(c) if c != "\n" and unicodedata.category(c) in _ESCAPED else c for c in document)


def _json_escape(character: str) -> str:
    return json.dumps(character)[1:-1]


def _spell(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def middle(text: str, width: int) -> str:
    """Return a name cut in its middle, where names differ least, to `width` characters."""
    name = printable(text, 400)
    if len(name) <= width:
        return name
    head = (width - 1) // 2
    return f"{name[:head]}…{name[len(name) - (width - 1 - head) :]}"


def broken(label: str, width: int) -> list[str]:
    """Return a label in lines of at most `width`, broken behind a comma where there is one, and else in the middle of
    a word: what tells runs apart is never cut."""
    lines = [""]
    for part in label.split(", "):
        joined = f"{lines[-1]}, {part}" if lines[-1] else part
        if len(joined) <= width:
            lines[-1] = joined
        else:
            lines += [part[i : i + width] for i in range(0, len(part), width)]
    return [line for line in lines if line]


def cell(text: str, limit: int = 200) -> Text:
    """Return safe text as a renderable in which rich looks for no markup."""
    return Text(printable(text, limit))


def number(value: float | None, decimals: int = 2) -> str:
    """Return a figure with separators; fewer decimals the longer its whole part, so that columns stay narrow.

    An en dash stands for none.
    """
    if value is None:
        return "–"
    size = abs(value)
    shown = decimals if size < 99.995 else min(decimals, 1) if size < 999.95 else 0
    return f"{value:,.{shown}f}"


def narrow(value: float | None) -> str:
    """Return a figure in at most six characters up to 10^9, in thousands or millions from 100,000 on."""
    if value is None or abs(value) < 99_999.5:
        return number(value)
    factor, unit = (1e3, "k") if abs(value) < 999_500 else (1e6, "M")
    return f"{number(value / factor, 0 if factor == 1e3 else 1)}{unit}"


def count(value: int) -> str:
    """Return a whole number with separators."""
    return f"{value:,}"


def listed(words: Sequence[str]) -> str:
    """Return words as a sentence lists them: "1, 2 and 4"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def plural(value: int, noun: str) -> str:
    """Return the number with its noun: "1 request", "2 requests"."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"
