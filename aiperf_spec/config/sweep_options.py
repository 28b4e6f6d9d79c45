"""The options of a sweep beside those of its runs. `SweepSettings` validates them."""

from functools import partial
from pathlib import Path

from aiperf_spec.config.option import GATES, LOAD, OUTPUT, SERVER, Options, option
from aiperf_spec.config.sweep_lists import parse_integers, parse_numbers, parse_servers


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
    k: tuple[int, ...] = option(
        "Draft lengths to measure at each level, such as 0,2,4; 0 is without speculation. Needs --serve.",
        SERVER,
        "LIST",
        None,
        read=partial(parse_integers, "--k"),
        default=(),
    )
    serve: str | None = option(
        "Shell command that starts the server of a draft length. {k} in it, and SPEC_PROFILE_K in its environment, "
        "stand for the length.",
        SERVER,
        "COMMAND",
        None,
        secret=True,
        min_length=1,
        default=None,
    )
    serve_without: str | None = option(
        "Command that starts the server without speculation. Default: --serve, with 0 for {k}.",
        SERVER,
        "COMMAND",
        None,
        secret=True,
        min_length=1,
        default=None,
    )
    serve_timeout: float = option(
        "Wait up to this many seconds until a server that was started is ready.",
        SERVER,
        "S",
        None,
        gt=0,
        default=1800.0,
    )
    server: tuple[tuple[int, str], ...] = option(
        "Draft length and URL of a server that is already running, instead of --serve. Repeatable.",
        SERVER,
        "K=URL",
        None,
        read=parse_servers,
        secret=True,
        default=(),
    )
    baseline: Path | None = option(
        "Folder of runs without speculation at the same levels, instead of k = 0.", SERVER, "DIR", None, default=None
    )
    economy: bool = option(
        "Measure k = 0 and the largest k, predict the others, and measure the best of these.",
        LOAD,
        place=None,
        default=False,
    )
    slo: tuple[str, ...] = option(
        "Objective, written as a gate, such as 'ttft.p99 <= 200'. Shows the highest level that meets all. Repeatable.",
        GATES,
        "EXPR",
        None,
        default=(),
    )
    repeat: int = option(
        "Number of times to measure each cell: a draft length at a level. Verdicts take 3.",
        LOAD,
        "N",
        None,
        ge=1,
        default=1,
    )
    settle_time: float = option(
        "Wait this many seconds before each cell, until the server is idle again.", LOAD, "S", None, ge=0, default=1.0
    )
    reset_cache: bool = option(
        "Have the server empty its prefix cache before each cell, if it can.", SERVER, place=None, default=False
    )
    resume: bool = option(
        "Continue the sweep in --artifact-dir, and skip the cells that are done.", OUTPUT, place=None, default=False
    )


SWEEP_FOLDER = "Folder of the sweep, with one folder for each cell. Default: artifacts/sweep-TIME."
"""What `--artifact-dir` means here."""
NOT_IN_SWEEPS = frozenset(
    {
        *("fixed_schedule", "fixed_schedule_auto_offset", "fixed_schedule_start_offset", "fixed_schedule_end_offset"),
        *("share", "start_at", "export_level", "overwrite"),
    }
)
"""Options of a run that a sweep does not take: a trace has no levels, a start is one run's, and a sweep needs
the records of its runs."""
