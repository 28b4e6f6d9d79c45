"""Records made by hand."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import pairwise

from aiperf_spec.models.acceptance import DropReason, SpecDecodeAcceptanceRecord
from aiperf_spec.models.run import ErrorKind, Phase, RequestError, RequestRecord

MS = 1_000_000


def acceptance(histogram: Mapping[int, int], proposed: int | None = None) -> SpecDecodeAcceptanceRecord:
    """Return a record with this histogram; every step proposed 5 unless `proposed` gives the total."""
    steps = sum(histogram.values())
    accepted = sum(bucket * count for bucket, count in histogram.items())
    drafts = 5 * steps if proposed is None else proposed
    return SpecDecodeAcceptanceRecord(
        engine="vllm",
        mean_acceptance_length=1 + accepted / steps,
        draft_acceptance_rate=accepted / drafts if drafts else 0.0,
        acceptance_histogram=dict(histogram),
        num_accepted_draft_tokens=accepted,
        num_draft_tokens=drafts,
        num_spec_steps=steps,
        num_spec_tokens=5 if proposed is None else None,
    )


def record(
    index: int,
    *,
    start: int,
    contents: Sequence[int],
    tokens: int | None,
    histogram: Mapping[int, int] | None = None,
    proposed: int | None = None,
    reason: DropReason | None = None,
    category: str | None = None,
    phase: Phase = Phase.PROFILING,
) -> RequestRecord:
    """Return a streamed success: `start` and the content arrivals are in ms."""
    stamps = [(start + content) * MS for content in contents]
    return RequestRecord(
        index=index,
        phase=phase,
        prompt_id=f"prompt-{index}",
        category=category,
        id_start="00000000-0000-4000-8000-",
        start_ns=start * MS,
        ack_ns=start * MS,
        end_ns=stamps[-1] + MS,
        first_content_ns=stamps[0],
        last_content_ns=stamps[-1],
        chunk_gaps_ns=array("q", (later - earlier for earlier, later in pairwise(stamps))),
        input_tokens=None if tokens is None else 7,
        output_tokens=tokens,
        status=200,
        acceptance=None if histogram is None else acceptance(histogram, proposed),
        drop_reason=reason,
    )


def failed(index: int, kind: ErrorKind, *, status: int | None = None, message: str = "no") -> RequestRecord:
    """Return a failed request."""
    return RequestRecord(
        index=index,
        phase=Phase.PROFILING,
        prompt_id=f"prompt-{index}",
        category=None,
        start_ns=0,
        end_ns=MS,
        drop_reason=DropReason.FAILED,
        error=RequestError(kind, message, status),
        status=status,
    )
