"""The event loop that runs are run in."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


def run_in_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on uvloop where the platform has it, on asyncio's own loop elsewhere."""
    results: list[T] = []

    async def keep_result() -> None:
        # asyncio writes out its main task, result and all, when it looks whether Ctrl-C is still its own to handle:
        # for a run, that would be every record.
        results.append(await coroutine)

    with _quiet_collector(), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(keep_result())
    return results[0]


@contextmanager
def _quiet_collector() -> Iterator[None]:
    # A full collection walks every record of the run, while arrivals wait for their stamps. Young garbage is still
    # collected, in short passes; what was there before the run is set aside.
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(10_000, 10, 1_000_000)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
