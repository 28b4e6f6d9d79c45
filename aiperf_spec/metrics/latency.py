"""Latencies of one request, from its moments in ns; in ms or per second."""

from aiperf_spec.models.run import RequestRecord
from aiperf_spec.models.units import NS_PER_MS, NS_PER_S


def _ms(start_ns: int | None, end_ns: int | None) -> float | None:
    return None if start_ns is None or end_ns is None else (end_ns - start_ns) / NS_PER_MS


def request_latency(record: RequestRecord) -> float | None:
    """Start to last content response, in ms; to the end of the body where it came in one piece.

    None for a response without content. Trailing usage and extension chunks are not in it.
    """
    return _ms(record.start_ns, record.last_content_ns)


def time_to_first_token(record: RequestRecord) -> float | None:
    """Start to first content response, in ms; None without streaming or content."""
    return _ms(record.start_ns, record.first_content_ns)


def content_span_ns(record: RequestRecord) -> int | None:
    """First to last content response, in ns; None without streaming, and where one read brought all of the content.

    What came in one read came in no time that was measured: a zero would make tokens infinitely fast.
    """
    first, last = record.first_content_ns, record.last_content_ns
    return None if first is None or last is None or first == last else last - first


def inter_token_latency(record: RequestRecord) -> float | None:
    """(request latency - time to first token) / (output tokens - 1), in ms.

    None below 2 tokens, and where one read brought all of them. A first chunk that bundles several tokens does not
    change the divisor, as in AIPerf.
    """
    value = _inter_token_ns(record)
    return None if value is None else value / NS_PER_MS


def output_token_throughput_per_user(record: RequestRecord) -> float | None:
    """1 / inter-token latency, in tokens a second; None where that is None."""
    value = _inter_token_ns(record)
    return NS_PER_S / value if value else None


def _inter_token_ns(record: RequestRecord) -> float | None:
    tokens, span = record.output_tokens, content_span_ns(record)
    return None if span is None or tokens is None or tokens < 2 else span / (tokens - 1)


def http_connect(record: RequestRecord) -> float | None:
    """What opening a connection took (DNS, TCP and TLS together), in ms; it is part of the time to first token.

    None where a kept-alive connection was used, and where the transport does not say, as a proxy's.
    """
    return _ms(0, record.connect_ns)


def inter_chunk_latency(record: RequestRecord) -> list[float] | None:
    """Gaps between consecutive content responses, in ms; None where there is no gap."""
    return [gap / NS_PER_MS for gap in record.chunk_gaps_ns or ()] or None


def schedule_lag(record: RequestRecord) -> float | None:
    """How late a request went out against its schedule, in ms; None in a closed loop."""
    return _ms(record.scheduled_ns, record.start_ns)


def scheduled_latency(record: RequestRecord) -> float | None:
    """Scheduled time to last content response, in ms: what a user would have waited; None in a closed loop."""
    return _ms(record.scheduled_ns, record.last_content_ns)
