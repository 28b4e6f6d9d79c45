"""Wait for the time at which a run starts to profile, under `--start-at`."""

import time
from collections.abc import Callable
from contextlib import suppress

from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.config.several_clients import start_time_ns
from aiperf_spec.errors import ConfigError, SpecProfileError, StoppedError
from aiperf_spec.load.event_loop import sleep_until
from aiperf_spec.load.stop import Stop
from aiperf_spec.models.units import NS_PER_S

_MAX_WAIT_SECONDS = 86_400


def check_start(config: ProfileConfig, wall_ns: int) -> None:
    """Raise `ConfigError` where the start has passed, or is more than a day away; `wall_ns` is the time, since 1970."""
    if config.start_time is None:
        return
    left_s = (start_time_ns(config.start_time) - wall_ns) / NS_PER_S
    if left_s < 0:
        raise _passed(config, -left_s)
    if left_s > _MAX_WAIT_SECONDS:
        days = left_s / _MAX_WAIT_SECONDS
        raise ConfigError(f"--start-at {config.start_at} is {days:,.1f} days away", "start within a day")


async def wait_for_start(
    config: ProfileConfig, wall_offset_ns: int, clock: Callable[[], int], stop: Stop
) -> int | SpecProfileError:
    """Return when profiling starts, by the monotonic clock: at `--start-at`, or now.

    Where that time has passed by now, requests would be sent late, all at once: what is returned then is the error.
    """
    if config.start_time is None or stop.reason is not None:
        return clock()
    start_ns = start_time_ns(config.start_time) - wall_offset_ns
    if (late_ns := clock() - start_ns) > 0:
        return _passed(config, late_ns / NS_PER_S)
    with suppress(StoppedError):
        await stop.unless(sleep_until(start_ns, clock))
    return start_ns


def seconds_to_start(config: ProfileConfig, wall_offset_ns: int) -> float | None:
    """Return how long it is until `--start-at`, by the run's own times; None without it."""
    if config.start_time is None:
        return None
    return (start_time_ns(config.start_time) - wall_offset_ns - time.perf_counter_ns()) / NS_PER_S


def _passed(config: ProfileConfig, late_s: float) -> ConfigError:
    return ConfigError(
        f"--start-at {config.start_at} passed {late_s:,.1f} s before this client was ready to start",
        "name a later time, or warm up with fewer requests",
    )
