"""How much of the prompts the server had in its prefix cache."""

from collections.abc import Iterable

from aiperf_spec.models.prompt_sums import prompt_key
from aiperf_spec.models.run import Phase, RequestRecord

APART = 0.1
"""The difference of two shares from which on times to first token do not compare."""


def cached_share(records: Iterable[RequestRecord]) -> float | None:
    """Return the share of prompt tokens that came from the cache, by usage; None where it says nothing of that."""
    known = [(cached, r.usage) for r in records if (cached := r.cached_tokens) is not None]
    asked = sum(usage.prompt_tokens or 0 for _, usage in known if usage is not None)
    return sum(cached for cached, _ in known) / asked if asked else None


def firsts_and_repeats(records: Iterable[RequestRecord]) -> tuple[list[RequestRecord], list[RequestRecord]]:
    """Return the profiled records that were the first to send their prompt, and those that sent it again.

    What warmed up has sent its prompts too. The turns of a conversation are no repeats of each other.
    """
    sent: set[tuple[str, int]] = set()
    sides: tuple[list[RequestRecord], list[RequestRecord]] = ([], [])
    for record in sorted(records, key=lambda record: record.start_ns):
        key = prompt_key(record.prompt_hash, record.prompt_id, record.index), record.turn_index
        if record.phase is Phase.PROFILING:
            sides[key in sent].append(record)
        sent.add(key)
    return sides
