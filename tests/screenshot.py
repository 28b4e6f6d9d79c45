"""The picture of the README: what a command prints on a terminal, drawn by rich.

`python -m tests.screenshot examples/screenshot.svg` draws it anew.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

COMMAND = ("report", "tests/aiperf/vllm-speedbench")
_ROOT = Path(__file__).resolve().parents[1]
_WIDTH = 82
# The default form asks a server elsewhere for its font.
_FORM = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def printed() -> str:
    """Return what the command prints in colour."""
    environment = {**os.environ, "COLUMNS": str(_WIDTH), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    done = subprocess.run(
        [sys.executable, "-m", "aiperf_spec", *COMMAND],
        capture_output=True,
        text=True,
        check=True,
        cwd=_ROOT,
        env=environment,
    )
    return done.stdout + done.stderr


def screenshot() -> str:
    """Return the picture as SVG."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True, color_system="256")
    console.print(f"$ spec-profile {' '.join(COMMAND)}\n", style="dim", markup=False, highlight=False)
    console.print(Text.from_ansi(printed()), no_wrap=True, crop=False)
    return console.export_svg(title="spec-profile", code_format=_FORM, unique_id="spec-profile")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(screenshot(), encoding="utf-8")
