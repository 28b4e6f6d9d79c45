"""Send the requests of a phase: in a closed loop, or on a schedule."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from aiperf_spec.errors import StoppedError
from aiperf_spec.load.plan import PlannedRequest
from aiperf_spec.load.requester import Requester, Sink, send_conversation
from aiperf_spec.load.stop import Stop
from aiperf_spec.models.units import NS_PER_S


@dataclass(slots=True, frozen=True)
class PhaseLoad:
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


async def run_phase(
    requester: Requester, requests: Iterator[PlannedRequest], load: PhaseLoad, sink: Sink, stop: Stop
) -> None:
    """Send the requests until all are sent, the time is up or a stop is requested; each record goes to the sink.

    What is in flight at a stop, or at the end of the grace period, is cancelled and reaches the sink as such.
    """
    if stop.reason is not None:
        return
    if load.due is None:
        await _closed_loop(requester, requests, load, sink, stop)
    else:
        await _open_loop(requester, requests, load, sink, stop)


async def _closed_loop(
    requester: Requester, requests: Iterator[PlannedRequest], load: PhaseLoad, sink: Sink, stop: Stop
) -> None:
    async def worker() -> None:
        # The workers share one iterator: whoever is free takes the next request.
        for request in requests:
            if not await send_conversation(requester, request, sink, stop) or load.is_over():
                return

    workers = {asyncio.create_task(worker()) for _ in range(load.concurrency or 1)}
    await _wait_or_cancel(workers, load, stop)


async def _open_loop(
    requester: Requester, requests: Iterator[PlannedRequest], load: PhaseLoad, sink: Sink, stop: Stop
) -> None:
    conversations: set[asyncio.Task[None]] = set()
    slots = None if load.concurrency is None else asyncio.Semaphore(load.concurrency)

    async def send(request: PlannedRequest) -> None:
        try:
            await send_conversation(requester, request, sink, stop)
        finally:
            if slots is not None:
                slots.release()

    async def dispatch() -> None:
        for request, offset in zip(requests, load.due or (), strict=False):
            due_ns = load.start_ns + round(offset * NS_PER_S)
            if load.end_ns is not None and due_ns >= load.end_ns:
                return
            # The loop's timers round, and may wake a little early.
            while (left_ns := due_ns - load.clock()) > 0:  # noqa: ASYNC110  a clock has no event to wait for
                await asyncio.sleep(left_ns / NS_PER_S)
            if slots is not None:
                await slots.acquire()
                if load.is_over():
                    return
            task = asyncio.create_task(send(replace(request, scheduled_ns=due_ns)))
            conversations.add(task)
            task.add_done_callback(_forget(conversations))

    try:
        with suppress(StoppedError):
            await stop.unless(dispatch())
    finally:
        await _wait_or_cancel(conversations, load, stop)


def _forget(tasks: set[asyncio.Task[None]]) -> Callable[[asyncio.Task[None]], None]:
    # A failed task stays, so that its failure is seen at the end.
    def forget(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is None:
            tasks.discard(task)

    return forget


async def _wait_or_cancel(tasks: set[asyncio.Task[None]], load: PhaseLoad, stop: Stop) -> None:
    """Wait for the tasks; cancel what is left at a stop or when the grace period ends, and raise what one raised."""
    tasks = set(tasks)
    stopper = asyncio.create_task(stop.wait())
    pending = set(tasks)
    try:
        while pending and not stopper.done():
            timeout = None
            if load.end_ns is not None:
                timeout = max(0.0, (load.end_ns - load.clock()) / NS_PER_S + load.grace_s)
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
