"""Adapters: the only code that knows how an engine reports acceptance."""

from aiperf_spec.adapters.description import (
    EngineCounters,
    EngineDescription,
    PayloadFields,
    SettingsPage,
    TimingFields,
)
from aiperf_spec.adapters.protocol import SpecDecodeAdapterProtocol

__all__ = [
    "EngineCounters",
    "EngineDescription",
    "PayloadFields",
    "SettingsPage",
    "SpecDecodeAdapterProtocol",
    "TimingFields",
]
