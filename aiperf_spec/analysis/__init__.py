"""Answers about a run: pure functions over records.

from aiperf_spec.analysis import analyse

analysis = analyse(result.records)
print(analysis.run.length.low, analysis.run.length.value, analysis.run.length.high)
"""

from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.analysis.report import Analysis, analyse

__all__ = ["Analysis", "Estimate", "analyse"]
