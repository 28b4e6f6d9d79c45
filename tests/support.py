"""Types that fixtures and tests share."""

from __future__ import annotations

from collections.abc import Callable

from aiperf_spec.simulator.process import SimulatorProcess

Simulate = Callable[..., SimulatorProcess]
