"""What the draft lengths between 0 and the largest would give, predicted from these two: fewer cells to measure.

Acceptance comes from the what-if over the steps of the largest k, at each load by itself. The time of a verify step is
taken to grow in a straight line with k, from that of a step without a draft to that of the largest k. Steps without a
draft stay as many as they were: an n-gram drafter finds none where the text has no match, whatever k is. In units of
the time of a step without a draft, speed-up(k') = tokens(k') / (verify steps(k') * time(k') + steps without a draft),
and time(k) of the largest k is what makes this its measured speed-up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.positions import drafting, tally_all
from aiperf_spec.analysis.step_replay import Replays
from aiperf_spec.analysis.sweep.contrasts import Contrasts
from aiperf_spec.analysis.sweep.points import PointRuns
from aiperf_spec.analysis.whatif import refusal
from aiperf_spec.models.decoding import decoding
from aiperf_spec.models.run import RequestRecord
from aiperf_spec.models.sweep import Load

_NEARLY = 0.95


@dataclass(slots=True, frozen=True)
class Prediction:
    """The speed-up over k = 0 that was predicted for a draft length at a load, and what was measured, if it was."""

    load: Load
    k: int
    predicted: float
    measured: float | None

    @property
    def error(self) -> float | None:
        """Predicted / measured - 1."""
        return self.predicted / self.measured - 1 if self.measured else None


@dataclass(slots=True, frozen=True)
class Economy:
    """The predictions of a sweep; `refused` says for a load why there are none.

    `winners` are, of each load, the draft length with the largest predicted speed-up, where it is not yet measured, and
    within 5 % of what was measured, or above.
    """

    predictions: tuple[Prediction, ...]
    refused: Mapping[Load, Missing]
    winners: tuple[tuple[Load, int], ...]

    @property
    def errors(self) -> list[float]:
        """The absolute errors of what was measured as well, in ascending order."""
        return sorted(abs(each.error) for each in self.predictions if each.error is not None)


def economy(
    points: Mapping[tuple[Load, int | None], PointRuns],
    found: Contrasts,
    lengths: Sequence[int],
    *,
    assume_chain: bool = False,
) -> Economy:
    """Return the predictions for each of `lengths` between 0 and the largest, at every load that has these two."""
    longest = max(lengths, default=0)
    predictions: list[Prediction] = []
    refused: dict[Load, Missing] = {}
    winners: list[tuple[Load, int]] = []
    for load in sorted({load for load, _ in points}):
        contrast = found.of(load, longest, 0)
        if contrast is None or contrast.speed_up.value is None:
            refused[load] = Missing.NO_COMMON_PROMPT
            continue
        at_longest = contrast.speed_up.value
        modelled = _modelled(points[load, longest].all_records, longest, at_longest, assume_chain=assume_chain)
        if isinstance(modelled, Missing):
            refused[load] = modelled
            continue
        speeds = {0: 1.0, longest: at_longest}
        for k in sorted(set(lengths) - {0, longest}):
            if (predicted := modelled.get(k)) is None:
                continue
            known = found.of(load, k, 0)
            predictions.append(Prediction(load, k, predicted, None if known is None else known.speed_up.value))
            speeds[k] = predicted
        # One that is predicted to be nearly as fast as the fastest may be faster.
        open_ones = {k: speed for k, speed in speeds.items() if k not in (0, longest)}
        best = max(open_ones, key=lambda k: (open_ones[k], -k), default=0)
        if best and speeds[best] >= _NEARLY * max(speeds.values()) and (load, best) not in points:
            winners.append((load, best))
    return Economy(tuple(predictions), refused, tuple(winners))


def _modelled(
    records: Sequence[RequestRecord], longest: int, at_longest: float, *, assume_chain: bool
) -> dict[int, float] | Missing:
    """Return the speed-up of each shorter k, or why no shorter draft can be modelled."""
    reports = [report for record in records if (report := record.acceptance) and report.num_spec_steps]
    if not reports:
        return Missing.NO_RECORDS
    known = drafting(reports, assume_chain=assume_chain)
    tallies = tally_all(records, known)
    if (reason := refusal(records, known, tallies, assume_chain=assume_chain)) is not None:
        return reason
    if len(tallies.reached) != longest:
        return Missing.DRAFT_LENGTH_UNKNOWN
    model = Replays(records, tallies)
    alone = sum(found.undrafted_steps for record in records if (found := decoding(record)) is not None)

    def replayed(k: int) -> tuple[float, float]:
        # Drafts that ended short of the largest k, such as those of an n-gram drafter, still do.
        terms = model.at(k, short_stay=not known.full).values()
        return sum(tokens for tokens, _ in terms), sum(steps for _, steps in terms)

    tokens, steps = replayed(longest)
    time = ((tokens + alone) / at_longest - alone) / steps
    speeds = {}
    for k in range(1, longest):
        if not sum(tallies.at_risk[k - 1]) and all(model.chances.by_position[: k - 1]):
            break
        tokens, steps = replayed(k)
        spent = steps * (1 + (time - 1) * k / longest) + alone
        if spent > 0:
            speeds[k] = (tokens + alone) / spent
    return speeds
