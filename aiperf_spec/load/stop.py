"""End a run early."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from aiperf_spec.errors import SpecProfileError, StoppedError
from aiperf_spec.load.event_loop import running

T = TypeVar("T")


class Stop:
    """Ask a run to end early; made within the run's event loop."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.failure: SpecProfileError | None = None
        """Why the run gave itself up, where that and no signal is the reason."""
        self._event = asyncio.Event()

    def request(self, reason: str) -> None:
        """Stop sending and cancel what is in flight; the first reason is kept."""
        self.reason = self.reason or reason
        self._event.set()

    def give_up(self, failure: SpecProfileError) -> None:
        """Stop as `request` does because the run is failing, unless it is stopped already."""
        if self.reason is None:
            self.failure = failure
            self.request("failure")

    @property
    def signal(self) -> str | None:
        """Return the name of the signal that stopped the run, if one did."""
        return self.reason if self.failure is None else None

    async def unless(self, work: Coroutine[Any, Any, T], patience_seconds: float = 0.0) -> T:
        """Return what the work returns; raise `StoppedError` where it does not before, or soon after, a stop."""
        async with running(work) as task, running(self.wait()) as stopper:
            await asyncio.wait({task, stopper}, return_when=asyncio.FIRST_COMPLETED)
            if patience_seconds:
                await asyncio.wait({task}, timeout=patience_seconds)
            # What a user could mend is no news to one who stopped it.
            if not task.done() or (self.reason is not None and isinstance(task.exception(), SpecProfileError)):
                raise StoppedError(self.reason or "a stop")
            return task.result()

    async def wait(self) -> None:
        """Return once a stop was requested."""
        await self._event.wait()

    def may_go_on(self) -> bool:
        """Say whether the calling task may send another request: no stop was requested, and nobody cancelled it."""
        task = asyncio.current_task()
        return self.reason is None and (task is None or not task.cancelling())
