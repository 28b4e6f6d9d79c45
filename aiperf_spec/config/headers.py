"""Headers as `--header` takes them."""

from aiperf_spec.errors import ConfigError

NOT_HEADER_TEXT = "a line break, another control character, or one that is not ASCII"


def parse_headers(texts: list[str]) -> tuple[tuple[str, str], ...]:
    """Turn each `Name: value` into a pair; see `parse_header`."""
    return tuple(parse_header(text) for text in texts)


def parse_header(text: str) -> tuple[str, str]:
    """Turn `Name: value` into a pair; raise `ConfigError` naming the header, never its value."""
    name, colon, value = text.partition(":")
    name = name.strip()
    if not colon or not name or not all(33 <= ord(c) < 127 and c not in '()<>@,;\\"/[]?={}' for c in name):
        raise ConfigError("--header: expected 'Name: value'", "quote the whole header: -H 'X-Team: search'")
    value = value.strip()
    if not is_header_text(value):
        raise ConfigError(f"--header {name!r}: the value holds {NOT_HEADER_TEXT}")
    return name, value


def is_header_text(value: str) -> bool:
    """Return whether HTTP can carry a value."""
    # What it cannot carry is refused by the HTTP client only while it sends, and would end the run there.
    return value.isascii() and value.isprintable()
