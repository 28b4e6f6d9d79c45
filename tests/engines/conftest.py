"""Servers of the engine tests: one at a time, shared by the tests that need the same setup."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.server import Engine, Server, Setup
from tests.engines.table import ENGINES


class Serve:
    """Serve a setup of an engine; a server runs until another one is asked for, or none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: Server | None = None

    def __call__(self, engine: Engine, setup: Setup | None = None) -> Server:
        setup = setup or engine.setup
        if self._running is None or (self._running.engine, self._running.setup) != (engine, setup):
            self.stop()
            self._running = Server(engine, setup, self._folder)
            self._running.start()
            try:
                self._running.wait_until_ready()
            except BaseException:
                self.stop()
                raise
        return self._running

    def stop(self) -> None:
        """End the server that runs, if one does."""
        if self._running is not None:
            self._running.stop()
        self._running = None


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    servers = Serve(tmp_path_factory.mktemp("engines"))
    yield servers
    servers.stop()


@pytest.fixture(scope="session", params=ENGINES, ids=lambda engine: engine.name)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Return each engine that is there; pytest runs all tests of one before those of the next."""
    chosen: Engine = request.param
    chosen.place()
    return chosen


@pytest.fixture
def server(serve: Serve, engine: Engine) -> Server:
    """Return the engine's server as it is started where a test does not care."""
    return serve(engine)
