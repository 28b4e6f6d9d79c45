"""Draw with matplotlib into SVG that takes its colours from the page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

from aiperf_spec.errors import ConfigError
from aiperf_spec.render.html.rich_to_html import safe

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SERIES = 8
"""Series that one chart tells apart."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_GLYPHS = ("●", "■", "▲", "◆", "▼", "✚", "✖", "★")

# Colours that no chart has by chance; each becomes a variable of the page, which knows light from dark.
INK, MUTED, GRID = "#0a0b01", "#0a0b02", "#0a0b03"
COLOURS = tuple(f"#0a0b1{i}" for i in range(SERIES))
_VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--grid"} | {
    colour: f"--c{i + 1}" for i, colour in enumerate(COLOURS)
}
_COLOUR = re.compile("|".join(_VARIABLES))
_FONT = re.compile(r"(font(?:-family)?: ?[^;\"']*?)'?DejaVu Sans'?[^;\"]*")
_HEAD = re.compile(r"<svg[^>]*?viewBox=\"([^\"]*)\"[^>]*>", re.DOTALL)
_GROUP = re.compile(r"<g id=\"[^\"]*\"")
"""matplotlib numbers groups alike in every drawing, and nothing refers to them."""
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)

_STYLE: dict[str, Any] = {
    "font.size": 10,
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.facecolor": "none",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
}


def require_matplotlib() -> None:
    """Raise `ConfigError` naming the extra where matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ConfigError(
            "--html draws with matplotlib, which is not installed", "pip install 'aiperf-spec[plots]'"
        ) from None


@contextmanager
def _styled(salt: str) -> Iterator[None]:
    import matplotlib

    # The salt makes ids that differ from chart to chart, and are the same in every run.
    style: Any = {**_STYLE, "svg.hashsalt": salt}
    with matplotlib.rc_context(style):
        yield


def draw(
    name: str,
    panels: int,
    paint: Callable[[Sequence[Axes]], None],
    *,
    title: str,
    description: str,
    legend: Sequence[str] = (),
    note: str = "",
) -> str:
    """Return a figure of panels side by side, with title, description for who cannot see it, and legend.

    `legend` names the series in the order of `COLOURS`; names are data, and stand in the page alone, never in the
    drawing. `name` is unique on the page.
    """
    from matplotlib.figure import Figure

    with _styled(name):
        figure = Figure(figsize=(8.6, 3.0), layout="constrained")
        axes = figure.subplots(1, panels, squeeze=False)[0]
        paint(list(axes))
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    label = f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{safe(description)}</desc>'
    keys = "".join(
        f'<li><span aria-hidden="true" style="color:var(--c{i + 1})">{_GLYPHS[i]}</span> {safe(text)}</li>'
        for i, text in enumerate(legend[:SERIES])
    )
    below = f'<ul class="legend">{keys}</ul>' if keys else ""
    said = f'<p class="dim">{safe(note)}</p>' if note else ""
    drawing = _inline(buffer.getvalue(), name, label)
    return f"<figure><figcaption>{escape(title)}</figcaption>{drawing}{below}{said}</figure>"


def _inline(svg: str, name: str, label: str) -> str:
    body = _METADATA.sub("", svg[svg.index("<svg") :])
    body = _GROUP.sub("<g", body)
    body = _COLOUR.sub(lambda found: f"var({_VARIABLES[found[0]]})", body)
    body = _FONT.sub(r"\1sans-serif", body)
    return _HEAD.sub(
        lambda found: (
            f'<svg viewBox="{found[1]}" xmlns:xlink="http://www.w3.org/1999/xlink" role="img" '
            f'aria-labelledby="{name}-t {name}-d">{label}'
        ),
        body,
        count=1,
    )
