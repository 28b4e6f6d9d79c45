"""An engine's own timing of a request, where its adapter says in which fields it comes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from aiperf_spec.adapters.description import TIMING_NAMES, TimingFields
from aiperf_spec.models.response import ParsedResponse
from aiperf_spec.models.run import ServerTiming


def server_timing(responses: list[ParsedResponse], timings: Sequence[TimingFields]) -> ServerTiming | None:
    """Return the last figures that the engine sent; None where it sent none that is a finite number."""
    for response in reversed(responses):
        if response.engine_timings is None:
            continue
        for timing in timings:
            sent = response.engine_timings.get(timing.path, {})
            found = {name: _figure(sent.get(timing.fields.get(name, ""))) for name in TIMING_NAMES}
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
