"""Adapters: the only code that knows how an engine reports acceptance."""

from aiperf_spec.adapters.protocol import SpecDecodeAdapterProtocol

__all__ = ["SpecDecodeAdapterProtocol"]
