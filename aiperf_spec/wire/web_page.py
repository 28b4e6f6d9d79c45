"""Tell a web page from an answer of an API."""

import re

_HTML = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b", re.I | re.S)
_TITLE = re.compile(rb"<title[^>]*>(.{1,400}?)</title>", re.I | re.S)
_TAG = re.compile(rb"<(script|style)\b.*?(?:</\1>|$)|<[^>]*>", re.I | re.S)
_NAMED = 100
"""Characters of a page's title, or of its text, that name it."""
_LOOKED_AT = 16 * 1024
_WEB_PAGE = "a web page (HTML)"


def web_page(body: bytes | bytearray) -> str | None:
    """Return what to call a body that is a web page, with its title or the start of its text; None for another body."""
    start = bytes(body[:_LOOKED_AT]).removeprefix(b"\xef\xbb\xbf")
    if _HTML.match(start) is None:
        return None
    title = _TITLE.search(start)
    text = _TAG.sub(b" ", start) if title is None else title[1]
    named = " ".join(text.decode("utf-8", "replace").split())
    return f"{_WEB_PAGE}, {named[:_NAMED]!r}" if named else _WEB_PAGE
