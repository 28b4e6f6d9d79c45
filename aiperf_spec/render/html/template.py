"""Fill the page's templates. Every value becomes text that shows it, unless a template of ours made it."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from aiperf_spec.errors import ConfigError
from aiperf_spec.render.html.rich_to_html import blocks
from aiperf_spec.render.text import printable, spelled
from aiperf_spec.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
GLYPHS = ("●", "■", "▲", "◆", "▼", "✚", "✖", "★")
"""Of the series of a chart, in the order of its markers."""
_LONG = 4000


def require_plots() -> None:
    """Raise `ConfigError` naming the extra where a library that pages need is not installed."""
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"--html needs {(error.name or '').partition('.')[0]}, which is not installed",
            "pip install -e '.[plots]' in a clone of the repository",
        ) from None


def fill(template: str, **values: Any) -> bytes:
    """Return a page made from a template and its values."""
    return _environment().get_template(template).render(values).encode("utf-8", "replace")


def style() -> str:
    """Return the style sheet of all pages."""
    return files(__package__).joinpath("page.css").read_text(encoding="utf-8")


def shown(value: Any) -> Any:
    """Return a text as HTML that shows it, with characters that a terminal could not show spelled out."""
    from markupsafe import Markup

    if not isinstance(value, str) or isinstance(value, Markup):
        return "" if value is None else value
    lines = ((line, printable(line, _LONG)) for line in value.split("\n"))
    # What parts a text from its neighbours is not for `printable` to take away.
    return Markup("<br>".join(escape(_edges(line, text)) for line, text in lines))


def verbatim(text: str) -> Any:
    """Return a file's text as HTML that shows it with its indentation and lines."""
    from markupsafe import Markup

    return Markup(escape(spelled(text)))


def _edges(line: str, text: str) -> str:
    if not text:
        return " " if line else ""
    return f"{' ' if line[0] == ' ' else ''}{text}{' ' if line[-1] == ' ' else ''}"


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"blocks": blocks, "verbatim": verbatim}
    environment.globals |= {"policy": POLICY, "style": Markup(style()), "version": __version__, "glyphs": GLYPHS}
    return environment
