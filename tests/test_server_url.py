from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_spec.config.server_url import split_endpoint, without_secrets
from aiperf_spec.errors import ConfigError


def refusal_of(url: str) -> ConfigError | None:
    try:
        split_endpoint(url)
    except ConfigError as error:
        return error
    return None


PATHS = ["", "/", "/v1", "/v1/", "/v1/chat/completions", "/v1/chat/completions/", "/v1/completions", "/v1/models"]


@pytest.mark.parametrize("path", [*PATHS, "//v1//", "/health", "/metrics"])
@pytest.mark.parametrize("scheme", ["", "http://", "HTTP://"])
@pytest.mark.parametrize(
    ("host", "authority", "name"),
    [
        ("server", "server", "server"),
        ("server:8000", "server:8000", "server"),
        ("SERVER:8000", "server:8000", "server"),
        ("127.0.0.1:8000", "127.0.0.1:8000", "127.0.0.1"),
        ("[::1]:8000", "[::1]:8000", "::1"),
        ("[::1]", "[::1]", "::1"),
    ],
)
def test_every_spelling_reaches_the_same_place(scheme: str, host: str, path: str, authority: str, name: str) -> None:
    server = split_endpoint(f"{scheme}{host}{path}")
    assert server.root == f"http://{authority}"
    assert server.base == f"http://{authority}/v1"
    assert server.host == name
    assert server.endpoint("chat") == f"http://{authority}/v1/chat/completions"
    assert server.endpoint("completions") == f"http://{authority}/v1/completions"
    assert server.models == f"http://{authority}/v1/models"


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("::1", "http://[::1]/v1"),
        ("fe80::1", "http://[fe80::1]/v1"),
        ("2001:db8::7/v1", "http://[2001:db8::7]/v1"),
        ("https://server", "https://server/v1"),
        ("https://server:443/v1", "https://server:443/v1"),
        ("http://server/llm/v1", "http://server/llm/v1"),
        ("http://server/llm", "http://server/llm/v1"),
        ("server/a/b/v1/chat/completions", "http://server/a/b/v1"),
        ("http://server/v2", "http://server/v2"),
        ("http://server/v1beta/", "http://server/v1beta"),
        ("  http://server\n", "http://server/v1"),
    ],
)
def test_the_base_of_other_urls(url: str, base: str) -> None:
    assert split_endpoint(url).base == base


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("http://gateway/chat/completions", "http://gateway/chat/completions"),
        ("gateway/openai/chat/completions/", "http://gateway/openai/chat/completions"),
        ("gateway/v1/openai/chat/completions?x=1", "http://gateway/v1/openai/chat/completions?x=1"),
    ],
)
def test_a_whole_path_without_a_version_is_meant_as_it_stands(url: str, endpoint: str) -> None:
    assert split_endpoint(url).endpoint("chat") == endpoint


@pytest.mark.parametrize(
    ("path", "implied"),
    [
        ("", None),
        ("/v1", None),
        ("/v1/models", None),
        ("/v1/chat/completions", "chat"),
        ("/v1/completions", "completions"),
        ("/llm/v1/completions/", "completions"),
    ],
)
def test_a_whole_path_says_which_endpoint_is_meant(path: str, implied: str | None) -> None:
    assert split_endpoint(f"http://server{path}").implied_endpoint == implied


def test_the_query_goes_with_every_request() -> None:
    server = split_endpoint("https://server/v1/chat/completions?api-version=2&x=1")
    assert server.endpoint("chat") == "https://server/v1/chat/completions?api-version=2&x=1"
    assert server.models == "https://server/v1/models?api-version=2&x=1"
    assert server.base == "https://server/v1"


def test_credentials_are_split_off() -> None:
    server = split_endpoint("http://us%40er:pass%3Aword@server:8000/v1")
    assert server.credentials == ("us@er", "pass:word")
    assert server.root == "http://server:8000"
    assert "pass" not in server.endpoint("chat") + server.models + server.host
    assert split_endpoint("user@server").credentials == ("user", "")
    assert split_endpoint("server").credentials is None


BAD = [
    "",
    "   ",
    "http://",
    "http:///v1",
    "ftp://server",
    "ws://server/v1",
    "file:///etc/passwd",
    "http://server:port",
    "http://server:99999",
    "http://server:0",
    "http://server:-1",
    "server:8000x",
    "http://my server/v1",
    "http://server/v1 ",
    "http://server\x00/v1",
    "http://server/\x1b[31m",
    "http://[::1",
    "http://[zz]/v1",
]


@pytest.mark.parametrize("url", [url for url in BAD if url != "http://server/v1 "])
def test_what_is_no_url_is_refused_by_name(url: str) -> None:
    with pytest.raises(ConfigError, match="--url") as caught:
        split_endpoint(url)
    assert caught.value.remedy
    assert "\x1b" not in caught.value.message


@pytest.mark.parametrize(
    "rest",
    [
        "@server:port",
        "@server:99999",
        "@my server",
        "@[::1",
        "@",
        "/x@server",
        "/x@server:port",
        "?x@server",
        "#x@server:port",
        ":x@server:99999",
        "://x@server:port",
        "@x@server:port",
        "@ser\u2100ver",
    ],
)
@pytest.mark.parametrize("scheme", ["http://", "https://", "ftp://", ""])
def test_no_error_shows_a_password(scheme: str, rest: str) -> None:
    error = refusal_of(f"{scheme}user:hunter2{rest}")
    assert error is not None
    assert "hunter2" not in error.message
    assert "user" not in error.message
    assert error.__cause__ is None


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://server/v1", "http://server/v1"),
        ("http://user:pass@server:8000/v1?x=1", "http://server:8000/v1?..."),
        ("http://server/v1?key=a@b", "http://..."),
        ("http://server/v1#key", "http://server/v1"),
        ("user:pass@server", "server"),
        ("http://a@b:c@server/v1", "http://server/v1"),
        ("http://user:pa/ss@server/v1", "http://server/v1"),
        ("http://user:pa://ss@server/v1", "http://server/v1"),
        ("server:8000", "server:8000"),
    ],
)
def test_without_secrets(url: str, shown: str) -> None:
    assert without_secrets(url) == shown


@given(st.text(max_size=30) | st.from_regex(r"(https?://)?[a-z:@\[\]/?#.0-9%]{0,30}", fullmatch=True))
def test_any_text_is_a_server_or_a_configuration_error(text: str) -> None:
    error = refusal_of(text)
    if error is not None:
        assert error.message.startswith("--url")
    else:
        server = split_endpoint(text)
        assert server.root.startswith(("http://", "https://"))
        assert server.host
        # Where it points to must not change by being read again.
        again = split_endpoint(server.base)
        assert (again.root, again.base) == (server.root, server.base)
