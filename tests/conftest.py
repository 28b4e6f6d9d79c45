"""What several test files share: simulators and records made by hand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from aiperf_spec.simulator import SimulatorConfig
from aiperf_spec.simulator.process import SimulatorProcess
from tests.support import Simulate
from tests.waiting import PATIENCE_SECONDS

# A busy machine makes an example slow, not wrong.
settings.register_profile("any machine", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Share the whole suite out among a few processes; run named tests, and real engines, in this one."""
    named = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
    if named or config.option.markexpr != "not engine":
        return 0
    # Some tests take ten times as long as others: who has none left takes another's.
    config.option.dist = "worksteal"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # Half of the time is spent waiting for servers and time-outs, so that a core has use for two.
    return min(8, 2 * cores)


@pytest.fixture(scope="session")
def simulate() -> Iterator[Simulate]:
    """Start simulators in processes of their own; those with the same settings are shared and end with the tests."""
    with ExitStack() as stack:
        running: dict[tuple[tuple[str, Any], ...], SimulatorProcess] = {}

        def start(engine: str, **settings: Any) -> SimulatorProcess:
            key = (("engine", engine), *sorted(settings.items()))
            if key not in running:
                config = SimulatorConfig(**{"step_time_ms": 1.0, "prefill_time_ms": 2.0, **settings, "engine": engine})
                running[key] = stack.enter_context(SimulatorProcess(config))
            return running[key]

        yield start


@pytest.fixture(autouse=True)
def _no_key_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the environment's own key, colours and width out of what tests see."""
    for name in ("OPENAI_API_KEY", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _metrics_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run wait longer for a server's metrics than it does for a user: a busy machine may need it."""
    monkeypatch.setattr("aiperf_spec.server_metrics.scraper.PATIENCE_SECONDS", PATIENCE_SECONDS)
