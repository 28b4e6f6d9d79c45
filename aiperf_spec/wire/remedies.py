"""What to try after a request has failed: one wording for runs, `doctor` and whatever else asks the server."""

from collections.abc import Collection

from aiperf_spec.models.run import ErrorKind, RequestError
from aiperf_spec.wire.web_page import web_page

_NO_CONTACT = frozenset({ErrorKind.CONNECT_ERROR, ErrorKind.CONNECT_TIMEOUT, ErrorKind.PROXY_ERROR})
_NO_SUCH_PATH = (404, 405, 501)
_BY_KIND = {
    ErrorKind.CONNECT_ERROR: "check that the server runs and that --url names its port; "
    "--ready-timeout S waits for one that is starting",
    ErrorKind.CONNECT_TIMEOUT: "check the host and port in --url, and the firewalls in between",
    ErrorKind.PROXY_ERROR: "check the proxy that the environment names; NO_PROXY=HOST goes direct",
    ErrorKind.READ_TIMEOUT: "raise --request-timeout-seconds, or lower the load",
    ErrorKind.REMOTE_PROTOCOL_ERROR: "check --url: a server that speaks TLS needs https://",
    ErrorKind.MALFORMED: "check --url: is it the address of an OpenAI-compatible API?",
}
_BY_CAUSE = {
    "gaierror": "check the spelling of the host in --url",
    "SSLCertVerificationError": "trust its certificate with --ca-file FILE, or check none with --insecure",
    "SSLError": "check --url: a server that does not speak TLS needs http://",
}
_SHOWN = 100
"""Characters of a server's message in an error that is to be read at a glance."""
_PAGE = "check host, port and path in --url: it has to name an OpenAI-compatible API"


def is_hopeless(error: RequestError) -> bool:
    """Say whether later requests will fail alike: no connection, no admission, no such path or model, no API."""
    if error.kind is ErrorKind.HTTP_STATUS:
        return error.status in (401, 403, *_NO_SUCH_PATH)
    return error.kind in _NO_CONTACT or is_page(error)


def remedy(
    error: RequestError, *, has_key: bool = False, model: str | None = None, listed: Collection[str] = ()
) -> str:
    """Return what to try; "" where the server's own message is all there is to go by.

    `has_key` says that a key was sent; `listed` are the models that the server lists, and `model` the one asked for.
    """
    if error.status == 401 and not has_key:
        return "give the server's key with --api-key or OPENAI_API_KEY"
    if error.status in (401, 403):
        return "check the key (--api-key, OPENAI_API_KEY), and that it may use this model"
    if listed and model is not None and model not in listed and error.status in (400, 404):
        return f"check --model: the server lists {', '.join(sorted(listed))}"
    if is_page(error):
        return _PAGE
    if error.status in _NO_SUCH_PATH:
        return "check the path in --url" + ("" if model in listed else ", and --model against /v1/models")
    if error.status == 429:
        return "lower --concurrency or --request-rate"
    if "EventTooLargeError" in error.cause_chain:
        return "lower --max-tokens, or look into the server's log: its answer did not end"
    if error.status is not None and error.status >= 500:
        return "look into the server's log"
    of_connecting = error.cause_chain if error.kind is ErrorKind.CONNECT_ERROR else ()
    return next((_BY_CAUSE[cause] for cause in of_connecting if cause in _BY_CAUSE), _BY_KIND.get(error.kind, ""))


def is_page(error: RequestError) -> bool:
    """Say whether a web page came in place of an answer."""
    return web_page(_body(error.message)) is not None


def brief(error: RequestError) -> str:
    """Return an error's message as a line that is read at a glance; a page by its title."""
    message = " ".join(error.message.split())
    body = _body(message)
    if (page := web_page(body)) is not None:
        message = message.encode().removesuffix(body).decode().removesuffix("what is not JSON: ") + page
    return message if len(message) <= _SHOWN else f"{message[: _SHOWN - 3]}..."


def _body(message: str) -> bytes:
    """Return what a server's body may be of a message, which says first how it came."""
    return message[message.find("<") :].encode("utf-8", "replace") if "<" in message else b""
