from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from aiperf_spec.simulator import RunningSimulator

Serve = Callable[..., Awaitable[RunningSimulator]]
Ask = Callable[..., Awaitable[tuple[int, bytes]]]
Read = Callable[[bytes], list[dict[str, Any]]]

WIRE = Path(__file__).parents[1] / "wire"
VLLM_STREAMS = [
    "chat-stream-n1-usage",
    "chat-stream-nousage",
    "chat-stream-continuous-usage",
    "chat-stream-zerostep-usage",
    "chat-stream-temp-usage",
    "chat-stream-n2-usage",
    "completions-stream-n1-usage",
    "completions-stream-long-usage",
    "completions-stream-2prompts-usage",
]
VLLM_BODIES = [
    "chat-nonstream-n1",
    "chat-nonstream-n2",
    "chat-nonstream-zerostep",
    "completions-nonstream-n1",
    "completions-nonstream-n2",
    "completions-nonstream-2prompts",
]
SGLANG_STREAMS = [
    f"{endpoint}-stream-{name}"
    for endpoint in ("chat", "completions")
    for name in ("n1", "n1-usage", "n1-continuous-usage", "n2", "n2-usage", "noverify-usage", "noverify-n2")
] + [
    "chat-stream-not-requested-usage",
    "completions-stream-not-requested-usage",
    "chat-stream-long-usage",
    "completions-stream-2prompts-n1",
    "completions-stream-2prompts-n1-usage",
    "completions-stream-2prompts-n2-usage",
]
SGLANG_BODIES = [
    f"{endpoint}-nonstream-{name}"
    for endpoint in ("chat", "completions")
    for name in ("n1", "n2", "noverify", "not-requested", "typo-param")
] + [
    "completions-nonstream-2prompts-n1",
    "completions-nonstream-2prompts-n2",
    "chat-unknown-model",
    "completions-unknown-model",
]
ERRORS = [
    ("vllm", "chat-error-bad-temperature"),
    ("vllm", "chat-error-too-long"),
    ("vllm", "chat-error-unknown-model"),
    *(
        ("sglang", f"{endpoint}-error-{name}")
        for endpoint in ("chat", "completions")
        for name in (
            "bad-flag-type",
            "bad-flag-type-stream",
            "malformed-json",
            "max-tokens-negative",
            "temperature-negative",
            "temperature-negative-stream",
        )
    ),
]


def shape(value: object) -> object:
    """Reduce a JSON value to its keys in order and the kinds of its values."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}, tuple(value)
    if isinstance(value, list):
        return ["list", *({repr(shape(item)): shape(item) for item in value}.values())]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    return type(value).__name__


def phases(objects: list[dict[str, Any]], *, ordered: bool) -> list[str]:
    """List the shapes of a stream, a run of equal ones once; without the order if choices interleave."""
    shapes = [repr(shape(item)) for item in objects]
    return [key for key, _ in groupby(shapes)] if ordered else sorted(set(shapes))


def captured(engine: str, name: str) -> tuple[bytes, bytes]:
    """Load the request and the answer of a capture."""
    folder = WIRE / engine
    answer = next(path for path in (folder / f"{name}.sse", folder / f"{name}.json") if path.exists())
    return (folder / f"{name}.request.json").read_bytes(), answer.read_bytes()


async def replay(
    server: RunningSimulator, session: aiohttp.ClientSession, name: str, request: bytes
) -> tuple[int, bytes]:
    """Send the request of a capture."""
    path = "/v1/chat/completions" if name.startswith("chat") else "/v1/completions"
    async with session.post(server.url + path, data=request) as response:
        return response.status, await response.read()


def to_the_limit(request: bytes) -> bytes:
    """Keep an answer from ending by itself, as none of the captures compared here does."""
    return orjson.dumps(orjson.loads(request) | {"ignore_eos": True})


@pytest.mark.parametrize(
    ("engine", "name"),
    [("vllm", name) for name in VLLM_STREAMS] + [("sglang", name) for name in SGLANG_STREAMS],
)
async def test_streams_have_the_captured_shape(
    serve: Serve, session: aiohttp.ClientSession, events: Read, engine: str, name: str
) -> None:
    request, stream = captured(engine, name)
    server = await serve(engine, model=orjson.loads(request)["model"])
    status, answer = await replay(server, session, name, to_the_limit(request))
    assert status == 200
    assert answer.endswith(b"data: [DONE]\n\n")
    ordered = "n2" not in name and "2prompts" not in name
    assert phases(events(answer), ordered=ordered) == phases(events(stream), ordered=ordered)
    # What follows the content keeps its order however choices interleave.
    trailer = [item for item in events(answer) if not item["choices"]]
    assert phases(trailer, ordered=True) == phases(
        [item for item in events(stream) if not item["choices"]], ordered=True
    )


@pytest.mark.parametrize(
    ("engine", "name"),
    [("vllm", name) for name in VLLM_BODIES] + [("sglang", name) for name in SGLANG_BODIES],
)
async def test_bodies_have_the_captured_shape(
    serve: Serve, session: aiohttp.ClientSession, engine: str, name: str
) -> None:
    request, body = captured(engine, name)
    model = "m" if "unknown" in name else orjson.loads(request)["model"]
    server = await serve(engine, model=model)
    status, answer = await replay(server, session, name, to_the_limit(request))
    assert status == 200
    assert shape(orjson.loads(answer)) == shape(orjson.loads(body))
    assert len(orjson.loads(answer)["choices"]) == len(orjson.loads(body)["choices"])


@pytest.mark.parametrize(("engine", "name"), ERRORS)
async def test_errors_are_the_captured_ones(
    serve: Serve, session: aiohttp.ClientSession, engine: str, name: str
) -> None:
    request, body = captured(engine, name)
    server = await serve(engine, model="tinycode", max_model_len=2048)
    status, answer = await replay(server, session, name, request)
    assert status == orjson.loads(body).get("error", orjson.loads(body))["code"]
    assert orjson.loads(answer) == orjson.loads(body)
    assert server.ledger.entries[0].outcome == "error"


async def test_sglang_refuses_a_prompt_over_its_context(serve: Serve, session: aiohttp.ClientSession) -> None:
    request, body = captured("sglang", "chat-error-too-long-stream")
    server = await serve("sglang", max_model_len=1024)
    status, answer = await replay(server, session, "chat", request)
    assert status == 400
    assert shape(orjson.loads(answer)) == shape(orjson.loads(body))


@pytest.mark.parametrize("engine", ["vllm", "tensorrt_llm", "sglang", "llama_cpp"])
@pytest.mark.parametrize(
    "body",
    [{"messages": []}, {"messages": "hi"}, {"n": 0}, {"n": "two"}, {"temperature": "hot"}, {"max_tokens": 1.5}],
)
async def test_wrong_types_are_refused(serve: Serve, ask: Ask, engine: str, body: dict[str, Any]) -> None:
    status, answer = await ask(await serve(engine), **body)
    assert status == 400
    assert isinstance(orjson.loads(answer), dict)


@pytest.mark.parametrize("name", ["chat-stream-n1", "chat-stream-n1-usage", "completions-stream-n1-usage"])
async def test_tensorrt_llm_streams(serve: Serve, ask: Ask, events: Read, name: str) -> None:
    stream = (WIRE / "tensorrt_llm" / f"{name}.sse").read_bytes()
    options = {"include_usage": name.endswith("usage")}
    server = await serve("tensorrt_llm")
    _, answer = await ask(
        server, name.split("-")[0], stream=True, stream_options=options, max_tokens=40, ignore_eos=True
    )
    assert phases(events(answer), ordered=True) == phases(events(stream), ordered=True)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("chat-nonstream-n1", {"max_tokens": 51}),
        ("chat-nonstream-n2", {"max_tokens": 40, "n": 2}),
        ("chat-nonstream-absent", {"max_tokens": 1}),
        ("completions-nonstream-n1", {"max_tokens": 51}),
    ],
)
async def test_tensorrt_llm_bodies(serve: Serve, ask: Ask, name: str, body: dict[str, Any]) -> None:
    captured_body = orjson.loads((WIRE / "tensorrt_llm" / f"{name}.json").read_bytes())
    _, answer = await ask(await serve("tensorrt_llm"), name.split("-")[0], ignore_eos=True, **body)
    assert shape(orjson.loads(answer)) == shape(captured_body)


@pytest.mark.parametrize(("level", "keys"), [("none", None), ("summary", 7), ("detailed", 9)])
async def test_vllm_level(serve: Serve, ask: Ask, events: Read, level: str, keys: int | None) -> None:
    server = await serve("vllm", level=level)
    _, stream = await ask(server, stream=True, stream_options={"include_usage": True})
    _, body = await ask(server)
    last, metrics = events(stream)[-1], orjson.loads(body)["metrics"]
    if keys is None:
        assert "metrics" not in last
        assert metrics is None
        return
    assert len(last["metrics"]["speculative_decoding"]) == keys
    arrays = metrics["speculative_decoding"]["per_step_accepted"]
    assert (arrays is not None) == (level == "detailed")
    assert [entry.stats_sent for entry in server.ledger.entries] == [True, True]


@pytest.mark.parametrize("flag", [True, "true", "Yes", 1])
async def test_sglang_reads_the_flag_leniently(serve: Serve, ask: Ask, flag: object) -> None:
    _, body = await ask(await serve("sglang"), return_spec_tokens_details=flag)
    assert list(orjson.loads(body))[-1] == "sglext"


@pytest.mark.parametrize("flag", [None, [], 2, "maybe"])
async def test_sglang_refuses_a_flag_that_is_no_boolean(serve: Serve, ask: Ask, flag: object) -> None:
    status, body = await ask(await serve("sglang"), return_spec_tokens_details=flag)
    assert status == 400
    assert orjson.loads(body)["object"] == "error"


async def test_sglang_accept_length_counts_the_prefill_token(serve: Serve, ask: Ask) -> None:
    _, body = await ask(await serve("sglang"), return_spec_tokens_details=True)
    answer = orjson.loads(body)
    details = answer["sglext"]["spec_tokens_details"]
    tokens = answer["usage"]["completion_tokens"]
    assert details["spec_accept_length"] == tokens / details["spec_verify_ct"]


@pytest.mark.parametrize("engine", ["vllm", "tensorrt_llm", "sglang"])
@pytest.mark.parametrize("endpoint", ["chat", "completions"])
async def test_stream_and_body_say_the_same(serve: Serve, ask: Ask, events: Read, engine: str, endpoint: str) -> None:
    server = await serve(engine)
    prompts: dict[str, Any] = {} if endpoint == "chat" else {"prompt": ["One.", "Two."]}
    for body in ({"n": 3, "max_tokens": 30} | prompts, {"max_tokens": 200}):
        _, stream = await ask(server, endpoint, stream=True, stream_options={"include_usage": True}, **body)
        _, whole = await ask(server, endpoint, **body)
        texts: dict[int, str] = {}
        reasons: dict[int, str] = {}
        for item in events(stream):
            for choice in item["choices"]:
                text = choice["delta"].get("content") if endpoint == "chat" else choice["text"]
                texts[choice["index"]] = texts.get(choice["index"], "") + (text or "")
                if choice["finish_reason"]:
                    reasons[choice["index"]] = choice["finish_reason"]
        answer = orjson.loads(whole)
        assert [choice["index"] for choice in answer["choices"]] == sorted(texts)
        for choice in answer["choices"]:
            assert reasons[choice["index"]] == choice["finish_reason"]
            text = choice["message"]["content"] if endpoint == "chat" else choice["text"]
            assert texts[choice["index"]] == text
        usage = events(stream)[-1]["usage"]
        assert usage["completion_tokens"] == answer["usage"]["completion_tokens"]


LLAMA_CPP_STREAMS: dict[str, dict[str, Any]] = {
    "chat-stream-usage": {"stream_options": {"include_usage": True}},
    "chat-stream-nousage": {},
    "chat-stream-timings-per-token-usage": {"stream_options": {"include_usage": True}, "timings_per_token": True},
    "completions-stream-usage": {"stream_options": {"include_usage": True}},
    "ngram-completions-stream-timings-per-token-usage": {"timings_per_token": True},
}


@pytest.mark.parametrize("name", LLAMA_CPP_STREAMS)
async def test_llama_cpp_streams(serve: Serve, ask: Ask, events: Read, name: str) -> None:
    stream = (WIRE / "llama_cpp" / f"{name}.sse").read_bytes()
    endpoint = "completions" if "completions" in name else "chat"
    # The first steps of the capture with n-grams had no draft: what was drafted is left out of what is compared.
    server = await serve("llama_cpp", undrafted_share=0.9 if name.startswith("ngram") else 0.0)
    _, answer = await ask(server, endpoint, stream=True, max_tokens=64, ignore_eos=True, **LLAMA_CPP_STREAMS[name])
    # Its objects have their keys in no order that is kept.
    shapes = [
        {repr(shape(sorted_keys(item))) for item in events(data)}
        for data in (answer, stream.split(b"data: null\n\n")[-1])
    ]
    assert shapes[0] == shapes[1]
    assert answer.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("name", "limit"), [("chat-nonstream", 48), ("chat-nonstream-maxtokens1", 1), ("completions-nonstream", 40)]
)
async def test_llama_cpp_bodies(serve: Serve, ask: Ask, name: str, limit: int) -> None:
    captured_body = orjson.loads((WIRE / "llama_cpp" / f"{name}.json").read_bytes())
    _, answer = await ask(await serve("llama_cpp"), name.split("-")[0], max_tokens=limit, ignore_eos=True)
    assert shape(sorted_keys(orjson.loads(answer))) == shape(sorted_keys(captured_body))


def sorted_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: sorted_keys(value[key]) for key in sorted(value)}
    return [sorted_keys(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
@pytest.mark.parametrize("ignore_eos", [True, False])
async def test_llama_cpps_running_totals_are_the_steps_that_were_drawn(
    serve: Serve, ask: Ask, events: Read, endpoint: str, ignore_eos: bool
) -> None:
    server = await serve("llama_cpp", undrafted_share=0.2)
    body = {"max_tokens": 150, "ignore_eos": ignore_eos, "timings_per_token": True}
    _, answer = await ask(server, endpoint, stream=True, **body)
    sent = [item["timings"] for item in events(answer) if "timings" in item]
    totals = {t["predicted_n"]: (t.get("draft_n", 0), t.get("draft_n_accepted", 0)) for t in sent}
    counts = [totals[tokens] for tokens in sorted(totals)]
    steps = [(d - c, b - a) for (c, a), (d, b) in pairwise(counts) if d > c]
    [entry] = server.ledger.entries
    assert steps == list(zip(entry.per_step_drafted, entry.per_step_accepted, strict=True))
    assert sent[-1]["predicted_n"] == entry.completion_tokens
    assert entry.undrafted > 0
    if entry.completion_tokens == 150:
        # Nothing is drafted beyond the limit.
        assert entry.completion_tokens == 1 + entry.accepted + entry.steps + entry.undrafted


async def test_choices_interleave(serve: Serve, ask: Ask, events: Read) -> None:
    _, stream = await ask(await serve("vllm"), stream=True, n=3, max_tokens=30, ignore_eos=True)
    order = [choice["index"] for item in events(stream) for choice in item["choices"]]
    assert order[:9] == [0, 1, 2] * 3
