"""What only llama.cpp has: a log of what each request drafted, and totals where nobody asked for more."""

from __future__ import annotations

import re
import time
from collections import Counter

import pytest

from aiperf_spec.models.server_metrics import Agreement
from tests.engines.conftest import Serve
from tests.engines.llama_cpp import LLAMA_CPP
from tests.engines.runs import (
    CODE_PROMPTS,
    PROMPTS,
    assert_read_from_its_bytes,
    assert_totals_are_the_servers,
    profiled,
    summed,
)
from tests.engines.server import Engine, Server, Setup, counted

pytestmark = [pytest.mark.engine, pytest.mark.parametrize("engine", [LLAMA_CPP], indirect=True, ids=["llama_cpp"])]
DRAFTED = re.compile(r"draft acceptance = \S+ \( *(\d+) accepted / *(\d+) generated\), mean len = *([\d.]+)")


def logged(server: Server, begin: int, lines: int) -> list[tuple[int, int, str]]:
    """Return what the log says of so many requests: accepted, proposed and length. It is written with a delay."""
    deadline = time.monotonic() + 60
    while True:
        text = server.log.read_bytes()[begin:].decode(errors="replace")
        found = [(int(accepted), int(proposed), length) for accepted, proposed, length in DRAFTED.findall(text)]
        if len(found) >= lines or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


@pytest.mark.parametrize("setup", [LLAMA_CPP.setup, LLAMA_CPP.other_drafter], ids=lambda setup: setup.drafter)
async def test_records_are_what_counters_and_log_say(serve: Serve, engine: Engine, setup: Setup) -> None:
    server = serve(engine, setup)
    begin = server.log.stat().st_size
    with counted(server) as grown:
        result = await profiled(
            server, input_file=(CODE_PROMPTS, PROMPTS), request_count=40, concurrency=4, max_tokens=96
        )
    assert len(result.records) == 40
    for record in result.records:
        assert_read_from_its_bytes(server, record)
    assert grown == summed(result.records)
    assert result.reconciliation is not None
    assert result.reconciliation.agreement is Agreement.EXACT
    ones = [record.acceptance for record in result.records if record.acceptance is not None]
    ours = [(one.num_accepted_draft_tokens, one.num_draft_tokens, f"{one.mean_acceptance_length:.2f}") for one in ones]
    assert len(ones) >= 30
    assert Counter(logged(server, begin, len(ours))) == Counter(ours)


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "body"])
async def test_who_asks_for_nothing_gets_totals(server: Server, streaming: bool) -> None:
    unasked = {"timings_per_token": False}
    with counted(server) as grown:
        result = await profiled(server, input_file=PROMPTS, streaming=streaming, extra_inputs=unasked, concurrency=4)
    for record in result.records:
        assert assert_read_from_its_bytes(server, record)["drop"] == "totals_only"
    assert_totals_are_the_servers(result.records, grown)
    [notice] = [notice for notice in result.notices if notice.kind == "totals_only"]
    assert notice.values
