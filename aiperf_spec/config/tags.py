"""Tags of a run, as `--tag` takes them."""

import re
from collections.abc import Iterable, Mapping

from aiperf_spec.errors import ConfigError

DATE = "date"
"""What runs are also ordered by: when they were made. No tag has this name."""
_NAME = re.compile(r"[^\W\d][\w.-]*")
_EXAMPLE = "for example --tag step=3000"


def parse_tags(texts: list[str]) -> dict[str, str]:
    """Return the value of each NAME=VALUE by its name; raise `ConfigError` naming what is wrong."""
    tags: dict[str, str] = {}
    for text in texts:
        name, sign, value = (part.strip() for part in text.partition("="))
        if not sign:
            raise ConfigError(f"--tag {text!r}: expected NAME=VALUE", _EXAMPLE)
        if (problem := tag_problem(name, value)) is not None:
            raise ConfigError(f"--tag {text!r}: {problem}", _EXAMPLE)
        if tags.get(name, value) != value:
            raise ConfigError(f"--tag: {name!r} is given twice, as {tags[name]!r} and as {value!r}")
        tags[name] = value
    return tags


def tag_problem(name: str, value: str) -> str | None:
    """Say what is wrong with a tag; None where nothing is."""
    if not _NAME.fullmatch(name):
        return f"the name {name!r} must be letters, digits, '_', '-' or '.', and begin with a letter"
    if name == DATE:
        return f"the name {name!r} stands for when a run was made"
    if not value or not value.isprintable():
        return f"the value of {name!r} {'holds a control character' if value else 'is empty'}"
    return None


def tag_texts(tags: Mapping[str, str]) -> Iterable[str]:
    """Return tags as the command line takes them."""
    return [f"{name}={value}" for name, value in tags.items()]
