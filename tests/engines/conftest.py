"""Servers of the engine tests: one at a time, shared by the tests that need the same setup."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engines.vllm_process import MODEL, Engine, Setup

Serve = Callable[[Setup], Engine]


def _place(variable: str, what: str, part: str = "") -> Path:
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} does not say where {what}")
    path = Path(value).expanduser()
    if not (path / part).exists():
        pytest.skip(f"{variable}={value}: {path / part} does not exist")
    return path


@pytest.fixture(scope="session")
def vllm_python() -> Path:
    return _place("SPEC_PROFILE_VLLM", "a Python with vLLM is")


@pytest.fixture(scope="session")
def serve(vllm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Return what serves a setup; a server runs until another setup is asked for."""
    models = _place("SPEC_PROFILE_MODELS", f"the folder with the model {MODEL!r} is", MODEL)
    running: list[Engine] = []

    def stop() -> None:
        while running:
            running.pop().stop()

    def start(setup: Setup) -> Engine:
        if not running or running[0].setup != setup:
            stop()
            log = tmp_path_factory.mktemp("vllm") / "server.log"
            running.append(Engine(vllm_python, models, setup, log))
            running[0].start()
            running[0].wait_until_ready()
        return running[0]

    yield start
    stop()
