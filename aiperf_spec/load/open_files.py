"""Have as many files open as a run needs: each connection is one."""

import contextlib

from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import ConfigError

_OTHER_FILES = 64
"""What a run opens beside its connections: its own files, those of metrics, and pipes to other processes."""
_ENOUGH = 65_536
"""For a schedule that caps nothing."""


def allow_connections(config: ProfileConfig) -> None:
    """Raise the limit of open files (`ulimit -n`) to what the run's connections take.

    Raises `ConfigError` where the system allows fewer than `--concurrency` needs. A schedule without a cap gets as many
    as there may be.
    """
    try:
        import resource
    except ImportError:
        return  # Windows has no such limit
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    cap = config.concurrency_cap
    in_flight = None if cap is None else min(cap, config.request_count or cap)
    needed = _ENOUGH if in_flight is None else in_flight + _OTHER_FILES
    wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # a system may allow less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    if in_flight is not None and soft != resource.RLIM_INFINITY and soft < needed:
        raise ConfigError(
            f"--concurrency {cap} needs {needed} open files, and this system allows {soft} (ulimit -n)",
            f"raise the hard limit of open files, or take --concurrency {max(soft - _OTHER_FILES, 1)}",
        )
