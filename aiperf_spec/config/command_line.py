"""The command that makes a run, from its settings: those of a configuration file and of Python included."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

from aiperf_spec.config.option_table import OPTIONS
from aiperf_spec.config.redaction import Redactor
from aiperf_spec.config.secret_names import REDACTED
from aiperf_spec.config.server_url import split_endpoint
from aiperf_spec.config.settings import ProfileConfig, ReportSettings

_CREDENTIALS = re.compile(r"(?<=://)[^/@]*(?=@)|^[^/@]*(?=@)")
_LEFT_OUT = ("api_key", "artifact_dir", "overwrite", "start_at")


def command_line(config: ProfileConfig, settings: ReportSettings) -> list[str]:
    """Return the program and each option with its value, quoted for a shell and without secrets.

    Options at their defaults are left out, and so are where the run was written and when it started.
    """
    redactor = Redactor(config, split_endpoint(config.url))
    words = ["spec-profile"]
    for name, option in OPTIONS.items():
        value = getattr(config if name in ProfileConfig.model_fields else settings, name)
        if value in (None, option.default) or option.only_in_file or name in _LEFT_OUT:
            continue
        on, _, off = option.names[0].partition("/")
        if isinstance(value, bool):
            words.append(on if value else off)
            continue
        for text in _texts(value, redactor) if option.write is None else option.write(value):
            shown = redactor.text(_CREDENTIALS.sub(REDACTED, text) if "url" in name else text)
            words.append(f"{on} {shlex.quote(shown)}")
    return words


def _texts(value: Any, redactor: Redactor) -> Iterator[str]:
    if isinstance(value, dict):
        yield json.dumps(redactor.value(value), ensure_ascii=False)
        return
    for each in value if isinstance(value, tuple) else (value,):
        if isinstance(each, tuple):  # a header
            name, text = each
            yield f"{name}: {redactor.headers({name: text})[name]}"
        else:
            yield f"{each:g}" if isinstance(each, float) else str(each)
