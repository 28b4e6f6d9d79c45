"""All declared options by field, and the places that they have in a configuration file."""

from __future__ import annotations

from functools import cache

from aiperf_spec.config.option import declarations
from aiperf_spec.config.result_options import ResultOptions
from aiperf_spec.config.run_options import RunOptions

OPTIONS = declarations(RunOptions) | declarations(ResultOptions)


@cache
def keys_of(section: str) -> dict[str, str]:
    """Return the fields by the keys of a section: endpoint, datasets, warmup, profiling, artifacts.

    "" stands for `benchmark` itself; warmup and profiling are the kinds of phases. The nesting is AIPerf's (0.13.0)
    for what it shares with us.
    """
    places = [(declared.place, field) for field, declared in OPTIONS.items() if declared.place is not None]
    # A file ends with where the server's metrics are.
    places.sort(key=lambda each: each[1].startswith("server_metrics"))
    return {place[1]: field for place, field in places if place[0] == section}
