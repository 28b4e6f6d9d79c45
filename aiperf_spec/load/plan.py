"""What a phase sends: one planned request a conversation's turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.models.response import ParsedResponse
from aiperf_spec.models.run import DatasetInfo, Phase
from aiperf_spec.models.units import NS_PER_MS
from aiperf_spec.wire.outcome import answer_message
from aiperf_spec.workload.dataset import UntilFailure, Workload
from aiperf_spec.workload.prompts import Prompt, hashed


@dataclass(slots=True, frozen=True)
class PlannedRequest:
    """One request to be sent; several prompts make one batch on completions.

    Where its prompt has later turns, the request is followed by another of its conversation: `after` gives it.
    """

    index: int
    phase: Phase
    prompts: tuple[Prompt, ...]
    turn_index: int = 0
    scheduled_ns: int | None = None
    """When it was due, by the monotonic clock; None in a closed loop, and for a later turn that has no time."""
    trace_start_ns: int | None = None
    """When the trace of `--fixed-schedule` began."""

    @property
    def content_hash(self) -> str:
        """The hash of what it asks, in whatever turn."""
        hashes = [prompt.content_hash for prompt in self.prompts]
        return hashes[0] if len(hashes) == 1 else hashed(" ".join(hashes).encode())

    @property
    def later_turns(self) -> int:
        """How many requests its conversation has left after this one."""
        return len(self.prompts[0].later)

    def follows_at_ns(self, answered_ns: int) -> int:
        """Return when the conversation's next turn is to be sent: after the user's pause, or at a time of its own."""
        settings = self.prompts[0].later_settings
        if not self.later_turns or not settings:
            return answered_ns
        due_ns = _due_ns(self.trace_start_ns, settings[0].due_ms)
        return answered_ns + round(settings[0].delay_ms * NS_PER_MS) if due_ns is None else max(answered_ns, due_ns)

    @property
    def category(self) -> str | None:
        """The category of its prompts; None where they have none, or several."""
        categories = {prompt.category for prompt in self.prompts}
        return categories.pop() if len(categories) == 1 else None

    def after(self, responses: list[ParsedResponse]) -> PlannedRequest | None:
        """Return the conversation's next request, which carries what was answered; None after the last turn."""
        if not self.later_turns:
            return None
        prompt = self.prompts[0].after(answer_message(responses))
        start_ns = self.trace_start_ns
        due_ns = _due_ns(start_ns, prompt.due_ms)
        return PlannedRequest(self.index + 1, self.phase, (prompt,), self.turn_index + 1, due_ns, start_ns)

    def due_in_trace(self, start_ns: int) -> PlannedRequest:
        """Return the request as part of a trace that begins at `start_ns`."""
        due_ns = _due_ns(start_ns, self.prompts[0].due_ms)
        return replace(self, scheduled_ns=due_ns, trace_start_ns=start_ns)


def _due_ns(start_ns: int | None, due_ms: float | None) -> int | None:
    return None if start_ns is None or due_ms is None else start_ns + round(due_ms * NS_PER_MS)


def plan(prompts: Iterator[Prompt], count: int | None, phase: Phase, batch_size: int) -> Iterator[PlannedRequest]:
    """Yield the first requests of a phase's conversations, taking `batch_size` prompts for each.

    Every turn counts as a request and has an index of its own; a conversation that would exceed `count` is cut there.
    Without a count, prompts are sent until there are none.
    """
    index = 0
    while count is None or index < count:
        batch = tuple(islice(prompts, batch_size))
        if not batch:
            return
        request = PlannedRequest(index, phase, batch)
        if request.later_turns and count is not None:
            request = replace(request, prompts=(batch[0].cut(count - index - 1),))
        yield request
        index += 1 + request.later_turns


def planned(config: ProfileConfig, workload: Workload, phase: Phase) -> tuple[Iterator[PlannedRequest], UntilFailure]:
    """Return the first requests of a phase's conversations that this client sends, and the prompts they are made from.

    Each phase starts at the first prompt, so that warming up does not change what is measured. With `--share`, indexes
    are those of the run of all clients.
    """
    count = requests_of(config, workload.info, phase)
    once = config.fixed_schedule and phase is Phase.PROFILING
    endless = not once and (count is not None or config.benchmark_duration is not None)
    prompts = UntilFailure(workload.ordered() if endless else workload.once())
    return config.client_share.of(plan(prompts, count, phase, config.batch_size_text)), prompts


def own_requests_of(config: ProfileConfig, dataset: DatasetInfo, phase: Phase) -> int | None:
    """Return how many of a phase's requests this client sends; None where its prompts, or its duration, decide."""
    total = requests_of(config, dataset, phase)
    if total is None or config.share is None:
        return total
    # Clients share out conversations, which differ in length.
    return None if dataset.has_conversations else config.client_share.number_of(total)


def requests_of(config: ProfileConfig, dataset: DatasetInfo, phase: Phase) -> int | None:
    """Return how many requests a phase of all clients has; None where its prompts, or its duration, decide."""
    if phase is Phase.WARMUP:
        return config.warmup_request_count
    if config.request_count is not None or config.benchmark_duration is not None:
        return config.request_count
    return None if dataset.turns is None else -(-dataset.turns // config.batch_size_text)
