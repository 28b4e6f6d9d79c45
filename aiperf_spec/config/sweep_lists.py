"""The lists that `sweep` takes, as a command line has them: 1,2,4."""

from aiperf_spec.config.server_url import without_secrets
from aiperf_spec.errors import ConfigError


def parse_integers(option: str, texts: list[str]) -> tuple[int, ...]:
    """Return the whole numbers of a list that may be given in parts; raise `ConfigError` naming what is none."""
    numbers = parse_numbers(option, texts)
    if odd := next((number for number in numbers if not number.is_integer()), None):
        raise ConfigError(f"{option}: {odd:g} is not a whole number")
    return tuple(map(int, numbers))


def parse_numbers(option: str, texts: list[str]) -> tuple[float, ...]:
    """Return the numbers of a list that may be given in parts; raise `ConfigError` naming what is none."""
    return tuple(_number(option, part.strip()) for text in texts for part in text.split(","))


def parse_servers(texts: list[str]) -> tuple[tuple[int, str], ...]:
    """Return the draft length and the URL of each `K=URL`; raise `ConfigError` naming one that is wrong."""
    found = []
    for text in texts:
        k, equals, url = text.partition("=")
        if not equals or not url or not (k.strip().isascii() and k.strip().isdecimal()):
            raise ConfigError(
                f"--server {without_secrets(text)!r}: expected K=URL", "such as --server 4=http://127.0.0.1:8004"
            )
        found.append((int(k), url.strip()))
    return tuple(found)


def _number(option: str, part: str) -> float:
    try:
        number = float(part)
    except ValueError:
        raise ConfigError(f"{option}: {part!r} is not a number", f"give a list, such as {option} 1,2,4,8") from None
    if not abs(number) < 1e9:
        raise ConfigError(f"{option}: {part} is out of range")
    return number
