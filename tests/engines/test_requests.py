"""Every kind of request at every engine: its record or drop reason, by its own bytes and by the server's counters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.run import ErrorKind
from aiperf_spec.models.server_metrics import Agreement
from tests.acceptance_figures import figures_of
from tests.engines.runs import (
    CODE,
    PATHS,
    assert_read_from_its_bytes,
    assert_totals_are_the_servers,
    profiled,
    summed,
    write_prompts,
)
from tests.engines.server import Server, counted

pytestmark = pytest.mark.engine
streamed_or_not = pytest.mark.parametrize("streaming", [True, False], ids=["stream", "body"])
endpoints = pytest.mark.parametrize("endpoint", ["chat", "completions"])


@streamed_or_not
@endpoints
async def test_a_record_is_what_its_bytes_say(server: Server, tmp_path: Path, endpoint: str, streaming: bool) -> None:
    file = write_prompts(tmp_path, CODE, "import os\n", "The quick brown fox")
    with counted(server) as grown:
        result = await profiled(server, input_file=file, endpoint_type=endpoint, streaming=streaming, max_tokens=96)
    assert len(result.records) == 3
    for record in result.records:
        said = assert_read_from_its_bytes(server, record)
        assert ("messages" in record.raw.payload) is (endpoint == "chat") if record.raw else False
        assert said.get("drop", "record") == ("record" if streaming or server.engine.bodies_report else "totals_only")
    assert grown
    assert result.reconciliation is not None
    if streaming or server.engine.bodies_report:
        assert grown == summed(result.records)
        assert result.reconciliation.agreement is Agreement.EXACT
    else:
        assert_totals_are_the_servers(result.records, grown)


@streamed_or_not
@pytest.mark.parametrize(
    ("endpoint", "several"),
    [
        pytest.param("chat", {"extra_inputs": {"n": 2, "seed": 7, "ignore_eos": True}, "temperature": 1}, id="chat-n"),
        pytest.param(
            "completions",
            {"extra_inputs": {"n": 2, "seed": 7, "ignore_eos": True}, "temperature": 1},
            id="completions-n",
        ),
        pytest.param(
            "completions", {"batch_size_text": 2, "extra_inputs": {"ignore_eos": True}}, id="completions-prompts"
        ),
    ],
)
async def test_several_sequences_have_no_record(
    server: Server, tmp_path: Path, endpoint: str, streaming: bool, several: dict[str, Any]
) -> None:
    file = write_prompts(tmp_path, CODE, "import os\n")
    settings: dict[str, Any] = {"endpoint_type": endpoint, "streaming": streaming, "request_count": 1, **several}
    [record] = (await profiled(server, input_file=file, max_tokens=24, **settings)).records
    assert assert_read_from_its_bytes(server, record) == {"drop": "multi_sequence"}
    assert (record.acceptance, record.draft_totals, record.server_timing) == (None, None, None)
    assert record.output_tokens in (None, 2 * 24)


@streamed_or_not
@endpoints
async def test_one_token_has_no_step(server: Server, tmp_path: Path, endpoint: str, streaming: bool) -> None:
    file = write_prompts(tmp_path, CODE)
    with counted(server) as grown:
        result = await profiled(server, input_file=file, endpoint_type=endpoint, streaming=streaming, max_tokens=1)
    [record] = result.records
    assert_read_from_its_bytes(server, record)
    assert (record.acceptance, record.draft_totals, record.output_tokens) == (None, None, 1)
    assert not grown


@streamed_or_not
@endpoints
async def test_a_stop_string_ends_a_request(server: Server, tmp_path: Path, endpoint: str, streaming: bool) -> None:
    """A step may have given more than was kept, and an engine may not report such a request at all."""
    file = write_prompts(tmp_path, CODE, "import os\n", "The quick brown fox")
    letters = {"stop": ["e", "t", "a"]}
    settings: dict[str, Any] = {"endpoint_type": endpoint, "streaming": streaming, "max_tokens": 96}
    with counted(server) as grown:
        result = await profiled(server, input_file=file, extra_inputs=letters, **settings)
    for record in result.records:
        said = assert_read_from_its_bytes(server, record)
        assert record.finish_reason == "stop"
        if not server.engine.stopped_report:
            assert said == {"drop": "absent"}
    ours = summed(result.records)
    assert all(grown[name] >= ours[name] for name in ours)
    if server.engine.stopped_report and all(record.acceptance is not None for record in result.records):
        assert grown == ours


@streamed_or_not
async def test_a_prompt_that_does_not_fit_is_refused(server: Server, tmp_path: Path, streaming: bool) -> None:
    file = write_prompts(tmp_path, CODE * 200)
    [record] = (await profiled(server, input_file=file, streaming=streaming)).records
    assert record.error is not None
    assert (record.error.kind, record.error.status) == (ErrorKind.HTTP_STATUS, 400)
    assert record.raw is not None
    [event] = server.ask(PATHS["chat"], record.raw.payload)
    assert (event.get("error") or event)["message"] in record.error.message
    assert server.engine.too_long in record.error.message
    assert figures_of(record) == DropReason.FAILED


async def test_prompts_that_repeat_are_one(server: Server, tmp_path: Path) -> None:
    """The same prompt again adds requests and steps, and nothing to what is independent."""
    file = write_prompts(tmp_path, CODE)
    with counted(server) as grown:
        result = await profiled(server, input_file=file, request_count=6, concurrency=2)
    for record in result.records:
        assert_read_from_its_bytes(server, record)
    assert grown == summed(result.records)
    assert len({record.prompt_hash for record in result.records}) == 1
    assert result.summary.acceptance.requests == 6
    assert result.analysis is not None
    length = result.analysis.run.length
    assert (length.n, length.low, length.high) == (1, None, None)
    assert length.value is not None
    ones = [record.acceptance for record in result.records if record.acceptance is not None]
    steps, accepted = (
        sum(getattr(one, name) for one in ones) for name in ("num_spec_steps", "num_accepted_draft_tokens")
    )
    assert length.value == pytest.approx(1 + accepted / steps)
