"""The page around tables and charts: one file without scripts, fonts or anything else to be fetched."""

from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files

from aiperf_spec.metrics.summary import Summary
from aiperf_spec.render.html.rich_to_html import safe
from aiperf_spec.render.text import number
from aiperf_spec.version import __version__

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def document(title: str, lead: str, sections: Sequence[tuple[str, str]], footer: str = "") -> bytes:
    """Return the page. `title` and the sections' headings are text; `lead` and the sections' bodies are HTML."""
    kept = [(heading, body) for heading, body in sections if body.strip()]
    links = "".join(f'<li><a href="#s{i}">{safe(heading)}</a></li>' for i, (heading, _) in enumerate(kept))
    bodies = "\n".join(
        f'<section aria-labelledby="s{i}"><h2 id="s{i}">{safe(heading)}</h2>\n{body}\n</section>'
        for i, (heading, body) in enumerate(kept)
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{safe(title)}</title><style>{_style()}</style></head>\n"
        f'<body><header><h1>{safe(title)}</h1>\n{lead}\n<nav aria-label="Contents"><ul>{links}</ul></nav></header>\n'
        f"<main>{bodies}</main>\n<footer>spec-profile {__version__}{safe(footer)}</footer></body></html>\n"
    ).encode("utf-8", "replace")


def cards(figures: Sequence[tuple[str, str, str]]) -> str:
    """Return headline figures: (name, value, what is beside it)."""
    items = (
        f"<li><span>{safe(name)}</span><b>{safe(value)}</b><span>{safe(beside)}</span></li>"
        for name, value, beside in figures
    )
    return f'<ul class="cards">{"".join(items)}</ul>'


def medians(summary: Summary) -> list[tuple[str, str, str]]:
    """Return (name, median, 99th percentile) of TTFT and ITL, as `cards` takes them; of those that the run has."""
    return [
        (f"{label}, median", f"{number(stats.value('p50'))} ms", f"p99 {number(stats.value('p99'))} ms")
        for tag, label in (("time_to_first_token", "TTFT"), ("inter_token_latency", "ITL"))
        if (stats := summary.record_stats.get(tag)) is not None
    ]


def folded_part(summary: str, body: str) -> str:
    """Return HTML that opens on a click."""
    return f"<details><summary>{safe(summary)}</summary>{body}</details>"


@cache
def _style() -> str:
    return files(__package__).joinpath("page.css").read_text()
