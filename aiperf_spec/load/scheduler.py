"""Send the requests of a phase: in a closed loop, or on a schedule."""

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile
from typing import Protocol

from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import SpecProfileError, StoppedError
from aiperf_spec.load.event_loop import sleep_until
from aiperf_spec.load.plan import PlannedRequest, planned, requests_of
from aiperf_spec.load.requester import Sink
from aiperf_spec.load.stop import Stop
from aiperf_spec.models.run import Phase
from aiperf_spec.models.units import NS_PER_S
from aiperf_spec.workload.arrivals import arrivals
from aiperf_spec.workload.dataset import Workload


class Sender(Protocol):
    """What sends conversations: a `Requester` in this process, or `WorkerProcesses`."""

    @property
    def in_flight(self) -> int:
        """Requests that are under way."""

    async def converse(self, first: PlannedRequest, sink: Sink, stop: Stop, end_ns: int | None) -> bool:
        """Send a conversation, each record to the sink, and say whether another may follow.

        No turn begins after `end_ns`, by the monotonic clock.
        """


@dataclass(slots=True)
class PhaseRunner:
    """Decide what is sent when."""

    config: ProfileConfig
    workload: Workload
    sender: Sender
    sink: Sink
    stop: Stop
    clock: Callable[[], int]
    unsent: int = field(init=False, default=0)
    """Requests of the latest phase that were due and never went out."""

    async def run(self, phase: Phase, start_ns: int) -> SpecProfileError | None:
        """Run a phase that starts at `start_ns`; return why the prompts ended too early, where they did.

        Requests are sent until all are sent, the time is up or a stop is requested. What is in flight at a stop, or at
        the end of the grace period, is cancelled and reaches the sink as such.
        """
        config = self.config
        self.unsent, count = 0, requests_of(config, self.workload.info, phase)
        if count == 0 or self.stop.reason is not None:
            return None
        requests, prompts = planned(config, self.workload, phase)
        slots = config.concurrency if count is None else min(config.concurrency, count)
        if phase is Phase.WARMUP:
            await self._closed_loop(requests, slots, None)
            return prompts.failure
        duration, rate, cap = config.benchmark_duration, config.request_rate, config.concurrency_cap
        end_ns = None if duration is None else start_ns + round(duration * NS_PER_S)
        if config.fixed_schedule:
            traced = (request.due_in_trace(start_ns) for request in requests)
            await self._open_loop(((each, each.scheduled_ns or start_ns) for each in traced), cap, end_ns)
        elif rate is None:
            await self._closed_loop(requests, slots, end_ns)
        else:
            number = round(rate * duration) if count is None and duration is not None else count
            offsets = arrivals(rate, config.arrival_pattern, config.random_seed, number)
            due = (start_ns + round(each * NS_PER_S) for each in config.client_share.of(offsets))
            await self._open_loop(zip(requests, due, strict=False), cap, end_ns)
        return prompts.failure

    def _is_over(self, end_ns: int | None) -> bool:
        return end_ns is not None and self.clock() >= end_ns

    async def _closed_loop(self, requests: Iterator[PlannedRequest], concurrency: int, end_ns: int | None) -> None:
        async def worker() -> None:
            # The workers share one iterator: whoever is free takes the next request.
            for request in requests:
                goes_on = await self.sender.converse(request, self.sink, self.stop, end_ns)
                if not goes_on or self._is_over(end_ns):
                    return

        await self._wait_or_cancel({asyncio.create_task(worker()) for _ in range(concurrency)}, end_ns)
        if end_ns is None and self.stop.reason is None:
            # Some are left only where nothing can send them.
            self.unsent = sum(1 + request.later_turns for request in requests)

    async def _open_loop(
        self, requests: Iterator[tuple[PlannedRequest, int]], cap: int | None, end_ns: int | None
    ) -> None:
        conversations: set[asyncio.Task[None]] = set()
        slots = None if cap is None else asyncio.Semaphore(cap)
        held: list[tuple[PlannedRequest, int]] = []
        goes_on = True

        async def send(request: PlannedRequest) -> None:
            nonlocal goes_on
            try:
                if not await self.sender.converse(request, self.sink, self.stop, end_ns):
                    goes_on = False
            finally:
                if slots is not None:
                    slots.release()

        def forget(task: asyncio.Task[None]) -> None:
            # A failed task stays, so that its failure is seen at the end.
            if not task.cancelled() and task.exception() is None:
                conversations.discard(task)

        async def dispatch() -> None:
            for request, due_ns in requests:
                held[:] = [(request, due_ns)]
                if end_ns is not None and due_ns >= end_ns:
                    return
                await sleep_until(due_ns, self.clock)
                if slots is not None and not await self._takes_slot(slots, end_ns):
                    return
                if not goes_on:
                    return
                task = asyncio.create_task(send(replace(request, scheduled_ns=due_ns)))
                conversations.add(task)
                task.add_done_callback(forget)
                held.clear()

        try:
            with suppress(StoppedError):
                await self.stop.unless(dispatch())
        finally:
            stopped_ns = math.inf if self.stop.reason is None else self.clock()
            await self._wait_or_cancel(set(conversations), end_ns)
        last_ns = min(stopped_ns, math.inf if end_ns is None else end_ns)
        missed = takewhile(lambda each: each[1] < last_ns, chain(held, requests))
        self.unsent = sum(1 + request.later_turns for request, _ in missed)

    async def _takes_slot(self, slots: asyncio.Semaphore, end_ns: int | None) -> bool:
        """Wait for a slot; say whether there was one before the end of the time for which requests are sent."""
        left = None if end_ns is None else max(0.0, (end_ns - self.clock()) / NS_PER_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(left):
                await slots.acquire()
            return not self._is_over(end_ns)
        return False

    async def _wait_or_cancel(self, tasks: set[asyncio.Task[None]], end_ns: int | None) -> None:
        """Wait for the tasks; cancel what is left at a stop or after the grace period, and raise what one raised."""
        if not tasks:
            return
        timeout = None
        if end_ns is not None:
            timeout = max(0.0, (end_ns - self.clock()) / NS_PER_S + self.config.benchmark_grace_period)
        try:
            with suppress(StoppedError):
                await self.stop.unless(asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_EXCEPTION))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            # One that was cancelled before it could send has nothing to tell.
            if not task.cancelled():
                task.result()
