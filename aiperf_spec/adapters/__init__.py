"""Adapters: the only code that knows an engine."""

from aiperf_spec.adapters.description import (
    DrafterFields,
    EngineCounters,
    EngineDescription,
    PayloadFields,
    TimingFields,
)
from aiperf_spec.adapters.protocol import SpecDecodeAdapterProtocol

__all__ = [
    "DrafterFields",
    "EngineCounters",
    "EngineDescription",
    "PayloadFields",
    "SpecDecodeAdapterProtocol",
    "TimingFields",
]
