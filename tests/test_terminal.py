"""What commands print: it harms no terminal, and no part of it costs another."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console, RenderableType
from rich.text import Text

from aiperf_spec.cli.terminal import show_document
from aiperf_spec.render.layout import spaced

COMMANDS = "\x1b[31m \x9b31m \u202e \U000e0001 é"


class Stream(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize("is_json", [True, False])
def test_a_document_commands_no_terminal_and_is_itself_elsewhere(
    is_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = json.dumps({"name": COMMANDS}, ensure_ascii=False) if is_json else f"name,\n{COMMANDS},[bold]\n"
    shown = {}
    for terminal in (True, False):
        stream = Stream(terminal=terminal)
        monkeypatch.setattr("sys.stdout", stream)
        show_document(document.encode(), is_json=is_json)
        shown[terminal] = stream.getvalue()
    assert shown[False] == document
    assert not [c for c in shown[True] if not c.isprintable() and c != "\n"]
    if is_json:
        assert json.loads(shown[True]) == {"name": COMMANDS}
    else:
        assert shown[True] == "name,\n\\x1b[31m \\x9b31m \\u202e \\U000e0001 é,[bold]\n"


def test_a_part_that_fails_costs_no_other() -> None:
    def fails() -> RenderableType:
        raise OverflowError("\x1btoo large")

    console = Console(file=io.StringIO(), width=200)
    console.print(spaced([lambda: Text("before"), fails, lambda: None, Text("after")]))
    assert isinstance(console.file, io.StringIO)
    lines = [line for line in console.file.getvalue().splitlines() if line]
    assert [lines[0], lines[-1], len(lines)] == ["before", "after", 3]
    assert "could not be made (OverflowError: \\x1btoo large)" in lines[1]
