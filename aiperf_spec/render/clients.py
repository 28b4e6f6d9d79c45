"""Say what the clients of a pooled run added, and how their clocks stand."""

from collections.abc import Iterator, Sequence

from aiperf_spec.models.clients import Client, Clients, ClockOffset
from aiperf_spec.render.text import count, number, plural, printable

_LISTED = 8


def client_rows(clients: Clients) -> Iterator[tuple[str, str]]:
    """Yield the rows (name, text) that stand in the head of a pooled run."""
    yield "Clients", f"{plural(len(clients.each), 'client')} as one run{_shares(clients)}, {_requests(clients.each)}"
    if clients.start_spread_s is not None:
        together = f"all under way for {number(clients.common_s)} of {number(clients.whole_s)} s"
        yield "Together", f"first requests within {number(clients.start_spread_s)} s, {together}"
    if clocks := [(client.name, client.clock) for client in clients.each if client.clock is not None]:
        yield "Clocks", _clocks(clocks, len(clients.each))


def _shares(clients: Clients) -> str:
    if (first := clients.each[0].share) is None:
        return ""
    missing = len(clients.missing)
    return f", {plural(missing, 'share')} of {first.count} missing" if missing else f", all shares of {first.count}"


def _requests(each: Sequence[Client]) -> str:
    counts = [client.requests for client in each]
    if len(counts) > _LISTED:
        return f"{count(sum(counts))} requests, {count(min(counts))} to {count(max(counts))} each"
    return f"{' + '.join(map(count, counts))} = {plural(sum(counts), 'request')}"


def _clocks(clocks: Sequence[tuple[str, ClockOffset]], clients: int) -> str:
    within = max(clock.greatest_ms - clock.least_ms for _, clock in clocks) / 1000
    known = "known" if len(clocks) == clients else f"known of {len(clocks)} of {clients}"
    text = f"{known} to within {number(within)} s by the dates of the server's answers, "
    corrected = [(name, clock.correction_ms / 1000) for name, clock in clocks if clock.correction_ms]
    if not corrected:
        return text + "where none differs from its clock"
    shown = ", ".join(f"{printable(name, 40)} by {seconds:+,.1f} s" for name, seconds in corrected[:_LISTED])
    more = f" and {len(corrected) - _LISTED} more" if len(corrected) > _LISTED else ""
    return f"{text}and corrected: {shown}{more}"
