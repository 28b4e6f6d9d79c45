"""What a run put out over time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from aiperf_spec.models.run import RequestRecord
from aiperf_spec.models.units import NS_PER_S


def output_rates(records: Sequence[RequestRecord], parts: int) -> list[tuple[float, float]]:
    """Return (seconds from the first start to the middle of a part, output tokens a second) by equal parts of the run.

    A request's tokens count evenly from its first content to its last; from its start where one read brought all of
    them. Requests that failed or whose tokens are not known are left out; without any, and without time, it is empty.
    """
    spans = [
        (record.start_ns, record.first_content_ns, record.last_content_ns or record.end_ns, record.output_tokens)
        for record in records
        if record.succeeded and record.output_tokens
    ]
    start, stop = min((span[0] for span in spans), default=0), max((span[2] for span in spans), default=0)
    if stop <= start:
        return []
    width = (stop - start) / parts
    own = [0.0] * parts
    steps = [0.0] * (parts + 1)  # what parts that are wholly within a span get more than the part before them
    for sent, first, last, tokens in spans:
        begin = sent if first is None or first >= last else first
        i, j = (min(int((at - start) / width), parts - 1) for at in (begin, last))
        if i == j or begin >= last:
            own[j] += tokens
            continue
        each = tokens / (last - begin)
        own[i] += each * (start + (i + 1) * width - begin)
        own[j] += each * (last - start - j * width)
        steps[i + 1] += each * width
        steps[j] -= each * width
    sums = (mine + more for mine, more in zip(own, accumulate(steps[:parts]), strict=True))
    seconds = width / NS_PER_S
    return [((i + 0.5) * seconds, tokens / seconds) for i, tokens in enumerate(sums)]
