"""Show the reference pages that come with the program: machines with GPUs often have no network."""

import difflib
import os
import re
from importlib import resources

from rich.markdown import Markdown
from rich.text import Text

from aiperf_spec.cli.terminal import stdout, translated_errors
from aiperf_spec.errors import ConfigError
from aiperf_spec.render.layout import table_of

_FOLDER = resources.files("aiperf_spec") / "docs"
_LINK = re.compile(r"\[([^]]+)\]\((?!http)[^)]*\)")
"""A link to a file, which a terminal cannot follow: its text is what counts."""


def docs(topic: str | None) -> None:
    """Print one page, or the list of pages where `topic` is None.

    On a terminal a page is formatted and goes through the pager that PAGER names, or `less`; on a pipe it is printed as
    the Markdown that it is. An unknown topic is an error that names the nearest one.
    """
    with translated_errors():
        if topic is None:
            _list()
        else:
            _show(page(topic))


def topics() -> dict[str, str]:
    """Return the name of each page and its one-line summary: the line below the heading."""
    return {name: page(name).split("\n", 3)[2] for name in _names()}


def page(topic: str) -> str:
    """Return a page's Markdown; raise `ConfigError` naming the nearest topic where there is no such page."""
    if topic not in _names():
        nearest = difflib.get_close_matches(topic, _names(), n=1, cutoff=0.0)
        raise ConfigError(
            f"there is no page about {topic!r}",
            f"the nearest topic is {nearest[0]}; spec-profile docs lists all of them",
        )
    return (_FOLDER / f"{topic}.md").read_text(encoding="utf-8")


def _names() -> list[str]:
    return sorted(each.name.removesuffix(".md") for each in _FOLDER.iterdir() if each.name.endswith(".md"))


def _list() -> None:
    about = "what it is about"
    rows = ((Text(name), Text(summary)) for name, summary in topics().items())
    stdout().print(table_of(("<topic", f"<{about}"), rows, "Topics", wraps=about))
    stdout().print("spec-profile docs TOPIC shows one.")


def _show(text: str) -> None:
    console = stdout()
    if not console.is_terminal:
        console.print(Text(text), soft_wrap=True, end="")
        return
    # What git does: colours pass, and a page that fits the screen does not wait for a key.
    os.environ.setdefault("LESS", "FRX")
    with console.pager(styles=True):
        console.print(Markdown(_LINK.sub(r"*\1*", text), hyperlinks=False))
