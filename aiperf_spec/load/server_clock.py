"""Find out how far the server's clock is from this machine's, by the dates of its answers."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime

from aiperf_spec.client.client import Client
from aiperf_spec.config.server_url import Server
from aiperf_spec.models.clients import ClockOffset, DatedAnswer, clock_offset

_ANSWERS = 5
_BETWEEN_SECONDS = 0.25
"""Answers at several places within a second tell more than one: the second of a date is whole."""


async def read_clock(server: Server, client: Client, wall: Callable[[], int] = time.time_ns) -> ClockOffset | None:
    """Ask for the list of models a few times, about a second in all; return what the dates of the answers tell.

    None where answers have no date (RFC 9110, 6.6.1), or come from a cache.
    """
    answers = []
    for number in range(_ANSWERS):
        if number:
            await asyncio.sleep(_BETWEEN_SECONDS)
        asked_ns = wall()
        page = await client.get(server.models)
        came_ns = wall()
        if page is None or "age" in page.headers:
            return None
        try:
            date = parsedate_to_datetime(page.headers.get("date", ""))
        except ValueError:
            return None
        date = date if date.tzinfo else date.replace(tzinfo=UTC)  # RFC 5322's -0000
        answers.append(DatedAnswer(asked_ns, came_ns, round(date.timestamp())))
    return clock_offset(answers)
