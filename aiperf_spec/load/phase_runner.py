"""Run a phase in this process: all of it, or one process's share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import SpecProfileError
from aiperf_spec.load.plan import plan, requests_of
from aiperf_spec.load.requester import Requester, Sink
from aiperf_spec.load.scheduler import PhaseLoad, run_phase
from aiperf_spec.load.stop import Stop
from aiperf_spec.models.run import Phase
from aiperf_spec.models.units import NS_PER_S
from aiperf_spec.workload.arrivals import arrivals
from aiperf_spec.workload.dataset import UntilFailure, Workload


@dataclass(slots=True)
class PhaseRunner:
    """Send one share of every phase's requests: conversation number n is share `n % shares`'s.

    Every process draws the same plan and the same schedule and takes its own part of them, so that the bodies, their
    indices and their times are those of a run in one process.
    """

    config: ProfileConfig
    workload: Workload
    requester: Requester
    sink: Sink
    stop: Stop
    clock: Callable[[], int]
    share: int = 0
    shares: int = 1

    async def run(self, phase: Phase, start_ns: int) -> SpecProfileError | None:
        """Run a phase that starts at `start_ns`; return why the prompts ended too early, where they did."""
        config = self.config
        count = requests_of(config, self.workload.info, phase)
        if count == 0 or self.stop.reason is not None:
            return None
        # Each phase starts at the first prompt, so that warming up does not change what is measured.
        endless = count is not None or config.benchmark_duration is not None
        prompts = UntilFailure(self.workload.ordered() if endless else self.workload.once())
        requests = islice(plan(prompts, count, phase, config.batch_size_text), self.share, None, self.shares)
        await run_phase(self.requester, requests, self._load(phase, count, start_ns), self.sink, self.stop)
        return prompts.failure

    def _load(self, phase: Phase, count: int | None, start_ns: int) -> PhaseLoad:
        config = self.config
        if phase is Phase.WARMUP:
            return PhaseLoad(self._part(config.concurrency, count), self.clock, start_ns)
        duration, rate, cap = config.benchmark_duration, config.request_rate, config.concurrency_cap
        due = None
        if rate is not None:
            number = round(rate * duration) if count is None and duration is not None else count
            every = arrivals(rate, config.arrival_pattern, config.random_seed, number)
            due = islice(every, self.share, None, self.shares)
        return PhaseLoad(
            concurrency=None if cap is None else self._part(cap, count),
            clock=self.clock,
            start_ns=start_ns,
            due=due,
            end_ns=None if duration is None else start_ns + round(duration * NS_PER_S),
            grace_s=config.benchmark_grace_period,
        )

    def _part(self, concurrency: int, count: int | None) -> int:
        # The first shares take what does not divide.
        part = concurrency // self.shares + (1 if self.share < concurrency % self.shares else 0)
        return part if count is None else min(part, count)
