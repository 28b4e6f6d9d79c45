"""Hold the response formats of the simulated engines."""

from ..config import SimulatorConfig
from .engine import Engine, RejectedError
from .llama_cpp import LlamaCppEngine
from .sglang import SglangEngine
from .tensorrt_llm import TensorrtLlmEngine
from .vllm import VllmEngine

__all__ = ["Engine", "RejectedError", "make_engine"]

_ENGINES: dict[str, type[Engine]] = {
    "vllm": VllmEngine,
    "tensorrt_llm": TensorrtLlmEngine,
    "sglang": SglangEngine,
    "llama_cpp": LlamaCppEngine,
}


def make_engine(config: SimulatorConfig) -> Engine:
    """Build the engine that a configuration names."""
    return _ENGINES[config.engine](config)
