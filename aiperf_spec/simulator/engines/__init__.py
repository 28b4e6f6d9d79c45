"""Hold the response formats of the simulated engines."""

from ..config import SimulatorConfig
from .engine import Engine, RejectedError
from .sglang import SglangEngine
from .tensorrt_llm import TensorrtLlmEngine
from .vllm import VllmEngine

__all__ = ["Engine", "RejectedError", "make_engine"]

_ENGINES: dict[str, type[Engine]] = {engine.owner: engine for engine in (VllmEngine, TensorrtLlmEngine, SglangEngine)}


def make_engine(config: SimulatorConfig) -> Engine:
    """Build the engine that a configuration names."""
    return _ENGINES[config.engine](config)
