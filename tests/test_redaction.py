from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_spec.config.redaction import Redactor
from aiperf_spec.config.secret_names import REDACTED, is_secret_input, is_secret_name
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


@pytest.mark.parametrize("name", ["X-JWT", "X-Session-Id", "subscription-key", "sig", "PASSPHRASE", "Set-Cookie2"])
def test_names_that_tell(name: str) -> None:
    assert is_secret_name(name)
    assert is_secret_input(name)


@pytest.mark.parametrize("name", ["max_tokens", "stop_token_ids", "tokenizer", "temperature", "messages", "design"])
def test_fields_of_a_body_that_are_no_secret(name: str) -> None:
    assert not is_secret_input(name)


QUERY = "http://server/v1?code=az%2Fure+one&x=plain-2&api-version=2024-10-21"


@pytest.mark.parametrize(
    "echo",
    [
        "no route /v1/chat/completions?code=az%2Fure+one&x=plain-2&api-version=2024-10-21",
        "no route /v1?code=az%2fure%20one",
        "no route with az/ure one",
        r"no route with az\/ure one",
        "x is plain-2",
    ],
)
def test_the_parts_of_a_query_are_secrets_in_every_spelling(echo: str) -> None:
    clean = redactor(QUERY).text(echo)
    assert REDACTED in clean
    assert not [secret for secret in ("ure one", "ure+one", "ure%20one", "plain-2") if secret in clean]


def test_a_model_that_the_query_names_is_no_secret() -> None:
    assert redactor("http://server?deployment=gpt-4", model="gpt-4").text("gpt-4") == "gpt-4"
    assert redactor("http://server?deployment=gpt-4", model="other").text("gpt-4") == REDACTED


def test_the_version_of_an_api_is_no_secret() -> None:
    assert redactor(QUERY).text("unknown api-version 2024-10-21") == "unknown api-version 2024-10-21"


@pytest.mark.parametrize(
    ("values", "echo"),
    [
        ({"headers": (("Cookie", "sid=tok-9; theme=tok-99"),)}, "you are tok-9 in tok-99"),
        ({"headers": (("X-Forward", "Bearer tok-9"),)}, "no tok-9"),
        ({"headers": (("X-Upstream", "Basic dTp0b2stOQ=="),)}, "u may not tok-9"),
        ({"url": "http://tok-9@server"}, "no tok-9"),
        ({"extra_inputs": {"nested": [{"api_key": "tok-9"}], "max_tokens": 5}}, "no tok-9 in 5"),
        ({"extra_inputs": {"auth": {"user": "tok-9"}}}, "no tok-9"),
        ({"server_metrics_url": ("http://elsewhere/metrics?x=tok-9",)}, "no tok-9"),
    ],
)
def test_other_places_of_secrets(values: dict[str, Any], echo: str) -> None:
    clean = redactor(**values).text(echo)
    assert REDACTED in clean
    assert "tok-9" not in clean


@given(st.integers(0, 60), st.sampled_from(["", "..."]))
def test_a_secret_that_a_cut_broke_is_taken_out_too(length: int, end: str) -> None:
    key = "sk-live-0123456789abcdefghijklmnop"
    text = f"the server said {key}!"[:length]
    clean = redactor(api_key=key).cut_text(text + end)
    assert all(key[:n] not in clean for n in range(4, len(key)))
    assert clean.startswith(text[: len("the server said ")])
    assert clean.endswith(end)


def test_a_field_of_a_row_that_names_a_secret() -> None:
    clean = redactor().value({"api_key": "tok-9", "max_tokens": 3, "stop_tokens": "tok-9", "key": 4})
    assert clean == {"api_key": REDACTED, "max_tokens": 3, "stop_tokens": "tok-9", "key": 4}


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
