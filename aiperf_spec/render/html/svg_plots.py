"""Draw with matplotlib into SVG that takes its colours from the page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from aiperf_spec.render.html.page import Chart
from aiperf_spec.render.text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SERIES = 8
"""Series that one chart tells apart."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

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
_METADATA = re.compile(r"<metadata>.*?</metadata>|<!--.*?-->", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_SPACE = re.compile(r">\s+<")
_DIGITS = re.compile(r"(\d\.\d\d)\d+")
_TIP = re.compile(r"<g id=\"tip(\d+)\">")
_MARKER = re.compile(r"(<use [^>]*?)/>")


class Tips:
    """What a chart's marks say when they are pointed at. A drawing's `paint` names them, one for each mark."""

    def __init__(self) -> None:
        self._texts: list[list[str]] = []

    def add(self, artist: Any, texts: Iterable[str]) -> None:
        """Give the markers of a line their texts, or a patch its one."""
        artist.set_gid(f"tip{len(self._texts)}")
        self._texts.append([f"<title>{escape(printable(text, 400))}</title>" for text in texts])

    def put(self, svg: str) -> str:
        """Return the drawing with the texts at its marks."""
        head, *parts = _TIP.split(svg)
        for number, part in zip(parts[::2], parts[1::2], strict=True):
            titles = iter(texts := self._texts[int(number)])
            marked = _MARKER.sub(lambda found, each=titles: f"{found[1]}>{next(each)}</use>", part, count=len(texts))
            head += f"<g>{marked if marked != part else ''.join(texts) + part}"
        return head


Paint = Callable[["Axes", Tips], None]


@cache
def _style() -> Any:
    from matplotlib import rc_params_from_file

    return rc_params_from_file(str(files(__package__).joinpath("charts.mplstyle")), use_default_template=False)


def draw(name: str, title: str, description: str, paint: Paint, *, note: str = "", small: bool = False) -> Chart:
    """Return a chart with its title, and a description for who cannot see it.

    `paint` draws on the axes. Names are data, and stand in the page or in tips, never in the drawing. `name` is unique
    on the page. All charts are of one size, so that their text is, and stand below each other on a narrow screen.
    """
    from markupsafe import Markup
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    tips = Tips()
    # The salt makes ids that differ from chart to chart, and are the same in every run.
    with rc_context({**_style(), "svg.hashsalt": name}):
        figure = Figure(figsize=(3.3, 2.2) if small else (4.2, 2.7))
        # Fixed margins: to measure all texts for a layout takes longer than to draw. The label of y stands above it.
        axes = figure.add_axes((0.13, 0.12, 0.85, 0.84) if small else (0.12, 0.18, 0.86, 0.71))
        paint(axes, tips)
        figure.text(0.005, 0.99, axes.get_ylabel(), color=MUTED, va="top")
        axes.set_ylabel("")
        buffer = io.StringIO()
        canvas: Any = FigureCanvasSVG(figure)  # `savefig` would draw everything twice
        canvas.print_svg(buffer, metadata={"Date": None, "Creator": None})
    label = f'<title id="{name}-t">{escape(printable(title))}</title>'
    label += f'<desc id="{name}-d">{escape(printable(description, 1000))}</desc>'
    return Chart(title, Markup(_inline(buffer.getvalue(), name, label, tips)), note)


def _inline(svg: str, name: str, label: str, tips: Tips) -> str:
    body = _METADATA.sub("", svg[svg.index("<svg") :])
    body = _SPACE.sub("><", body)
    body = _TAG.sub(lambda found: _DIGITS.sub(r"\1", found[0]), body)
    body = _GROUP.sub("<g", tips.put(body))
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
