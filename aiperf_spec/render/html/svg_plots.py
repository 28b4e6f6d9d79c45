"""Draw with matplotlib into SVG that takes its colours from the page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeVar

from aiperf_spec.errors import ConfigError
from aiperf_spec.render.html.rich_to_html import safe

if TYPE_CHECKING:
    from matplotlib.axes import Axes

T = TypeVar("T")

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


def require_matplotlib() -> None:
    """Raise `ConfigError` naming the extra where matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ConfigError(
            "--html draws with matplotlib, which is not installed", "pip install 'aiperf-spec[plots]'"
        ) from None


@cache
def _style() -> Any:
    from matplotlib import rc_params_from_file

    return rc_params_from_file(str(files(__package__).joinpath("charts.mplstyle")), use_default_template=False)


def draw(
    name: str,
    title: str,
    description: str,
    panels: Sequence[T],
    paint: Callable[[Axes, T], None],
    legend: Sequence[str] = (),
    note: str = "",
) -> str:
    """Return a figure of panels side by side, with title, description for who cannot see it, and legend.

    `paint` draws one panel. `legend` names the series in the order of `COLOURS`; names are data, and stand in the page
    alone, never in the drawing. `name` is unique on the page.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    # The salt makes ids that differ from chart to chart, and are the same in every run.
    with rc_context({**_style(), "svg.hashsalt": name}):
        figure = Figure(figsize=(8.6, 3.0), layout="constrained")
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            paint(axes, panel)
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
