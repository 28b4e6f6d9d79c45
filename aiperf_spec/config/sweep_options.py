"""The options of a sweep beside those of its runs. `SweepSettings` validates them."""

from functools import partial

from aiperf_spec.config.option import LOAD, OUTPUT, SERVER, Options, option
from aiperf_spec.config.sweep_lists import parse_integers, parse_numbers


class SweepOptions(Options):
    """They say which cells a sweep has, and in which order and state of the server those are measured."""

    concurrency: tuple[int, ...] = option(
        "Levels of requests in flight, such as 1,2,4,8.",
        LOAD,
        "LIST",
        None,
        read=partial(parse_integers, "--concurrency"),
        default=(),
    )
    request_rate: tuple[float, ...] = option(
        "Levels of requests (or conversations) started each second, such as 1,2,4, instead of --concurrency.",
        LOAD,
        "LIST",
        None,
        read=partial(parse_numbers, "--request-rate"),
        default=(),
    )
    repeat: int = option("Number of times to measure each level.", LOAD, "N", None, ge=1, default=1)
    settle_time: float = option(
        "Wait this many seconds before each level, until the server is idle again.", LOAD, "S", None, ge=0, default=1.0
    )
    reset_cache: bool = option(
        "Have the server empty its prefix cache before each level, if it can.", SERVER, place=None, default=False
    )
    resume: bool = option(
        "Go on with the sweep in --artifact-dir: skip the levels that it has.", OUTPUT, place=None, default=False
    )


SWEEP_FOLDER = "Folder of the sweep, with one folder for each level. Default: artifacts/sweep-TIME."
"""What `--artifact-dir` means here."""
NOT_IN_SWEEPS = frozenset(
    {
        *("fixed_schedule", "fixed_schedule_auto_offset", "fixed_schedule_start_offset", "fixed_schedule_end_offset"),
        *("share", "start_at", "export_level", "overwrite"),
    }
)
"""Options of a run that a sweep does not take: a trace has no levels, a start is one run's, and a sweep needs
the records of its runs."""
