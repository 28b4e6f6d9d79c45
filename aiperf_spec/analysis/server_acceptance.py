"""Acceptance by the server's own counters: of all its traffic over a run's interval, whoever sent it."""

from __future__ import annotations

from dataclasses import dataclass

from aiperf_spec.analysis.missing import Missing
from aiperf_spec.models.server_metrics import Agreement, CountName, Reconciliation


@dataclass(slots=True, frozen=True)
class ServerAcceptance:
    """What the server counted over the interval: `proposed` and `accepted` are draft tokens.

    `proposed` is None where the server does not count it. Where it does not count the accepted ones either, they follow
    from tokens, and lie between `least` and `accepted`; `least` is None where they are exact. `reached` says how many
    verify steps accepted at least 1, 2, ... draft tokens; empty where the server does not count that, or not in
    agreement with `accepted`.
    """

    steps: int
    proposed: int | None
    accepted: int
    reached: tuple[int, ...] = ()
    least: int | None = None

    @property
    def length(self) -> float:
        """Return the acceptance length, 1 + accepted / steps; the greatest one where the counters allow several."""
        return 1 + self.accepted / self.steps

    @property
    def least_length(self) -> float:
        """Return the smallest acceptance length that the counters allow."""
        return self.length if self.least is None else 1 + self.least / self.steps

    def with_other(self, other: ServerAcceptance) -> ServerAcceptance:
        """Return what two servers, or two runs, counted together; positions are left out."""
        exact = self.is_exact and other.is_exact
        least = sum(each.accepted if each.least is None else each.least for each in (self, other))
        proposed = None if self.proposed is None or other.proposed is None else self.proposed + other.proposed
        accepted = self.accepted + other.accepted
        return ServerAcceptance(self.steps + other.steps, proposed, accepted, least=None if exact else least)

    @property
    def is_exact(self) -> bool:
        """Whether the counters leave one length only."""
        return self.least is None

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
    bounds = reconciliation.accepted_bounds
    if steps is not None and bounds is not None:
        return by_tokens(steps, bounds)
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


def accepted_by_tokens(
    bonus: int, emitted: int, *, completion: int | None, finished: int | None, exact: bool
) -> tuple[int, int] | None:
    """Return the bounds of the accepted draft tokens: all that steps emitted, less the `bonus` ones, and no more.

    That is exact where `exact` says that each step counted was one of a finished request, and counted once. Else it is
    the greatest number; the tokens of finished requests give the least, for one a request came before all steps, and
    those beyond a limit or a stop string were cut off. None where they are not known.
    """
    if exact:
        return emitted - bonus, emitted - bonus
    if completion is None or finished is None:
        return None
    return max(completion - finished - bonus, 0), emitted - bonus


def by_tokens(steps: int, bounds: tuple[int, int]) -> ServerAcceptance | Missing:
    """Return acceptance of so many steps that accepted between so many draft tokens, or why there is none."""
    least, most = bounds
    if not steps:
        return Missing.NO_STEPS_COUNTED
    if not 0 <= least <= most:
        return Missing.COUNTERS_CONTRADICT
    return ServerAcceptance(steps, None, most, least=None if least == most else least)


def exact_length(reconciliation: Reconciliation | None) -> float | None:
    """Return the acceptance length of a run whose requests reported drafts and no verify steps.

    The server's count of steps is the requests' own where both count the same drafts; None where they do not.
    """
    found = server_acceptance(reconciliation)
    if reconciliation is None or not isinstance(found, ServerAcceptance) or reconciliation.steps.requests is not None:
        return None
    return found.length if reconciliation.agreement is Agreement.EXACT else None
