"""The sum of many records under each drafter of every engine, against the server's own counters."""

from __future__ import annotations

import pytest

from aiperf_spec.models.server_metrics import Agreement
from tests.engines.conftest import Serve
from tests.engines.runs import PROMPTS, assert_read_from_its_bytes, profiled, summed
from tests.engines.server import Engine, counted

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("concurrency", [1, 4, 8])
@pytest.mark.parametrize("drafter", ["setup", "other_drafter"])
async def test_the_sum_is_the_servers(serve: Serve, engine: Engine, drafter: str, concurrency: int) -> None:
    server = serve(engine, getattr(engine, drafter))
    with counted(server) as grown:
        result = await profiled(server, input_file=PROMPTS, concurrency=concurrency, request_count=16)
    assert len(result.records) == 16
    for record in result.records:
        assert_read_from_its_bytes(server, record)
    assert grown == summed(result.records)
    assert grown["spec_decode_num_accepted_tokens"]
    assert result.reconciliation is not None
    assert result.reconciliation.agreement is Agreement.EXACT
    assert [notice for notice in result.notices if notice.kind == "adapter"] == []
