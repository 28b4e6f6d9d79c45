"""Run phases in several processes, each with an event loop of its own, and merge their records as one run's.

One monotonic clock serves all processes of a machine, so that their stamps compare. The parent draws nothing and sends
nothing: it starts phases, takes records and passes a stop on.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import sys
import threading
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Self

from aiperf_spec.adapters.registry import load_registry
from aiperf_spec.client.client import Client
from aiperf_spec.config.redaction import Redactor
from aiperf_spec.config.server_url import split_endpoint
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import ServerUnavailableError, SpecProfileError
from aiperf_spec.load.event_loop import monitored_loop_lag, run_in_loop
from aiperf_spec.load.requester import Requester, Sink
from aiperf_spec.load.scheduler import PhaseRunner
from aiperf_spec.load.stop import Stop
from aiperf_spec.load.tokenizer import load_counter
from aiperf_spec.models.run import Phase
from aiperf_spec.models.units import NS_PER_S
from aiperf_spec.workload.dataset import open_workload

_END_SECONDS = 1.0
"""How long a process that was told to end may take before it is ended."""
_HEADSTART_NS = 20_000_000
"""How far ahead a phase's start is set, so that every process is there in time."""


@dataclass(slots=True)
class WorkerProcesses:
    """Own the processes; an asynchronous context manager. `lags_ns` and `warnings` fill as processes end."""

    config: ProfileConfig
    model: str
    sink: Sink
    stop: Stop
    lags_ns: array[int] = field(init=False, default_factory=lambda: array("q"))
    warnings: list[str] = field(init=False, default_factory=list)
    _processes: dict[Connection, BaseProcess] = field(init=False, default_factory=dict)
    _busy: dict[Connection, asyncio.Future[SpecProfileError | None]] = field(init=False, default_factory=dict)
    _stopper: asyncio.Task[None] | None = field(init=False, default=None)

    async def __aenter__(self) -> Self:
        # A share without a slot would hold requests back for ever.
        shares = min(self.config.workers, self.config.concurrency_cap or self.config.workers)
        context = multiprocessing.get_context("spawn")
        with _interrupts_ignored():
            for share in range(shares):
                here, there = context.Pipe()
                arguments = (there, self.config, self.model, share, shares)
                process = context.Process(target=_work, args=arguments, name=f"spec-profile-{share}", daemon=True)
                process.start()
                there.close()
                self._processes[here] = process
        loop = asyncio.get_running_loop()
        for link in self._processes:
            self._busy[link] = loop.create_future()
            loop.add_reader(link.fileno(), self._receive, link)
        self._stopper = asyncio.create_task(self._pass_stop_on())
        await self._all_done()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._stopper is not None:
            self._stopper.cancel()
            await asyncio.gather(self._stopper, return_exceptions=True)
        for link, idle in self._busy.items():
            if idle.done() and not link.closed:
                self._set_to_work(link, "end")
        waiting = [future for future in self._busy.values() if not future.done()]
        if waiting:
            await asyncio.wait(waiting, timeout=_END_SECONDS)
        for link, process in self._processes.items():
            self._drop(link)
            process.join(timeout=_END_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()

    async def run(self, phase: Phase, start_ns: int) -> SpecProfileError | None:
        """Run a phase in all processes; see `PhaseRunner.run`."""
        for link in self._processes:
            self._set_to_work(link, "run", phase, start_ns + _HEADSTART_NS)
        return await self._all_done()

    def _set_to_work(self, link: Connection, *message: Any) -> None:
        self._busy[link] = asyncio.get_running_loop().create_future()
        self._tell(link, message)

    async def _all_done(self) -> SpecProfileError | None:
        failures = await asyncio.gather(*self._busy.values())
        return next((failure for failure in failures if failure is not None), None)

    def _tell(self, link: Connection, message: tuple[Any, ...]) -> None:
        try:
            link.send(message)
        except OSError:
            self._lose(link)

    async def _pass_stop_on(self) -> None:
        await self.stop.wait()
        for link in self._processes:
            if not link.closed:
                self._tell(link, ("stop", self.stop.reason))

    def _receive(self, link: Connection) -> None:
        try:
            while link.poll():
                kind, value = link.recv()
                if kind == "record":
                    # One string for all requests of a prompt, as within a process.
                    value.prompt_hash = sys.intern(value.prompt_hash)
                    self.sink(value)
                elif kind == "done":
                    self._settle(link, value)
                else:
                    warnings, lags = value
                    self.warnings += [text for text in warnings if text not in self.warnings]
                    self.lags_ns.frombytes(lags)
                    self._settle(link, None)
        except (EOFError, OSError):
            self._lose(link)

    def _settle(self, link: Connection, failure: SpecProfileError | None) -> None:
        if not self._busy[link].done():
            self._busy[link].set_result(failure)

    def _lose(self, link: Connection) -> None:
        lost = ServerUnavailableError("a worker process ended by itself; its requests in flight are lost", None)
        self._settle(link, lost)
        self._drop(link)

    def _drop(self, link: Connection) -> None:
        if not link.closed:
            asyncio.get_running_loop().remove_reader(link.fileno())
            link.close()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    # A terminal sends Ctrl-C to every process; the parent alone is to answer it, from a child's first moment on.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _work(link: Connection, config: ProfileConfig, model: str, share: int, shares: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run_in_loop(_serve(link, config, model, share, shares))


async def _serve(link: Connection, config: ProfileConfig, model: str, share: int, shares: int) -> None:
    messages: asyncio.Queue[tuple[Any, ...]] = asyncio.Queue()
    stop = Stop()
    loop = asyncio.get_running_loop()
    loop.add_reader(link.fileno(), _listen, link, messages, stop, loop)
    registry, server, clock = load_registry(), split_endpoint(config.url), time.perf_counter_ns

    def send(kind: str, value: Any) -> None:
        try:
            link.send((kind, value))
        except OSError:
            # The parent is gone: nobody is left to tell.
            raise SystemExit(1) from None

    async with Client(config, server) as client, monitored_loop_lag(clock) as lags_ns:
        counter = None if config.tokenizer is None else load_counter(config.tokenizer)
        requester = Requester(config, model, client, registry, Redactor(config, server), counter)
        sink = partial(send, "record")
        phase_runner = PhaseRunner(config, open_workload(config), requester, sink, stop, clock, share, shares)
        send("done", None)
        while True:
            kind, *rest = await messages.get()
            if kind == "end":
                break
            phase, start_ns = rest
            await asyncio.sleep(max(0, start_ns - clock()) / NS_PER_S)
            send("done", await phase_runner.run(phase, start_ns))
        send("ended", (registry.warnings, lags_ns.tobytes()))
    loop.remove_reader(link.fileno())


def _listen(
    link: Connection, messages: asyncio.Queue[tuple[Any, ...]], stop: Stop, loop: asyncio.AbstractEventLoop
) -> None:
    try:
        while link.poll():
            message = link.recv()
            if message[0] == "stop":
                stop.request(message[1] or "a stop")
            else:
                messages.put_nowait(message)
    except (EOFError, OSError):
        loop.remove_reader(link.fileno())
        stop.request("the parent's end")
        messages.put_nowait(("end",))
