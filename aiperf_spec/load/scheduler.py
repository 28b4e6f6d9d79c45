"""Send the work of a phase: in a closed loop, or on a schedule."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace

from aiperf_spec.load.plan import PlannedRequest
from aiperf_spec.load.requester import Requester, Sink, converse
from aiperf_spec.load.stop import Stop
from aiperf_spec.models.units import NS_PER_S


@dataclass(slots=True, frozen=True)
class Pace:
    """How a phase is sent. Times are of the monotonic clock.

    `concurrency` requests are in flight at all times; with `due`, seconds after `start_ns` at which requests are due,
    it is a cap, or None for none. After `end_ns` nothing is sent, and what is in flight `grace_s` later is cancelled.
    """

    concurrency: int | None
    clock: Callable[[], int]
    start_ns: int
    due: Iterator[float] | None = None
    end_ns: int | None = None
    grace_s: float = 0.0

    def is_over(self) -> bool:
        """Say whether the time for sending is up."""
        return self.end_ns is not None and self.clock() >= self.end_ns


async def run_phase(requester: Requester, works: Iterator[PlannedRequest], pace: Pace, sink: Sink, stop: Stop) -> None:
    """Send the work until it is done, its time is up or a stop is requested; each record goes to the sink.

    What is in flight at a stop, or at the end of the grace period, is cancelled and reaches the sink as such.
    """
    if stop.reason is not None:
        return
    if pace.due is None:
        await _closed_loop(requester, works, pace, sink, stop)
    else:
        await _open_loop(requester, works, pace, sink, stop)


async def _closed_loop(
    requester: Requester, works: Iterator[PlannedRequest], pace: Pace, sink: Sink, stop: Stop
) -> None:
    async def worker() -> None:
        # The workers share one iterator: whoever is free takes the next request.
        for work in works:
            if not await converse(requester, work, sink, stop) or pace.is_over():
                return

    workers = {asyncio.create_task(worker()) for _ in range(pace.concurrency or 1)}
    await _see_through(workers, pace, stop)


async def _open_loop(requester: Requester, works: Iterator[PlannedRequest], pace: Pace, sink: Sink, stop: Stop) -> None:
    conversations: set[asyncio.Task[None]] = set()
    slots = None if pace.concurrency is None else asyncio.Semaphore(pace.concurrency)

    async def send(work: PlannedRequest) -> None:
        try:
            await converse(requester, work, sink, stop)
        finally:
            if slots is not None:
                slots.release()

    async def dispatch() -> None:
        for work, offset in zip(works, pace.due or (), strict=False):
            due_ns = pace.start_ns + round(offset * NS_PER_S)
            if pace.end_ns is not None and due_ns >= pace.end_ns:
                return
            # The loop's timers round, and may wake a little early.
            while (left_ns := due_ns - pace.clock()) > 0:  # noqa: ASYNC110  a clock has no event to wait for
                await asyncio.sleep(left_ns / NS_PER_S)
            if slots is not None:
                await slots.acquire()
                if pace.is_over():
                    return
            task = asyncio.create_task(send(replace(work, scheduled_ns=due_ns)))
            conversations.add(task)
            task.add_done_callback(_forget(conversations))

    dispatcher = asyncio.create_task(dispatch())
    try:
        await _first_of(dispatcher, stop.wait())
        if dispatcher.done():
            dispatcher.result()
    finally:
        dispatcher.cancel()
        await asyncio.gather(dispatcher, return_exceptions=True)
        await _see_through(conversations, pace, stop)


def _forget(tasks: set[asyncio.Task[None]]) -> Callable[[asyncio.Task[None]], None]:
    # A failed task stays, so that its failure is seen at the end.
    def forget(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is None:
            tasks.discard(task)

    return forget


async def _first_of(task: asyncio.Task[None], other: Awaitable[None]) -> None:
    second = asyncio.ensure_future(other)
    try:
        await asyncio.wait({task, second}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)


async def _see_through(tasks: set[asyncio.Task[None]], pace: Pace, stop: Stop) -> None:
    """Wait for the tasks; cancel what is left at a stop or when the grace period ends, and raise what one raised."""
    tasks = set(tasks)
    stopper = asyncio.create_task(stop.wait())
    pending = set(tasks)
    try:
        while pending and not stopper.done():
            timeout = None
            if pace.end_ns is not None:
                timeout = max(0.0, (pace.end_ns - pace.clock()) / NS_PER_S + pace.grace_s)
            done, pending = await asyncio.wait(
                {*pending, stopper}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
            pending.discard(stopper)
            for task in done - {stopper}:
                _raise_failure(task)
            if not done:
                break
    finally:
        stopper.cancel()
        for task in pending:
            task.cancel()
        await asyncio.gather(*tasks, stopper, return_exceptions=True)
    for task in tasks:
        _raise_failure(task)


def _raise_failure(task: asyncio.Task[None]) -> None:
    # A task that was cancelled before it could send has nothing to tell.
    if not task.cancelled():
        task.result()
