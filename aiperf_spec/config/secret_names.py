"""Tell by its name whether a value is a secret."""

import re

REDACTED = "<redacted>"
_SECRET = re.compile(
    r"auth|bearer|cookie|credential|jwt|key|pass(word|wd|phrase)|\bpwd\b|secret|session|\bsig\b|signature|token", re.I
)
_COUNTED_TOKENS = re.compile(r"tokens|token_?ids?|tokeni[sz]", re.I)


def is_secret_name(name: str) -> bool:
    """Say whether a header, or a parameter of a URL, of this name holds a secret."""
    return _SECRET.search(name) is not None


def is_secret_input(name: str) -> bool:
    """Say the same of a field of a request body, where `max_tokens` and its like are of the model's tokens."""
    return is_secret_name(_COUNTED_TOKENS.sub("", name))
