"""All declared options by field, and the places that they have in a configuration file."""

from functools import cache

from aiperf_spec.config.option import declared
from aiperf_spec.config.result_options import ResultOptions
from aiperf_spec.config.run_options import RunOptions

OPTIONS = declared(RunOptions) | declared(ResultOptions)


@cache
def keys_of(section: str) -> dict[str, str]:
    """Return the fields by the keys of a section: endpoint, datasets, warmup, profiling, artifacts.

    "" stands for `benchmark` itself; warmup and profiling are the kinds of phases. The nesting is AIPerf's (0.13.0)
    for what it shares with us.
    """
    places = [(option.place, field) for field, option in OPTIONS.items() if option.place is not None]
    # A file ends with where the server's metrics are.
    places.sort(key=lambda each: each[1].startswith("server_metrics"))
    split = [(*place.rpartition("."), field) for place, field in places]
    return {key or field: field for name, _, key, field in split if name == section}
