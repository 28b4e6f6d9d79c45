"""Simulate the speculative decoding of the supported engines behind an OpenAI-compatible server.

It imports nothing else of the package, so that tests compare two independent readings of the wire format.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .config import ENGINES, FAULT_OUTCOMES, FAULTS, EngineName, SimulatorConfig

if TYPE_CHECKING:
    from .process import SimulatorProcess
    from .server import RunningSimulator, create_app, run, start

__all__ = [
    "ENGINES",
    "FAULTS",
    "FAULT_OUTCOMES",
    "EngineName",
    "RunningSimulator",
    "SimulatorConfig",
    "SimulatorProcess",
    "create_app",
    "run",
    "start",
]


def __getattr__(name: str) -> Any:
    # The server stands on aiohttp, which is slow to import and needed by `simulate` alone.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = ".process" if name == "SimulatorProcess" else ".server"
    return getattr(import_module(home, __name__), name)
