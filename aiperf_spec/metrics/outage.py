"""Find the time in which a server answered nothing: a throughput says little without it."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise

from aiperf_spec.models.run import ErrorKind, RequestRecord
from aiperf_spec.models.units import NS_PER_S

_FEWEST = 3
_SHORTEST_NS = NS_PER_S
_OURS = (ErrorKind.CANCELLED, ErrorKind.WORKER_LOST)


def outages(records: Sequence[RequestRecord]) -> list[tuple[int, int]]:
    """Return the start and the end (ns) of each outage: at least 1 s in which 3 or more requests failed.

    None that succeeded was under way in that time. A request that the server refused (HTTP 4xx) is no sign of an
    outage. Empty where no request succeeded.
    """
    failures = sorted((record.end_ns, record.start_ns) for record in records if _is_sign(record))
    busy = _merged(sorted((record.start_ns, record.end_ns) for record in records if record.succeeded))
    if len(failures) < _FEWEST or not busy:
        return []
    ends = [end for end, _ in failures]
    found = []
    for (_, before), (after, _) in pairwise([(0, 0), *busy, (ends[-1], 0)]):
        within = failures[bisect_right(ends, before) : bisect_right(ends, after)]
        if len(within) < _FEWEST:
            continue
        start, end = max(before, min(start for _, start in within)), within[-1][0]
        if end - start >= _SHORTEST_NS:
            found.append((start, end))
    return found


def with_outage(values: Mapping[str, float]) -> float | None:
    """Return the duration with outages (s) of a run's values by tag; None where its own duration holds them all."""
    whole, served = values.get("duration_with_outage"), values.get("benchmark_duration")
    return None if whole is None or not served or whole < 1.01 * served else whole


def _is_sign(record: RequestRecord) -> bool:
    error = record.error
    if error is None or error.kind in _OURS:
        return False
    return error.kind is not ErrorKind.HTTP_STATUS or error.status is None or not 400 <= error.status < 500


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, end in spans:
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found
