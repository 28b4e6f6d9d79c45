"""vLLM's own timing of a request, in `metrics` beside `speculative_decoding`, with `--enable-per-request-metrics`.

Read from vLLM 0.32.0 (`tests/wire/vllm`). They come for one sequence only, on the usage chunk of a stream, and each is
left out where the engine lacks a stamp that it needs.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from aiperf_spec.models.response import ParsedResponse
from aiperf_spec.models.run import ServerTiming

TIMING_FIELDS = tuple(field.name for field in fields(ServerTiming))


def server_timing(responses: list[ParsedResponse]) -> ServerTiming | None:
    """Return the last figures that the engine sent; None where it sent none that is a finite number."""
    for response in reversed(responses):
        if response.metrics is not None:
            found = {name: _figure(response.metrics.get(name)) for name in TIMING_FIELDS}
            if any(value is not None for value in found.values()):
                return ServerTiming(**found)
    return None


def _figure(value: Any) -> float | None:
    if type(value) not in (int, float):
        return None
    try:
        figure = float(value)
    except OverflowError:  # an integer past the largest float
        return None
    return figure if math.isfinite(figure) and figure >= 0 else None
