"""The grammar of `--goodput`, AIPerf's (0.13.0): 'KEY:VALUE' pairs with spaces between them."""

import math

from aiperf_spec.errors import ConfigError

_EXAMPLE = "write it as 'time_to_first_token:200 inter_token_latency:10'"


def parse_goodput(texts: list[str]) -> dict[str, float]:
    """Return the limit of each metric, by the name that was given; raise `ConfigError` naming what is wrong."""
    limits: dict[str, float] = {}
    for text in texts:
        if not text.strip():
            raise ConfigError("--goodput: expected KEY:VALUE pairs, got nothing", _EXAMPLE)
        for pair in text.split():
            name, colon, value = pair.partition(":")
            if not colon or not name or not _is_number(value):
                raise ConfigError(f"--goodput {text!r}: {pair!r} is not KEY:VALUE with a number", _EXAMPLE)
            if name in limits:
                raise ConfigError(f"--goodput: {name!r} is given twice", "give each metric one limit")
            limits[name] = float(value)
    return limits


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and "_" not in text
    except ValueError:
        return False
