"""The several clients of one run: how their clocks stand, and what each of them added."""

from collections.abc import Sequence
from dataclasses import dataclass

from aiperf_spec.config.several_clients import Share
from aiperf_spec.models.units import NS_PER_MS, NS_PER_S


@dataclass(slots=True, frozen=True, kw_only=True)
class ClockOffset:
    """How far the server's clock is ahead of this machine's, as far as its answers tell: between the two bounds.

    `correction_ms` was added to every time of the run: nothing where the clocks may agree, else the middle of the
    bounds.
    """

    least_ms: float
    greatest_ms: float
    correction_ms: float
    answers: int


@dataclass(slots=True, frozen=True)
class DatedAnswer:
    """The server's time as an answer gave it, and when that was asked and came, in ns since 1970 by this machine."""

    asked_ns: int
    came_ns: int
    date_s: int


_DATE_IS_WITHIN_NS = 2 * NS_PER_S
"""How old a `Date` may be: it leaves out the fraction of its second, and uvicorn and hyper make it once a second."""


def clock_offset(answers: Sequence[DatedAnswer]) -> ClockOffset | None:
    """Return what answers say together of the server's clock; None without any, or where they contradict each other."""
    if not answers:
        return None
    least = max(each.date_s * NS_PER_S - each.came_ns for each in answers)
    greatest = min(each.date_s * NS_PER_S + _DATE_IS_WITHIN_NS - each.asked_ns for each in answers)
    if least > greatest:
        return None
    correction = 0 if least <= 0 <= greatest else (least + greatest) // 2
    bounds = {"least_ms": least / NS_PER_MS, "greatest_ms": greatest / NS_PER_MS}
    return ClockOffset(**bounds, correction_ms=correction / NS_PER_MS, answers=len(answers))


@dataclass(slots=True, frozen=True)
class Client:
    """One client of a pooled run: its successful profiled requests, from the first start to the last end.

    The times are None where there is no such request.
    """

    name: str
    share: Share | None
    requests: int
    start_ns: int | None
    end_ns: int | None
    clock: ClockOffset | None = None


@dataclass(slots=True, frozen=True)
class Clients:
    """The clients whose runs were made one."""

    each: tuple[Client, ...]

    @property
    def missing(self) -> list[Share]:
        """The shares that no client has; none where the clients have no shares at all."""
        known = {client.share for client in self.each if client.share is not None}
        if not known:
            return []
        count = next(iter(known)).count
        return [share for index in range(count) if (share := Share(index, count)) not in known]

    @property
    def start_spread_s(self) -> float | None:
        """Seconds between the first starts of the first client and of the last; None where nothing was measured."""
        starts = [client.start_ns for client in self.each if client.start_ns is not None]
        return (max(starts) - min(starts)) / NS_PER_S if starts else None

    @property
    def whole_s(self) -> float | None:
        """Seconds from the first start to the last end; None where nothing was measured."""
        starts, ends = self._bounds()
        return (max(ends) - min(starts)) / NS_PER_S if starts else None

    @property
    def common_s(self) -> float | None:
        """Seconds for which all clients were under way, 0 where there was no such time; None as `whole_s`."""
        starts, ends = self._bounds()
        return max(0, min(ends) - max(starts)) / NS_PER_S if starts else None

    def _bounds(self) -> tuple[list[int], list[int]]:
        starts = [client.start_ns for client in self.each if client.start_ns is not None]
        return starts, [client.end_ns for client in self.each if client.end_ns is not None]
