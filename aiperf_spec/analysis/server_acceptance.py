"""Acceptance by the server's own counters: of all its traffic over a run's interval, whoever sent it."""

from dataclasses import dataclass

from aiperf_spec.analysis.missing import Missing
from aiperf_spec.models.server_metrics import Agreement, CountName, Reconciliation


@dataclass(slots=True, frozen=True)
class ServerAcceptance:
    """What the server counted over the interval: `proposed` and `accepted` are draft tokens.

    `reached` says how many verify steps accepted at least 1, 2, ... draft tokens; empty where the server does not count
    that, or not in agreement with `accepted`.
    """

    steps: int
    proposed: int
    accepted: int
    reached: tuple[int, ...] = ()

    @property
    def length(self) -> float:
        """Return the acceptance length, 1 + accepted / steps."""
        return 1 + self.accepted / self.steps

    @property
    def rate(self) -> float | None:
        """Return the draft acceptance rate, accepted / proposed, in percent; None where nothing was proposed."""
        return 100 * self.accepted / self.proposed if self.proposed else None

    @property
    def positions(self) -> tuple[float, ...]:
        """Return the unconditional acceptance of each position: the share of verify steps that accepted so many."""
        return tuple(steps / self.steps for steps in self.reached)


def server_acceptance(reconciliation: Reconciliation | None) -> ServerAcceptance | Missing:
    """Return what the counters say, or why they say nothing that can be shown.

    Counters that fell, or are no numbers, give no figure: the server was restarted, or replicas answer in turn.
    """
    if reconciliation is None:
        return Missing.NO_COUNTERS
    if reconciliation.agreement is Agreement.RESET:
        return Missing.COUNTERS_RESET
    grown = {count.name: count.server for count in reconciliation.counts}
    steps, proposed, accepted = (
        grown.get(name) for name in (CountName.VERIFY_STEPS, CountName.PROPOSED, CountName.ACCEPTED)
    )
    if reconciliation.agreement is Agreement.NO_NUMBER:
        return Missing.COUNTERS_NO_NUMBER
    if steps is None or proposed is None or accepted is None:
        return Missing.DRAFTS_NOT_COUNTED
    if not steps:
        return Missing.NO_STEPS_COUNTED
    if min(steps, proposed, accepted) < 0 or accepted > proposed:
        return Missing.COUNTERS_CONTRADICT
    reached: list[int] = []
    while (at_least := grown.get(CountName.at_position(len(reached) + 1))) is not None:
        reached.append(at_least)
    return ServerAcceptance(steps, proposed, accepted, tuple(reached) if sum(reached) == accepted else ())


def exact_length(reconciliation: Reconciliation | None) -> float | None:
    """Return the acceptance length of a run whose requests reported drafts and no verify steps.

    The server's count of steps is the requests' own where both count the same drafts; None where they do not.
    """
    found = server_acceptance(reconciliation)
    if reconciliation is None or not isinstance(found, ServerAcceptance) or reconciliation.steps.requests is not None:
        return None
    return found.length if reconciliation.agreement is Agreement.EXACT else None
