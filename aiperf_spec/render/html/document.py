"""The page around tables and charts: one file without scripts, fonts or anything else to be fetched."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from aiperf_spec.render.html.rich_to_html import safe
from aiperf_spec.version import __version__

_LIGHT = """--bg:#fff;--ink:#16191d;--muted:#525a66;--grid:#d9dde3;--card:#f4f6f9;--heat:#2f7de1;
--good:#0b6b35;--bad:#b3261e;
--warn:#7a5200;--c1:#0a5fb4;--c2:#b34700;--c3:#00735c;--c4:#8a3ea0;--c5:#7a6200;--c6:#b3285f;--c7:#4b5563;--c8:#1f7a1f"""
_DARK = """--bg:#14171b;--ink:#e8eaed;--muted:#a3abb7;--grid:#333a44;--card:#1d2228;--heat:#3d7fd6;
--good:#6fd896;--bad:#ff8f86;
--warn:#f0c05a;--c1:#6cb2ff;--c2:#ff9a57;--c3:#4ed1b4;--c4:#d394e6;--c5:#e0c34a;--c6:#ff8ab3;--c7:#aab4c2;--c8:#7bd17b"""

_STYLE = f"""
:root{{color-scheme:light dark;{_LIGHT}}}
@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}
*{{box-sizing:border-box}}
body{{margin:0 auto;max-width:64rem;padding:1.5rem 1rem 3rem;background:var(--bg);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}}
h1{{font-size:1.5rem;margin:0 0 .25rem;overflow-wrap:anywhere}}
h2{{font-size:1.2rem;margin:2.25rem 0 .5rem;padding-top:.75rem;border-top:1px solid var(--grid);overflow-wrap:anywhere}}
h3{{font-size:1rem;margin:1.5rem 0 .25rem}}
p{{margin:.35rem 0;overflow-wrap:anywhere}}
.title{{font-weight:600;margin:1.1rem 0 -.4rem}}
a{{color:var(--c1)}}
.dim{{color:var(--muted)}}.good{{color:var(--good)}}.bad{{color:var(--bad)}}.warn{{color:var(--warn)}}.strong{{font-weight:600}}
.scroll{{overflow-x:auto;margin:.75rem 0}}
table{{border-collapse:collapse;font-variant-numeric:tabular-nums}}
caption{{text-align:left;font-weight:600;padding:.25rem 0;white-space:nowrap}}caption .dim{{font-weight:400}}
th,td{{padding:.2rem .9rem .2rem 0;text-align:left;vertical-align:top}}
thead th{{color:var(--muted);font-weight:500;border-bottom:1px solid var(--grid);vertical-align:bottom}}
tbody th{{font-weight:400;overflow-wrap:anywhere}}
.num{{text-align:right;white-space:nowrap}}
tr.section>*{{border-top:1px solid var(--grid)}}
.cards{{display:grid;grid-template-columns:repeat(auto-fit,minmax(10rem,1fr));gap:.75rem;
padding:0;margin:1rem 0;list-style:none}}
.cards li{{background:var(--card);border-radius:.5rem;padding:.6rem .8rem}}
.cards b{{display:block;font-size:1.3rem;line-height:1.3;font-variant-numeric:tabular-nums}}
.cards span{{display:block;font-size:.85rem;color:var(--muted)}}
.heat td{{text-align:right;padding:.35rem .6rem;background:color-mix(in srgb,var(--heat) var(--h,0%),transparent)}}
.heat tbody th{{padding-top:.35rem}}.heat td,.heat th{{white-space:nowrap;overflow-wrap:normal;padding-right:.8rem}}
.heat small{{display:block;font-weight:400}}
figure{{margin:1.25rem 0}}
figcaption{{font-weight:600;margin-bottom:.25rem}}
svg{{width:100%;height:auto;max-width:58rem;display:block}}
svg text{{font-family:inherit!important}}
.legend{{display:flex;flex-wrap:wrap;gap:.1rem 1.1rem;list-style:none;padding:0;margin:.3rem 0;font-size:.9rem}}
pre{{background:var(--card);padding:.75rem;border-radius:.5rem;overflow-x:auto;font-size:.85rem}}
details{{margin:.75rem 0}}summary{{cursor:pointer}}
nav ul{{display:flex;flex-wrap:wrap;gap:.1rem 1rem;padding:0;list-style:none}}
footer{{margin-top:3rem;border-top:1px solid var(--grid);padding-top:.5rem;font-size:.85rem;color:var(--muted)}}
@media print{{:root{{color-scheme:light;{_LIGHT}}}body{{max-width:none;padding:0;font-size:11px;
print-color-adjust:exact;-webkit-print-color-adjust:exact}}nav{{display:none}}
figure,tr,.cards li{{break-inside:avoid}}h2,h3,caption,figcaption,.title{{break-after:avoid}}
details::details-content{{content-visibility:visible}}.scroll{{overflow:visible}}}}
"""

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
        f"<title>{safe(title)}</title><style>{_STYLE}</style></head>\n"
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


def folded_text(summary: str, text: str) -> str:
    """Return a longer text that opens on a click."""
    return folded_part(summary, f"<pre>{safe(text)}</pre>") if text.strip() else ""


def folded_part(summary: str, body: str) -> str:
    """Return HTML that opens on a click."""
    return f"<details><summary>{safe(summary)}</summary>{body}</details>"
