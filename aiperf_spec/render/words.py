"""The words for what other rooms name by a value of an enumeration: notices, reasons, mismatches; see words.json."""

from pathlib import Path
from string import Formatter
from typing import Any

import orjson

from aiperf_spec.render.text import plural, printable

WORDS: dict[str, dict[str, str]] = orjson.loads(Path(__file__).with_name("words.json").read_bytes())
"""Texts by what they are about, and there by the value that they word."""


class _Filling(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, str):
            return printable(value, int(format_spec or 200))
        return plural(value, format_spec) if format_spec[:1].isalpha() else format(value, format_spec)


def worded(about: str, key: str, values: dict[str, Any]) -> str:
    """Return a text with its values filled in.

    "{count:request}" counts with the noun, as "2 requests"; "{url:120}" shows at most 120 characters (200 where it says
    nothing) of a text that may be a server's.
    """
    return _Filling().vformat(WORDS[about][key], (), values)
