"""What to try after a failure: every kind has a remedy of its own."""

from __future__ import annotations

import pytest

from aiperf_spec.models.run import ErrorKind, RequestError
from aiperf_spec.wire.remedies import brief, is_hopeless, remedy

PAGE = "<!doctype html><title>x</title> ..."


def status(code: int, message: str = "said") -> RequestError:
    return RequestError(ErrorKind.HTTP_STATUS, message, code)


def connect(*causes: str) -> RequestError:
    return RequestError(ErrorKind.CONNECT_ERROR, "no connection", None, ("ConnectError", *causes))


@pytest.mark.parametrize(
    ("error", "said", "hopeless"),
    [
        (connect("ConnectionRefusedError"), "--url names its port; --ready-timeout", True),
        (connect("gaierror"), "spelling of the host", True),
        (connect("SSLCertVerificationError", "SSLError"), "--ca-file", True),
        (connect("SSLError"), "http://", True),
        (RequestError(ErrorKind.CONNECT_TIMEOUT, "x"), "firewalls", True),
        (RequestError(ErrorKind.PROXY_ERROR, "x"), "NO_PROXY", True),
        (RequestError(ErrorKind.READ_TIMEOUT, "x"), "--request-timeout-seconds", False),
        (RequestError(ErrorKind.REMOTE_PROTOCOL_ERROR, "x"), "https://", False),
        (status(401), "give the server's key", True),
        (status(403), "check the key", True),
        (status(404), "the path in --url, and --model", True),
        (status(405), "the path in --url", True),
        (status(404, f"HTTP 404 Not Found: {PAGE}"), "OpenAI-compatible API", True),
        (
            RequestError(ErrorKind.MALFORMED, f"the server sent what is not JSON: {PAGE}", 200),
            "OpenAI-compatible API",
            True,
        ),
        (RequestError(ErrorKind.MALFORMED, "the server sent what is not JSON", 200), "OpenAI-compatible API", False),
        (RequestError(ErrorKind.MALFORMED, "x", 200, ("EventTooLargeError",)), "--max-tokens", False),
        (status(429), "--concurrency", False),
        (status(500), "server's log", False),
        (status(400), "", False),
        (RequestError(ErrorKind.SERVER_ERROR, "x", 200), "", False),
    ],
)
def test_each_failure_has_its_remedy(error: RequestError, said: str, hopeless: bool) -> None:
    found = remedy(error)
    assert said in found
    assert bool(said) == bool(found)
    assert is_hopeless(error) is hopeless


def test_a_key_that_was_sent_is_checked_and_not_asked_for() -> None:
    assert "give" not in remedy(status(401), has_key=True)


def test_a_model_that_is_not_listed_is_told_those_that_are() -> None:
    assert remedy(status(404), model="wrong", listed=("b", "a")) == "check --model: the server lists a, b"
    assert remedy(status(404), model="a", listed=("b", "a")) == "check the path in --url"


def test_a_message_is_shown_at_a_glance() -> None:
    assert brief(status(404, f"HTTP 404 Not Found: {PAGE}")) == "HTTP 404 Not Found: a web page (HTML), 'x'"
    assert brief(status(400, "a\n  <b")) == "a <b"
    long = brief(status(400, "x" * 500))
    assert (len(long), long[-3:]) == (100, "...")
