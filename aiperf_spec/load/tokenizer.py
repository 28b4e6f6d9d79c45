"""Count tokens on our side, with the Rust tokenizers of Hugging Face (the extra `tokenizer`)."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies

from aiperf_spec.errors import ConfigError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_CONNECT_SECONDS = 5.0


class TokenCounter:
    """Count the tokens of texts; made by `load_counter`."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        # A tokenizer.json may carry the limits of the model that it was saved with: they would cap every count.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer

    def count(self, *texts: str) -> list[int]:
        """Return how many tokens each text has, special ones that a model adds left out.

        A batch releases the interpreter while it is counted, so that a thread does not hold up the event loop.
        """
        return [len(encoding) for encoding in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]


def load_counter(name: str) -> TokenCounter:
    """Return the counter of a `tokenizer.json`, of a folder that holds one, or of a name on the hub.

    Raises `ConfigError` where the package is missing, the file is none, or the name cannot be fetched.
    """
    # Counting in parallel would take the cores on which arrivals are stamped.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise ConfigError(
            "--tokenizer needs the package tokenizers, which is not installed",
            "pip install -e '.[tokenizer]' in a clone of the repository, or leave --tokenizer out: usage counts then",
        ) from None
    path = Path(name)
    if path.is_dir():
        path /= "tokenizer.json"
    elif not (path.exists() or path.is_absolute() or name.startswith(".") or name.endswith(".json")):
        try:
            path = _from_hub(name)
        except Exception as error:  # the hub's client raises whatever it likes, and all of it is the name's failure
            told = _first_line(error)
            raise ConfigError(
                f"--tokenizer {name!r}: neither a file or folder here nor to be had from the hub ({told})",
                "give the path of a tokenizer.json; a gated or private one needs HF_TOKEN",
            ) from None
    return TokenCounter(_from_file(Tokenizer, path))


def _from_hub(name: str) -> Path:
    from huggingface_hub import constants, hf_hub_download

    # Its warnings and retries would take half a minute to say what one line says.
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    try:
        return Path(hf_hub_download(name, "tokenizer.json", local_files_only=True))
    except OSError:  # not fetched before
        pass
    where = urlsplit(constants.ENDPOINT)
    if not getproxies() and not constants.HF_HUB_OFFLINE:
        port = where.port or (443 if where.scheme == "https" else 80)
        with socket.create_connection((where.hostname or "", port), timeout=_CONNECT_SECONDS):
            pass
    return Path(hf_hub_download(name, "tokenizer.json"))


def _from_file(kind: type[Tokenizer], path: Path) -> Tokenizer:
    if not path.is_file():
        raise ConfigError(
            f"--tokenizer {str(path)!r}: no such file", "give a tokenizer.json, or a folder that holds one"
        )
    try:
        return kind.from_file(str(path))
    except Exception as error:  # tokenizers raises bare Exception
        raise ConfigError(f"--tokenizer {str(path)!r}: not a tokenizer.json ({_first_line(error)})") from None


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
