from __future__ import annotations

import base64
from typing import Any

import pytest

from aiperf_spec.config.redaction import REDACTED, Redactor
from aiperf_spec.config.server_url import split_endpoint
from aiperf_spec.config.settings import ProfileConfig


def redactor(url: str = "http://server", **values: Any) -> Redactor:
    return Redactor(ProfileConfig(url=url, **values), split_endpoint(url))


@pytest.mark.parametrize(
    "name", ["Authorization", "x-api-key", "Cookie", "Proxy-Authorization", "X-Auth-Token", "x-client-SECRET"]
)
def test_headers_that_bear_secrets(name: str) -> None:
    clean = redactor().headers({name: "hunter2", "accept": "x"})
    assert clean == {name: REDACTED, "accept": "x"}


def test_a_secret_in_another_header_is_taken_out() -> None:
    assert redactor(api_key="sk-123").headers({"x-note": "uses sk-123"}) == {"x-note": f"uses {REDACTED}"}


@pytest.mark.parametrize(
    ("values", "echo"),
    [
        ({"api_key": "sk-123"}, "bad key sk-123!"),
        ({"api_key": "sk-123"}, "Bearer sk-123sk-123"),
        ({"headers": (("Authorization", "Bearer tok-9"),)}, "no tok-9"),
        ({"headers": (("Authorization", "Bearer tok-9"),)}, "no Bearer tok-9"),
        ({"headers": (("X-Api-Key", "tok-9"),)}, "no tok-9"),
        ({"url": "http://user:tok-9@server"}, "no tok-9"),
        ({"url": "http://user:tok%2D9@server"}, "no tok-9"),
        ({"url": "http://user:tok-9@server"}, base64.b64encode(b"user:tok-9").decode()),
    ],
)
def test_a_server_that_echoes_a_secret(values: dict[str, Any], echo: str) -> None:
    clean = redactor(**values).text(echo)
    assert REDACTED in clean
    for secret in ("sk-123", "tok-9", base64.b64encode(b"user:tok-9").decode()):
        assert secret not in clean


def test_the_longer_secret_goes_first() -> None:
    clean = redactor(api_key="abcdef", headers=(("x-token", "abcdefgh"),)).text("abcdefgh abcdef")
    assert clean == f"{REDACTED} {REDACTED}"


def test_harmless_text_stays() -> None:
    assert redactor(api_key="abc", headers=(("X-Team", "search"),)).text("abc search") == "abc search"


def test_a_value_is_cleaned_in_its_strings_alone() -> None:
    # Keys that look like JSON must not tear the body apart that they are taken out of.
    clean = redactor(api_key="true", headers=(("x-token", "1234"),)).value
    body = {"stream": True, "n": 1234, "messages": [{"content": 'say "true" to 1234'}], "none": None, "true": 0.5}
    assert clean(body) == {
        "stream": True,
        "n": 1234,
        "messages": [{"content": f'say "{REDACTED}" to {REDACTED}'}],
        "none": None,
        REDACTED: 0.5,
    }
