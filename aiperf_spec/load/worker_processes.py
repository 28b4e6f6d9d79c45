"""Send a run's requests from several processes, each with an event loop of its own.

The run's own process decides what is sent when. It hands each conversation to the worker that has the fewest, and its
slot is free again when its last record is back. So where this process is late, the load slows down; no record is lost,
and none piles up. `handover_ns` says how late it was. One monotonic clock serves all processes of a machine, so that
their stamps compare.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import StoppedError, WorkerError
from aiperf_spec.load.link import Link
from aiperf_spec.load.plan import PlannedRequest
from aiperf_spec.load.requester import Sink, new_id_starts
from aiperf_spec.load.stop import Stop
from aiperf_spec.load.worker import BEAT_SECONDS
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.run import ErrorKind, Phase, RequestError, RequestRecord

_SILENT_BEATS = 10
"""A worker that misses so many beats is stuck."""
_END_SECONDS = 10.0
"""How long workers that still beat may take to end."""
_EXIT_SECONDS = 1.0
"""How long the system may take to end a process that has closed its link."""
_LEFT_TO_PARENT = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


@dataclass(slots=True)
class _Conversation:
    """What a worker was given: the turn whose record comes next, and since when it waits."""

    turn: PlannedRequest
    sink: Sink
    start_ns: int
    goes_on: asyncio.Future[bool]


@dataclass(slots=True, eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    link: Link
    ready: asyncio.Future[None]
    conversations: dict[int, _Conversation] = field(default_factory=dict)
    missed_beats: int = 0
    is_lost: bool = False


@dataclass(slots=True)
class WorkerProcesses:
    """Own the processes; an asynchronous context manager that sends as a `Requester` does.

    A worker that ends by itself, or is stuck, fails the requests that it had; the others go on. `failure` then says so.
    `lags_ns`, of the workers' event loops, and `warnings`, of their adapters, fill as workers tell them.
    """

    config: ProfileConfig
    model: str
    stop: Stop
    looks_at_answers: bool = False
    """Whether their records say what was answered."""
    failure: WorkerError | None = field(init=False, default=None)
    lags_ns: array[int] = field(init=False, default_factory=lambda: array("q"))
    handover_ns: array[int] = field(init=False, default_factory=lambda: array("q"))
    """How long after its request's end each record was taken."""
    warnings: list[str] = field(init=False, default_factory=list)
    _workers: list[_Worker] = field(init=False, default_factory=list)
    _tasks: list[asyncio.Task[None]] = field(init=False, default_factory=list)
    _id_starts: dict[Phase, str] = field(init=False, default_factory=new_id_starts)
    _handed: int = field(init=False, default=0)
    _is_ending: bool = field(init=False, default=False)

    @property
    def in_flight(self) -> int:
        """Conversations that are under way."""
        return sum(len(worker.conversations) for worker in self._workers)

    async def __aenter__(self) -> Self:
        try:
            for _ in range(min(self.config.workers, self.config.concurrency_cap or self.config.workers)):
                self._tasks.append(asyncio.create_task(self._receive(await self._start())))
            self._tasks.append(asyncio.create_task(self._miss_beats()))
            with suppress(StoppedError):
                await self.stop.unless(asyncio.wait([worker.ready for worker in self._workers]))
            if self.failure is not None:
                raise self.failure
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def _start(self) -> _Worker:
        process, end = _process(self.config.workers)
        worker = _Worker(process, await Link.over(end), asyncio.get_running_loop().create_future())
        self._workers.append(worker)
        worker.link.send(self.config, self.model, self._id_starts, self.looks_at_answers)
        return worker

    async def __aexit__(self, *_: object) -> None:
        self._is_ending = True
        for worker in self._workers:
            if worker.ready.done():
                worker.link.end()
            else:
                worker.process.kill()
        if receiving := self._tasks[: len(self._workers)]:
            await asyncio.wait(receiving, timeout=_END_SECONDS)
        for worker in self._workers:
            # What it had to say, it has said.
            worker.process.kill()
            worker.process.wait()
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        for worker in self._workers:
            await worker.link.close()
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def converse(self, first: PlannedRequest, sink: Sink, stop: Stop, end_ns: int | None) -> bool:
        """Have a worker send a conversation; see `Requester.converse`. Returns False where none is left."""
        able = [worker for worker in self._workers if not worker.is_lost]
        if not able:
            error = RequestError(ErrorKind.WORKER_LOST, "no worker process was left to send it")
            sink(self._lost_record(first, time.perf_counter_ns(), error))
            return False
        worker = min(able, key=lambda worker: len(worker.conversations))
        self._handed += 1
        number = self._handed
        goes_on: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        worker.conversations[number] = _Conversation(first, sink, time.perf_counter_ns(), goes_on)
        worker.link.send(number, first, end_ns)
        while not goes_on.done():
            try:
                await asyncio.shield(goes_on)
            except asyncio.CancelledError:
                # The worker cancels it, and its record comes back.
                worker.link.send(number, None, None)
        return goes_on.result() and stop.may_go_on()

    async def _receive(self, worker: _Worker) -> None:
        try:
            async for kind, value, more in worker.link.messages():
                worker.missed_beats = 0
                if kind == "record":
                    self._take(worker, value, more)
                elif kind == "ended":
                    if (conversation := worker.conversations.pop(value, None)) is not None:
                        conversation.goes_on.set_result(False)
                else:
                    self.lags_ns.frombytes(value)
                    self.warnings += [text for text in more if text not in self.warnings]
                    if not worker.ready.done():
                        worker.ready.set_result(None)
        finally:
            if not self._is_ending:
                self._lose(worker)

    def _take(self, worker: _Worker, number: int, record: RequestRecord) -> None:
        conversation = worker.conversations.get(number)
        if conversation is None:
            return
        self.handover_ns.append(time.perf_counter_ns() - record.end_ns)
        # One string for all requests of a prompt, and of a phase, as within a process.
        record.prompt_hash, record.id_start = sys.intern(record.prompt_hash), self._id_starts[record.phase]
        following = conversation.turn.after([]) if record.succeeded and not record.unsent_turns else None
        _hand_back(conversation, record, is_last=following is None)
        if following is None or conversation.goes_on.done():
            del worker.conversations[number]
        else:
            conversation.turn, conversation.start_ns = following, record.end_ns

    async def _miss_beats(self) -> None:
        # Counted in beats of this process, so that a time in which it was itself stopped is not the workers' silence.
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            for worker in self._workers:
                worker.missed_beats += worker.ready.done()
                if worker.missed_beats >= _SILENT_BEATS:
                    worker.process.kill()

    def _lose(self, worker: _Worker) -> None:
        worker.is_lost = True
        how = _ending(worker)
        told = f"a worker process {how}"
        if not worker.ready.done():
            worker.ready.set_result(None)
            told += " before it could send"
        elif worker.conversations:
            told += f": what it had in flight ({len(worker.conversations)}) failed as {ErrorKind.WORKER_LOST}"
        self.failure = self.failure or WorkerError(told)
        while worker.conversations:
            _, conversation = worker.conversations.popitem()
            error = RequestError(ErrorKind.WORKER_LOST, f"the worker process that sent it {how}")
            lost = self._lost_record(conversation.turn, conversation.start_ns, error)
            _hand_back(conversation, lost, is_last=True)

    def _lost_record(self, turn: PlannedRequest, start_ns: int, error: RequestError) -> RequestRecord:
        return RequestRecord(
            index=turn.index,
            phase=turn.phase,
            prompt_id=turn.prompts[0].id,
            prompt_hash=turn.content_hash,
            category=turn.category,
            start_ns=start_ns,
            end_ns=time.perf_counter_ns(),
            turn_index=turn.turn_index,
            id_start=self._id_starts[turn.phase],
            scheduled_ns=turn.scheduled_ns,
            streaming=self.config.streaming,
            drop_reason=DropReason.FAILED,
            error=error,
            unsent_turns=turn.later_turns,
        )


def _hand_back(conversation: _Conversation, record: RequestRecord, *, is_last: bool) -> None:
    """Give a record to whoever handed the conversation over."""
    try:
        conversation.sink(record)
    except Exception as error:
        # As in a run of one process, where the sender meets it.
        conversation.goes_on.set_exception(error)
    else:
        if is_last:
            conversation.goes_on.set_result(record.error is None or record.error.kind is not ErrorKind.CANCELLED)


def _process(workers: int) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a process, and return it with this end of its link; raises `WorkerError`."""
    # Modules are found where this process finds them, and not (-P) in the folder that it stands in.
    path = os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path)
    command = [sys.executable, "-P", "-m", "aiperf_spec.load.worker"]
    try:
        here, there = socket.socketpair()
        with there, _signals_held_back():
            number = there.fileno()
            process = subprocess.Popen(
                [*command, str(number)],
                stdin=subprocess.DEVNULL,
                pass_fds=[number],
                env=os.environ | {"PYTHONPATH": path},
            )
    except OSError as error:
        reason = error.strerror or str(error)
        raise WorkerError(f"--workers {workers}: a process cannot be started: {reason}", "take fewer") from None
    return process, here


@contextmanager
def _signals_held_back() -> Iterator[None]:
    # A terminal, `timeout` and others signal the whole group of processes, and the run's own process answers for all. A
    # process inherits what is blocked, from its first moment on; here, a signal of this moment is only late.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _LEFT_TO_PARENT)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ending(worker: _Worker) -> str:
    """Say how a worker ended, of which the link has ended."""
    try:
        code = worker.process.wait(_EXIT_SECONDS)
    except subprocess.TimeoutExpired:
        worker.process.kill()
        code = worker.process.wait()
    if worker.missed_beats >= _SILENT_BEATS:
        return f"gave no sign of life for {_SILENT_BEATS * BEAT_SECONDS:g} s and was ended"
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
