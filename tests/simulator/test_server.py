from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import orjson
import pytest

from aiperf_spec.load.event_loop import monitored_loop_lag
from aiperf_spec.simulator import RunningSimulator
from aiperf_spec.workload.dataset import builtin_prompts
from tests.waiting import PATIENCE_SECONDS, happens

Serve = Callable[..., Awaitable[RunningSimulator]]
Ask = Callable[..., Awaitable[tuple[int, bytes]]]
Read = Callable[[bytes], list[dict[str, Any]]]

ENGINES = ["vllm", "tensorrt_llm", "sglang", "llama_cpp"]
# Of each engine's payload: accepted, proposed, steps, histogram.
FIELDS = {
    "vllm": ("num_accepted_draft_tokens", "num_draft_tokens", "num_spec_steps", "acceptance_histogram"),
    "tensorrt_llm": (
        "total_accepted_draft_tokens",
        "total_draft_tokens",
        "num_spec_steps",
        "acceptance_histogram",
    ),
    "sglang": (
        "spec_num_correct_drafts",
        "spec_num_proposed_drafts",
        "spec_verify_ct",
        "spec_correct_drafts_histogram",
    ),
}


def statistics(item: dict[str, Any]) -> dict[str, Any] | None:
    """Find the statistics of a payload of any engine."""
    if item.get("metrics"):
        return dict(item["metrics"]["speculative_decoding"])
    if item.get("sglext"):
        return dict(item["sglext"]["spec_tokens_details"])
    return next((c["speculative_decoding"] for c in item["choices"] if "speculative_decoding" in c), None)


async def fetch_ledger(server: RunningSimulator, session: aiohttp.ClientSession) -> list[dict[str, Any]]:
    async with session.get(server.url + "/ledger") as response:
        entries: list[dict[str, Any]] = await response.json()
        return entries


@pytest.mark.parametrize("engine", FIELDS)
@pytest.mark.parametrize("stream", [True, False])
async def test_ledger_agrees_with_what_was_sent(
    serve: Serve, ask: Ask, session: aiohttp.ClientSession, events: Read, engine: str, stream: bool
) -> None:
    server = await serve(engine)
    options = {"stream_options": {"include_usage": True}} if stream else {}
    for prompt in builtin_prompts():
        _, answer = await ask(
            server, text=prompt.as_text(), stream=stream, return_spec_tokens_details=True, max_tokens=90, **options
        )
        objects = events(answer) if stream else [orjson.loads(answer)]
        sent = next(found for item in reversed(objects) if (found := statistics(item)))
        entry = (await fetch_ledger(server, session))[-1]
        accepted, proposed, steps, histogram = (sent[field] for field in FIELDS[engine])
        assert (entry["accepted"], entry["proposed"], entry["steps"]) == (accepted, proposed, steps)
        assert entry["histogram"] == {str(j): count for j, count in enumerate(histogram) if count}
        assert entry["completion_tokens"] == objects[-1]["usage"]["completion_tokens"]
        assert entry["prompt_tokens"] == objects[-1]["usage"]["prompt_tokens"]
        assert (entry["category"], entry["stream"], entry["outcome"]) == (prompt.category, stream, "ok")
        assert entry["stats_sent"]
        assert entry["finished"]
        assert entry["per_step_accepted"] == sent.get("per_step_accepted", entry["per_step_accepted"])
        assert entry["per_step_drafted"] == sent.get("per_step_drafted", entry["per_step_drafted"])


@pytest.mark.parametrize("engine", ENGINES)
async def test_concurrency_changes_no_figure(serve: Serve, ask: Ask, engine: str) -> None:
    prompts = [prompt.as_text() for prompt in builtin_prompts()]
    one, many = await serve(engine, seed=5), await serve(engine, seed=5, step_time_ms=1.0)
    for prompt in prompts:
        await ask(one, text=prompt)
    await asyncio.gather(*(ask(many, text=prompt) for prompt in reversed(prompts)))

    def figures(server: RunningSimulator) -> Counter[tuple[int, ...]]:
        return Counter((entry.prompt_tokens, *entry.per_step_accepted) for entry in server.ledger.entries)

    assert figures(one) == figures(many)
    assert many.ledger.peak_in_flight > 5
    assert many.ledger.in_flight == 0
    other = await serve(engine, seed=6)
    for prompt in prompts:
        await ask(other, text=prompt)
    assert figures(one) != figures(other)


async def test_ledger_sums_the_choices(serve: Serve, ask: Ask) -> None:
    server = await serve("sglang")
    await ask(server, "completions", prompt=["Same.", "Same."], n=2)
    entry = server.ledger.entries[0]
    assert sum(entry.steps_per_choice) == entry.steps == len(entry.per_step_accepted)
    assert len(entry.steps_per_choice) == 4
    # The same prompt in the same place among its choices draws the same.
    assert entry.steps_per_choice[:2] == entry.steps_per_choice[2:]


async def test_ledger_over_http(serve: Serve, session: aiohttp.ClientSession) -> None:
    server = await serve("vllm")
    body = {"model": "m", "prompt": "x", "max_tokens": 3}
    headers = {"x-request-id": "abc"}
    async with session.post(server.url + "/v1/completions", json=body, headers=headers):
        pass
    async with session.get(server.url + "/ledger") as response:
        entries = await response.json()
        assert response.headers["X-Peak-In-Flight"] == "1"
    assert [(e["sequence"], e["request_id"], e["endpoint"]) for e in entries] == [(0, "abc", "completions")]
    async with session.post(server.url + "/ledger/reset"):
        pass
    assert await fetch_ledger(server, session) == []


@pytest.mark.parametrize("engine", ENGINES)
async def test_models_health_and_unknown_paths(serve: Serve, session: aiohttp.ClientSession, engine: str) -> None:
    server = await serve(engine)
    async with session.get(server.url + "/v1/models") as response:
        card = (await response.json())["data"][0]
    assert (card["id"], card["owned_by"]) == ("m", engine.replace("llama_cpp", "llamacpp"))
    assert ("max_model_len" in card) == (engine in ("vllm", "sglang"))
    async with session.get(server.url + "/health") as response:
        assert response.status == 200
    async with session.get(server.url + "/v2/nothing") as response:
        assert response.status == 404


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ({}, 7),
        ({"max_tokens": 5}, 5),
        ({"max_tokens": 5, "max_completion_tokens": 3}, 3),
        ({"max_tokens": None}, 7),
    ],
)
async def test_output_limit(serve: Serve, ask: Ask, body: dict[str, Any], tokens: int) -> None:
    server = await serve("vllm", default_max_tokens=7)
    await ask(server, ignore_eos=True, nonsense={"a": 1}, **body)
    assert server.ledger.entries[0].completion_tokens == tokens


async def test_prompts_of_token_ids_and_content_parts(serve: Serve, ask: Ask) -> None:
    server = await serve("vllm")
    assert (await ask(server, "completions", prompt=[1, 2, 3]))[0] == 200
    assert (await ask(server, "completions", prompt=[[1, 2], [3]]))[0] == 200
    part = {"type": "text", "text": "Translate this sentence into French: good morning."}
    assert (await ask(server, messages=[{"role": "user", "content": [part]}]))[0] == 200
    assert server.ledger.entries[-1].category == "multilingual"


async def test_headers(serve: Serve, session: aiohttp.ClientSession) -> None:
    server = await serve("vllm")
    body = {"model": "m", "prompt": "x", "stream": True}
    async with session.post(server.url + "/v1/completions", json=body) as response:
        assert response.headers["Server"] == "uvicorn"
        assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert response.headers["Transfer-Encoding"] == "chunked"
        assert response.headers["Vary"] == "Origin"


async def test_pace(serve: Serve, session: aiohttp.ClientSession) -> None:
    server = await serve("vllm", step_time_ms=20.0, prefill_time_ms=150.0)
    loop = asyncio.get_running_loop()
    body = {"model": "m", "prompt": "x", "stream": True, "max_tokens": 12, "ignore_eos": True}
    started = loop.time()
    stamps = []
    async with (
        monitored_loop_lag(time.perf_counter_ns) as lags_ns,
        session.post(server.url + "/v1/completions", json=body) as response,
    ):
        async for line in response.content:
            if line.startswith(b"data: {"):
                stamps.append(loop.time() - started)
    steps = server.ledger.entries[0].steps
    assert len(stamps) == steps + 1
    # Nothing may be early, and late by no more than this machine is.
    assert all(stamp >= 0.150 + 0.020 * step - 0.002 for step, stamp in enumerate(stamps))
    assert stamps[-1] < 0.150 + 0.020 * steps + 1.0 + max(lags_ns) / 1e9


async def test_headers_come_before_the_first_token(serve: Serve, session: aiohttp.ClientSession) -> None:
    server = await serve("vllm", prefill_time_ms=3_600_000.0)
    async with asyncio.timeout(PATIENCE_SECONDS):
        body = {"model": "m", "prompt": "x", "stream": True}
        async with session.post(server.url + "/v1/completions", json=body) as response:
            assert response.status == 200


async def test_a_client_that_leaves_is_noted(serve: Serve, session: aiohttp.ClientSession) -> None:
    server = await serve("vllm", step_time_ms=5.0)
    body = {"model": "m", "prompt": "x", "stream": True, "max_tokens": 4000, "ignore_eos": True}
    async with session.post(server.url + "/v1/completions", json=body) as response:
        await response.content.readline()
        response.close()
    await happens(lambda: server.ledger.in_flight == 0, "the client's leaving")
    assert not server.ledger.entries[0].finished


async def test_stopping_drops_what_is_in_flight(serve: Serve, session: aiohttp.ClientSession) -> None:
    # One step of this response takes longer than any test waits.
    server = await serve("vllm", step_time_ms=3_600_000.0)
    body = {"model": "m", "prompt": "x", "stream": True, "max_tokens": 4000, "ignore_eos": True}
    async with session.post(server.url + "/v1/completions", json=body) as response:
        await response.content.readline()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await server.stop()
        with pytest.raises(aiohttp.ClientError):
            await response.read()


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_server_without_speculation_reports_none(
    serve: Serve, ask: Ask, session: aiohttp.ClientSession, events: Read, engine: str
) -> None:
    server = await serve(engine, num_spec_tokens=0)
    inputs = {"return_spec_tokens_details": True, "stream_options": {"include_usage": True}, "max_tokens": 20}
    _, answer = await ask(server, stream=True, ignore_eos=True, **inputs)
    objects = events(answer)
    assert [found for item in objects if (found := statistics(item))] == []
    assert not any("draft_n" in item.get("timings", {}) for item in objects)
    entry = server.ledger.entries[0]
    assert (entry.steps, entry.undrafted, entry.completion_tokens) == (0, 19, 20)
    async with session.get(server.url + "/metrics") as response:
        assert "spec_decode" not in await response.text() or engine == "llama_cpp"


async def test_a_step_takes_longer_the_more_requests_run(serve: Serve, ask: Ask) -> None:
    server = await serve("vllm", num_spec_tokens=3, step_time_ms=1.0, draft_time_ms=2.0, batch_time_ms=0.5)
    loop = asyncio.get_running_loop()

    async def step_seconds() -> float:
        began = loop.time()
        await ask(server, text="One more.", max_tokens=12, ignore_eos=True)
        return (loop.time() - began) / server.ledger.entries[-1].steps

    # A step is due no sooner, however busy the machine is; timers may round a little down.
    assert await step_seconds() >= 0.95 * (0.001 + 3 * 0.002 + 4 * 0.0005)
    others = [asyncio.ensure_future(ask(server, text=f"{n}", max_tokens=8000, ignore_eos=True)) for n in range(5)]
    await happens(lambda: server.ledger.in_flight == 5, "five requests in flight")
    assert await step_seconds() >= 0.95 * (0.001 + 3 * 0.002 + 6 * 4 * 0.0005)
    for task in others:
        task.cancel()
