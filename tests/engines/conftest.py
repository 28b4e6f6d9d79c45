"""Servers of the engine tests: one at a time, shared by the tests that need the same setup."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.vllm_process import MODEL, Engine, Setup


class Serve:
    """Serve a setup; a server runs until another setup is asked for, or none."""

    def __init__(self, python: Path, models: Path, folder: Path) -> None:
        self._python = python
        self._models = models
        self._folder = folder
        self._running: Engine | None = None

    def __call__(self, setup: Setup) -> Engine:
        if self._running is None or self._running.setup != setup:
            self.stop()
            self._running = Engine(self._python, self._models, setup, self._folder / "server.log")
            self._running.start()
            self._running.wait_until_ready()
        return self._running

    def stop(self) -> None:
        """End the server that runs, if one does."""
        if self._running is not None:
            self._running.stop()
        self._running = None


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
    models = _place("SPEC_PROFILE_MODELS", f"the folder with the model {MODEL!r} is", MODEL)
    servers = Serve(vllm_python, models, tmp_path_factory.mktemp("vllm"))
    yield servers
    servers.stop()
