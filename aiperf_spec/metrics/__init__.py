"""Figures over records: pure functions, named and scaled as AIPerf's."""

from aiperf_spec.metrics.summary import Summary, summarise

__all__ = ["Summary", "summarise"]
