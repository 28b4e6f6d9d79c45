"""The event loop of a run: run it, share it between many requests, measure how late it is."""

from __future__ import annotations

import asyncio
import gc
from array import array
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

from aiperf_spec.models.units import NS_PER_S

T = TypeVar("T")

_BEAT_SECONDS = 0.02


def run_in_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on uvloop where the platform has it, on asyncio's own loop elsewhere."""
    results: list[T] = []

    async def keep_result() -> None:
        # asyncio writes out its main task, result and all, when it looks whether Ctrl-C is still its own to handle:
        # for a run, that would be every record.
        results.append(await coroutine)

    main = keep_result()
    try:
        runner = asyncio.Runner(loop_factory=_loop_factory())
        with _quiet_collector():
            try:
                runner.run(main)
            finally:
                # Closing runs the loop once more, and fails where no descriptor is left: that costs no result.
                with suppress(OSError, RuntimeError):
                    runner.close()
    finally:
        # What was interrupted before it began would warn that nobody awaited it.
        main.close()
        coroutine.close()
    return results[0]


async def sleep_until(at_ns: int, clock: Callable[[], int]) -> None:
    """Wait until the clock shows a time. The loop's timers round, and may wake a little early."""
    while (left_ns := at_ns - clock()) > 0:  # noqa: ASYNC110  a clock has no event to wait for
        await asyncio.sleep(left_ns / NS_PER_S)


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


@asynccontextmanager
async def running(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Run the work beside the block; it is cancelled, and has ended, when the block is left."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def monitored_loop_lag(clock: Callable[[], int]) -> AsyncIterator[array[int]]:
    """Ask to be woken every 20 ms while the block goes on, and note by how much the waking was late.

    The lags, in ns, fill with one value a beat: what the program itself adds to every stamp. The loop's own timers
    round to a millisecond, so values below that mean nothing.
    """
    lags_ns = array("q")

    async def beat() -> None:
        while True:
            asked = clock()
            await asyncio.sleep(_BEAT_SECONDS)
            lags_ns.append(max(0, clock() - asked - int(_BEAT_SECONDS * NS_PER_S)))

    async with running(beat()):
        yield lags_ns


class FairQueue:
    """Let one caller through in each pass of the event loop, first come, first served.

    Preparing a request and making its record take some tenths of a millisecond. When hundreds of requests end at once,
    doing so for all of them in one pass would make the arrivals of the others wait for their stamps; one in a pass
    lets arrivals be read in between.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._taken = False

    async def turn(self) -> None:
        """Return when it is the caller's turn: at once, where nobody had one in this pass."""
        loop = asyncio.get_running_loop()
        if not self._taken:
            self._taken = True
            loop.call_soon(self._next, loop)
            return
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append(future)
        await future

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                loop.call_soon(self._next, loop)
                return
        self._taken = False
