"""The README's picture shows what the command prints today."""

from __future__ import annotations

import html
import re
from pathlib import Path

from tests.screenshot import screenshot

_PICTURE = Path(__file__).resolve().parents[1] / "examples" / "screenshot.svg"


def words(picture: str) -> list[str]:
    """Return what is written in a picture, without how it is drawn, which releases of rich may change."""
    return html.unescape(" ".join(re.findall(r"<text[^>]*>(.*?)</text>", picture, re.DOTALL))).split()


def test_the_picture_shows_what_the_command_prints() -> None:
    shown = words(_PICTURE.read_text(encoding="utf-8"))
    assert "Acceptance" in shown
    assert shown == words(screenshot()), (
        "the output changed: python -m tests.screenshot examples/screenshot.svg draws the picture anew"
    )
