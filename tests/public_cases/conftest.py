from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _no_traceback(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Let no test pass that prints a traceback, or leaves one to the event loop to report."""
    yield
    printed = "".join(capfd.readouterr())
    assert "Traceback" not in printed
    logged = [*caplog.get_records("setup"), *caplog.get_records("call")]
    assert [record.getMessage() for record in logged if record.levelno >= logging.ERROR] == []
