"""A web page is told from what an API answers."""

from __future__ import annotations

import pytest

from aiperf_spec.wire.web_page import web_page


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"<!DOCTYPE html>\n<html><head><title>Welcome\n to nginx!</title>", "a web page (HTML), 'Welcome to nginx!'"),
        (
            b"\xef\xbb\xbf  <HTML lang=en><style>p{}</style><body>502 Bad\nGateway",
            "a web page (HTML), '502 Bad Gateway'",
        ),
        (b"<?xml version='1.0'?><!-- made by a proxy --><!doctype HTML><title></title>", "a web page (HTML)"),
        (b"<html><title>" + b"x" * 300 + b"</title>", f"a web page (HTML), '{'x' * 100}'"),
        (b'{"html": "<html>"}', None),
        (b"<htmlx>", None),
        (b"data: <html>", None),
        (b"", None),
    ],
)
def test_what_a_body_is_called(body: bytes, named: str | None) -> None:
    assert web_page(body) == named
