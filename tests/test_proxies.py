from __future__ import annotations

import os

import pytest

from aiperf_spec.client.proxies import proxy_for
from aiperf_spec.config.server_url import split_endpoint


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def proxy(url: str) -> str | None:
    return proxy_for(split_endpoint(url))


def test_no_variable_no_proxy() -> None:
    assert proxy("http://server") is None


@pytest.mark.parametrize(
    ("variables", "url", "expected"),
    [
        ({"http_proxy": "http://p:1"}, "http://server", "http://p:1"),
        ({"HTTP_PROXY": "http://p:1"}, "http://server", "http://p:1"),
        ({"http_proxy": "http://p:1"}, "https://server", None),
        ({"https_proxy": "http://p:2"}, "https://server", "http://p:2"),
        ({"https_proxy": "http://p:2"}, "http://server", None),
        ({"all_proxy": "http://p:3"}, "http://server", "http://p:3"),
        ({"all_proxy": "http://p:3", "http_proxy": "http://p:1"}, "http://server", "http://p:1"),
        ({"HTTP_PROXY": "http://upper:1", "http_proxy": "http://lower:1"}, "http://server", "http://lower:1"),
        ({"http_proxy": "p:1"}, "http://server", "http://p:1"),
        ({"http_proxy": "http://user:pw@p:1"}, "http://server", "http://user:pw@p:1"),
        ({"http_proxy": ""}, "http://server", None),
    ],
)
def test_the_proxy_of_a_scheme(
    variables: dict[str, str], url: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000",
        "http://127.9.9.9",
        "http://localhost:8000",
        "http://LOCALHOST",
        "http://a.localhost",
        "http://[::1]:8000",
        "http://localhost.:8000",
        "http://127.1:8000",
        "http://2130706433",
        "http://0x7f.0.0.1",
        "http://0.0.0.0:8000",
        "http://[::]:8000",
        "http://[::ffff:127.0.0.1]",
        "http://[::ffff:7f00:1]:8000",
        "http://[::ffff:0.0.0.0]",
        "http://ip6-localhost",
    ],
)
def test_loopback_is_never_sent_through_a_proxy(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://p:1")
    assert proxy(url) is None


@pytest.mark.parametrize(
    ("entries", "url", "exempt"),
    [
        ("*", "http://server", True),
        ("server", "http://server:8000", True),
        ("SERVER", "http://server", True),
        ("other, server ", "http://server", True),
        ("erver", "http://server", False),
        ("example.com", "http://a.example.com", True),
        (".example.com", "http://a.example.com", True),
        (".example.com", "http://example.com", True),
        ("*.example.com", "http://a.b.example.com", True),
        ("example.com", "http://badexample.com", False),
        ("example.com:8000", "http://example.com:8000", True),
        ("example.com:8000", "http://example.com:9000", False),
        ("10.0.0.0/8", "http://10.1.2.3:8000", True),
        ("10.0.0.0/8", "http://11.1.2.3", False),
        ("10.1.2.3", "http://10.1.2.3", True),
        ("10.0.0.0/8", "http://[::ffff:10.1.2.3]", True),
        ("10.0.0.0/8", "http://10.1", True),
        ("server", "http://server.", True),
        ("10.1.2.3/8", "http://10.9.9.9", True),
        ("fe80::/10", "http://[fe80::1]:80", True),
        ("[fe80::1]", "http://[fe80::1]:80", True),
        ("2001:db8::/32", "http://[fe80::1]", False),
        ("10.0.0.0/99", "http://10.1.2.3", False),
        ("300.1.1.1/8", "http://10.1.2.3", False),
        (",, ,", "http://server", False),
        ("", "http://server", False),
    ],
)
@pytest.mark.parametrize("variable", ["no_proxy", "NO_PROXY"])
def test_no_proxy(variable: str, entries: str, url: str, exempt: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://p:1")
    monkeypatch.setenv(variable, entries)
    assert proxy(url) == (None if exempt else "http://p:1")
