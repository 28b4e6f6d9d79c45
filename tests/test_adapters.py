"""Cross every capture with every adapter, and pin the records of key captures by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aiperf_spec.adapters.fastdeploy import FastDeployAdapter
from aiperf_spec.adapters.llama_cpp import LlamaCppAdapter
from aiperf_spec.adapters.mlx_vlm import MlxVlmAdapter
from aiperf_spec.adapters.protocol import SpecDecodeAdapterProtocol
from aiperf_spec.adapters.registry import BUILT_IN, AdapterRegistry
from aiperf_spec.adapters.sglang import SGLangAdapter
from aiperf_spec.adapters.sglang_stats import SGLangStatsAdapter
from aiperf_spec.adapters.tensorrt_llm import TensorRTLLMAdapter
from aiperf_spec.adapters.vllm import VLLMAdapter
from aiperf_spec.analysis.positions import drafting, tally_all
from aiperf_spec.artifacts.read.records import read_record
from aiperf_spec.artifacts.write.record_lines import record_line
from aiperf_spec.models.acceptance import SpecDecodeAcceptanceRecord
from aiperf_spec.models.draft_totals import DraftTotals
from aiperf_spec.models.response import ParsedResponse, Usage
from aiperf_spec.wire.chunk import parse_event
from aiperf_spec.wire.sse import SSEDecoder, SSEEvent
from tests.identities import broken_identities
from tests.records import record

WIRE = Path(__file__).parent / "wire"
CAPTURES = sorted(
    path
    for path in WIRE.glob("*/*")
    if path.suffix in (".sse", ".json")
    and not path.name.endswith(".request.json")
    and "generate-native" not in path.name
)
ADAPTERS: dict[str, type[SpecDecodeAdapterProtocol]] = {
    "vllm": VLLMAdapter,
    "tensorrt_llm": TensorRTLLMAdapter,
    "sglang_stats": SGLangStatsAdapter,
    "sglang": SGLangAdapter,
    "llama_cpp": LlamaCppAdapter,
    "mlx_vlm": MlxVlmAdapter,
    "fastdeploy": FastDeployAdapter,
}
PATHS = AdapterRegistry(BUILT_IN).payload_paths


def responses_of(path: Path) -> list[ParsedResponse]:
    data = path.read_bytes()
    if path.suffix == ".sse" and data.startswith((b"data:", b":")):
        decoder = SSEDecoder()
        events = decoder.decode(data) + decoder.flush()
    else:
        events = [SSEEvent(data)]
    return [response for at, event in enumerate(events) if (response := parse_event(event, at, PATHS)) is not None]


def single_payloads(path: Path) -> list[dict[str, Any]]:
    """Return the objects of an engine that stand alone in an event, found without our own reader."""
    text = path.read_text()
    lines = [line[6:] for line in text.split("\n") if line.startswith("data: {")] or [text]
    found = []
    for line in lines:
        event = json.loads(line)
        places = [(event.get("metrics") or {}).get("speculative_decoding")]
        places.append((event.get("sglext") or {}).get("spec_tokens_details"))
        places += [choice.get("speculative_decoding") for choice in event.get("choices") or []]
        places.append(event.get("timings"))
        here = [place for place in places if place]
        if len(here) == 1 and isinstance(here[0], dict):
            found += here
    return found


def id_of(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


@pytest.mark.parametrize("path", CAPTURES, ids=id_of)
def test_only_the_engines_own_adapter_claims_a_capture(path: Path) -> None:
    responses = responses_of(path)
    claims = {name for name, adapter in ADAPTERS.items() if adapter.can_adapt(responses)}
    assert claims == ({path.parent.name} if single_payloads(path) else set())


@pytest.mark.parametrize("path", CAPTURES, ids=id_of)
@pytest.mark.parametrize("name", ADAPTERS)
def test_what_an_adapter_returns_is_sound(path: Path, name: str) -> None:
    record = ADAPTERS[name].adapt(responses_of(path))
    if name != path.parent.name or not single_payloads(path):
        assert record is None
    if record is not None:
        assert record.engine == name
    if isinstance(record, SpecDecodeAcceptanceRecord):
        assert broken_identities(record.model_dump()) == set()


def test_most_captures_have_a_payload() -> None:
    with_payload = {path.parent.name for path in CAPTURES if single_payloads(path)}
    assert with_payload == set(ADAPTERS) - PROVISIONAL.keys()


# Made from pull requests and source, where no server was at hand.
PROVISIONAL: dict[str, dict[str, Any]] = {
    "sglang_stats": {
        "sglext": {
            "speculative_decoding_stats": [
                {
                    "index": 0,
                    "num_verification_steps": 2,
                    "num_verified_draft_tokens": 9,
                    "num_accepted_draft_tokens": 5,
                    "draft_acceptance_rate": 5 / 9,
                    "mean_accept_length": 3.5,
                    "verify_lengths": [6, 5],
                    "accept_lengths": [4, 3],
                }
            ]
        }
    },
    "mlx_vlm": {
        "timings": {
            "prompt_n": 20,
            "cache_n": 0,
            "predicted_n": 111,
            "prompt_ms": 50.0,
            "prompt_per_token_ms": 2.5,
            "prompt_per_second": 400.0,
            "predicted_ms": 1110.0,
            "predicted_per_token_ms": 10.0,
            "predicted_per_second": 100.0,
            "peak_memory": 5.5,
            "draft_kind": "mtp",
            "draft_rounds": 30,
            "draft_n": 90,
            "draft_n_accepted": 81,
        }
    },
    "fastdeploy": {
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "delta": {"content": ""},
                "speculate_metrics": {
                    "accepted_tokens": 100,
                    "rejected_tokens": 314,
                    "accept_ratio": 0.31000000000000005,
                    "average_accept_length": 1.4492753623188406,
                    "accepted_tokens_per_head": [69, 13, 9, 3, 3, 3],
                    "accept_ratio_per_head": [0.188, 0.692, 0.333, 1.0, 1.0],
                },
            }
        ]
    },
}


def provisional(name: str, **changes: Any) -> tuple[SpecDecodeAcceptanceRecord | DraftTotals | None, str | None]:
    """Read an event like the engine's through the registry, with changes of its object."""
    event = json.loads(json.dumps(PROVISIONAL[name]))
    holder = event.get("sglext", {}).get("speculative_decoding_stats") or event.get("choices") or [event.get("timings")]
    (holder[0].get("speculate_metrics") or holder[0]).update(changes)
    parsed = parse_event(SSEEvent(json.dumps(event).encode()), 1, PATHS)
    assert parsed is not None
    return AdapterRegistry(BUILT_IN).read([parsed], several_sequences=False)


@pytest.mark.parametrize("name", PROVISIONAL)
def test_only_its_own_adapter_claims_what_is_coming(name: str) -> None:
    parsed = parse_event(SSEEvent(json.dumps(PROVISIONAL[name]).encode()), 1, PATHS)
    assert parsed is not None
    assert [other for other, adapter in ADAPTERS.items() if adapter.can_adapt([parsed])] == [name]


def test_sglangs_lengths_hold_the_token_that_every_step_gives() -> None:
    record, _ = provisional("sglang_stats")
    assert isinstance(record, SpecDecodeAcceptanceRecord)
    assert (record.engine, record.num_spec_steps, record.num_draft_tokens) == ("sglang", 2, 9)
    assert (record.per_step_drafted, record.per_step_accepted) == ((5, 4), (3, 2))
    assert broken_identities(record.model_dump()) == set()
    summary = {"verify_lengths": None, "accept_lengths": None}
    assert provisional("sglang_stats", **summary) == (None, "malformed")
    short, _ = provisional("sglang_stats", **summary, accepted_draft_histogram=[0, 0, 1, 1])
    assert isinstance(short, SpecDecodeAcceptanceRecord)
    assert (short.acceptance_histogram, short.per_step_accepted) == ({2: 1, 3: 1}, None)


def test_of_sglangs_two_objects_the_counted_one_is_taken() -> None:
    both = json.loads(json.dumps(PROVISIONAL["sglang_stats"]))
    both["sglext"]["spec_tokens_details"] = PAYLOADS["sglang"]
    parsed = parse_event(SSEEvent(json.dumps(both).encode()), 1, PATHS)
    assert parsed is not None
    record, reason = AdapterRegistry(BUILT_IN).read([parsed], several_sequences=False)
    assert isinstance(record, SpecDecodeAcceptanceRecord)
    assert (record.num_draft_tokens, reason) == (9, None)


@pytest.mark.parametrize(
    "change", [{"accept_lengths": [4]}, {"accept_lengths": ["4", 3]}, {"accept_lengths": [7, 0]}, {"verify_lengths": 3}]
)
def test_sglangs_lengths_that_do_not_fit_are_malformed(change: dict[str, Any]) -> None:
    assert provisional("sglang_stats", **change) == (None, "malformed")


def test_mlx_vlms_totals_count_steps_over_the_whole_batch() -> None:
    totals, reason = provisional("mlx_vlm")
    assert isinstance(totals, DraftTotals)
    assert reason == "totals_only"
    assert (totals.fewest_steps, totals.most_steps, totals.whole_batch) == (30, 30, True)
    assert (totals.num_draft_tokens, totals.num_accepted_draft_tokens) == (90, 81)
    nothing = dict.fromkeys(("draft_kind", "draft_rounds", "draft_n", "draft_n_accepted"))
    assert provisional("mlx_vlm", **nothing) == (None, "zero_step")


@pytest.mark.parametrize(
    "change", [{"draft_rounds": 91}, {"draft_n": "90"}, {"draft_n_accepted": 91}, {"draft_rounds": True}]
)
def test_mlx_vlms_totals_that_contradict_each_other_are_malformed(change: dict[str, Any]) -> None:
    assert provisional("mlx_vlm", **change) == (None, "malformed")


def test_fastdeploys_counts_by_head_are_a_histogram_without_the_prompts_own_pass() -> None:
    record, _ = provisional("fastdeploy")
    assert isinstance(record, SpecDecodeAcceptanceRecord)
    # 69 passes gave 100 tokens; the first of them was the prompt's.
    assert (record.num_spec_steps, record.num_accepted_draft_tokens) == (68, 31)
    assert record.acceptance_histogram == {0: 55, 1: 4, 2: 6, 5: 3}
    assert (record.num_spec_tokens, record.proposed, record.rate) == (5, None, None)
    assert broken_identities(record.model_dump()) == set()
    assert provisional("fastdeploy", accepted_tokens=1, accepted_tokens_per_head=[1, 0]) == (None, "zero_step")


@pytest.mark.parametrize(
    "heads", [[], [69, 70], [0, 0], [69, 13, 9, 3, 3, 4], [69.0, 13, 9, 3, 3, 3], "69", None, {"0": 69}, [13, 0, -1]]
)
def test_fastdeploys_counts_that_no_steps_make_are_malformed(heads: Any) -> None:
    assert provisional("fastdeploy", accepted_tokens_per_head=heads) == (None, "malformed")


def test_a_histogram_for_each_proposed_length_gives_the_denominators() -> None:
    """Its pull request's example: (drafted, accepted) of (1, 1), (3, 2) and of (2, 1), (2, 2) sum up to the same."""
    common = {
        "mean_acceptance_length": 2.5,
        "draft_acceptance_rate": 0.75,
        "acceptance_histogram": [0, 1, 1, 0],
        "num_spec_steps": 2,
        "num_accepted_draft_tokens": 3,
        "num_draft_tokens": 4,
        "num_spec_tokens": 3,
    }
    key = "acceptance_histogram_by_draft_length"
    one = adapt("vllm", {**common, key: {"1": [0, 1], "3": [0, 0, 1, 0]}})
    other = adapt("vllm", {**common, key: {"2": [0, 1, 1]}})
    assert one is not None
    assert other is not None
    assert (one.histogram_by_proposed, other.histogram_by_proposed) == ({1: {1: 1}, 3: {2: 1}}, {2: {1: 1, 2: 1}})
    known = [drafting([record]) for record in (one, other)]
    assert [each.at_risk_known for each in known] == [True, True]
    runs = [replace(record(0, start=0, contents=(1, 2), tokens=6), acceptance=each) for each in (one, other)]
    tallies = [tally_all([run], each) for run, each in zip(runs, known, strict=True)]
    assert [[list(column) for column in each.at_risk] for each in tallies] == [
        [[2.0], [1.0], [1.0]],
        [[2.0], [2.0], [0.0]],
    ]
    assert not drafting(
        [SpecDecodeAcceptanceRecord(**{**other.model_dump(), "histogram_by_proposed": None})]
    ).at_risk_known
    for wrong in ({"2": [0, 1, 0]}, {"1": [0, 1], "2": [0, 0, 1]}):
        assert adapt("vllm", {**common, key: wrong}) is None
    for unknown in ([[0, 1]], {"2": 3}, {"two": [0, 1, 1]}, {}, None):
        found = adapt("vllm", {**common, key: unknown})
        assert found is not None
        assert found.histogram_by_proposed is None


def test_a_histogram_for_each_proposed_length_is_written_and_read_back() -> None:
    kept = SpecDecodeAcceptanceRecord(
        engine="vllm",
        mean_acceptance_length=2.5,
        draft_acceptance_rate=0.75,
        acceptance_histogram={1: 1, 2: 1},
        num_accepted_draft_tokens=3,
        num_draft_tokens=4,
        num_spec_steps=2,
        histogram_by_proposed={2: {1: 1, 2: 1}},
    )
    line = record_line(replace(record(0, start=0, contents=(1, 2), tokens=6), acceptance=kept), 0)
    assert read_record(line).acceptance == kept


@pytest.mark.parametrize("adapter", BUILT_IN, ids=lambda adapter: adapter.name)
def test_adapters_satisfy_the_protocol(adapter: Any) -> None:
    assert isinstance(adapter.implementation, SpecDecodeAdapterProtocol)


def test_the_built_in_adapters() -> None:
    assert {adapter.name: adapter.implementation for adapter in BUILT_IN} == ADAPTERS


# Copied from the captures by eye.
EXPECTED: dict[str, dict[str, Any]] = {
    "vllm/completions-stream-n1-usage.sse": {
        "engine": "vllm",
        "mean_acceptance_length": 2.791666666666667,
        "draft_acceptance_rate": 0.3706896551724138,
        "acceptance_histogram": {0: 9, 1: 3, 2: 5, 3: 2, 4: 1, 5: 4},
        "num_accepted_draft_tokens": 43,
        "num_draft_tokens": 116,
        "num_spec_steps": 24,
        "num_spec_tokens": 5,
        "completion_tokens": 96,
        "per_step_accepted": (1, 0, 0, 0, 1, 3, 0, 5, 2, 3, 2, 0, 2, 0, 2, 4, 1, 0, 2, 5, 5, 0, 0, 5),
        "per_step_drafted": (2, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 4, 5, 5, 5, 5, 5, 5, 5, 5),
    },
    "vllm/chat-nonstream-n1.json": {
        "engine": "vllm",
        "mean_acceptance_length": 5.5,
        "draft_acceptance_rate": 0.9,
        "acceptance_histogram": {1: 2, 5: 14},
        "num_accepted_draft_tokens": 72,
        "num_draft_tokens": 80,
        "num_spec_steps": 16,
        "num_spec_tokens": 5,
        "completion_tokens": 96,
        "per_step_accepted": (1, 1, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5),
        "per_step_drafted": (5,) * 16,
    },
    "vllm/chat-nonstream-zerostep.json": {
        "engine": "vllm",
        "mean_acceptance_length": 1.0,
        "draft_acceptance_rate": 0.0,
        "acceptance_histogram": {},
        "num_accepted_draft_tokens": 0,
        "num_draft_tokens": 0,
        "num_spec_steps": 0,
        "num_spec_tokens": 5,
        "completion_tokens": 1,
        "per_step_accepted": None,
        "per_step_drafted": None,
    },
    "sglang/chat-stream-n1-usage.sse": {
        "engine": "sglang",
        "mean_acceptance_length": 1.3333333333333333,  # 1 + 10 / 30
        "draft_acceptance_rate": 0.047619047619047616,  # 10 / 210
        "acceptance_histogram": {0: 23, 1: 5, 2: 1, 3: 1},
        "num_accepted_draft_tokens": 10,
        "num_draft_tokens": 210,
        "num_spec_steps": 30,
        "num_spec_tokens": None,
        "completion_tokens": 40,
        "per_step_accepted": None,
        "per_step_drafted": None,
    },
    "sglang/chat-nonstream-n1.json": {
        "engine": "sglang",
        "mean_acceptance_length": 1.1818181818181819,  # 1 + 6 / 33, not the 1.2121 of spec_accept_length
        "draft_acceptance_rate": 0.025974025974025976,
        "acceptance_histogram": {0: 29, 1: 2, 2: 2},
        "num_accepted_draft_tokens": 6,
        "num_draft_tokens": 231,
        "num_spec_steps": 33,
        "num_spec_tokens": None,
        "completion_tokens": 40,
        "per_step_accepted": None,
        "per_step_drafted": None,
    },
    "sglang/completions-stream-n1.sse": {
        "engine": "sglang",
        "mean_acceptance_length": 1.3,
        "draft_acceptance_rate": 0.04285714285714286,
        "acceptance_histogram": {0: 21, 1: 9},
        "num_accepted_draft_tokens": 9,
        "num_draft_tokens": 210,
        "num_spec_steps": 30,
        "num_spec_tokens": None,
        "completion_tokens": None,
        "per_step_accepted": None,
        "per_step_drafted": None,
    },
    "tensorrt_llm/chat-stream-n1-usage.sse": {
        "engine": "tensorrt_llm",
        "mean_acceptance_length": 2.5,  # 1 + 30 / 20
        "draft_acceptance_rate": 0.5,
        "acceptance_histogram": {0: 8, 2: 6, 3: 6},
        "num_accepted_draft_tokens": 30,
        "num_draft_tokens": 60,
        "num_spec_steps": 20,
        "num_spec_tokens": 3,
        "completion_tokens": 51,
        "per_step_accepted": None,
        "per_step_drafted": None,
    },
    "llama_cpp/ngram-completions-stream-timings-per-token-usage.sse": {
        "engine": "llama_cpp",
        "mean_acceptance_length": 3.0,  # 1 + 10 / 5
        "draft_acceptance_rate": 0.43478260869565216,
        "acceptance_histogram": {0: 1, 1: 1, 2: 2, 5: 1},
        "num_accepted_draft_tokens": 10,
        "num_draft_tokens": 23,
        "num_spec_steps": 5,
        "num_spec_tokens": None,
        "completion_tokens": 64,
        "per_step_accepted": (5, 0, 2, 1, 2),
        "per_step_drafted": (5, 5, 5, 5, 3),
    },
    "tensorrt_llm/chat-nonstream-null-bound.json": {
        "engine": "tensorrt_llm",
        "mean_acceptance_length": 2.1,
        "draft_acceptance_rate": 0.4583333333333333,
        "acceptance_histogram": {0: 2, 1: 5, 2: 3},
        "num_accepted_draft_tokens": 11,
        "num_draft_tokens": 24,
        "num_spec_steps": 10,
        "num_spec_tokens": None,
        "completion_tokens": 22,
        "per_step_accepted": None,
        "per_step_drafted": None,
    },
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_record_of_a_capture(name: str) -> None:
    record = ADAPTERS[name.partition("/")[0]].adapt(responses_of(WIRE / name))
    assert isinstance(record, SpecDecodeAcceptanceRecord)
    assert record.model_dump() == EXPECTED[name]


@pytest.mark.parametrize(
    "name",
    [
        "sglang/draft1-server-chat-nonstream.json",
        "sglang/draft1-server-completions-stream-usage.sse",
        "tensorrt_llm/chat-nonstream-inconsistent.json",
        "tensorrt_llm/chat-nonstream-zerostep.json",
    ],
)
def test_a_capture_that_contradicts_itself_has_no_record(name: str) -> None:
    adapter = ADAPTERS[name.partition("/")[0]]
    responses = responses_of(WIRE / name)
    assert adapter.can_adapt(responses)
    assert adapter.adapt(responses) is None


PAYLOADS: dict[str, dict[str, Any]] = {
    "vllm": {
        "mean_acceptance_length": 2.0,
        "draft_acceptance_rate": 0.4,
        "acceptance_histogram": [2, 0, 2],
        "num_spec_steps": 4,
        "num_accepted_draft_tokens": 4,
        "num_draft_tokens": 10,
        "num_spec_tokens": 2,
    },
    "tensorrt_llm": {
        "acceptance_rate": 0.4,
        "total_accepted_draft_tokens": 4,
        "total_draft_tokens": 10,
        "num_spec_steps": 4,
        "acceptance_histogram": [2, 0, 2],
        "num_spec_tokens": 2,
    },
    "sglang": {
        "spec_verify_ct": 4,
        "spec_num_correct_drafts": 4,
        "spec_num_proposed_drafts": 10,
        "spec_correct_drafts_histogram": [2, 0, 2],
    },
}
ENGINES = [*PAYLOADS]


def adapt(name: str, *payloads: Any, usage: Usage | None = None) -> SpecDecodeAcceptanceRecord | None:
    responses = [ParsedResponse(at, spec_decode_stats=payload) for at, payload in enumerate(payloads)]
    record = ADAPTERS[name].adapt([*responses, ParsedResponse(99, usage=usage)])
    assert not isinstance(record, DraftTotals)
    return record


@pytest.mark.parametrize("name", ENGINES)
def test_completion_tokens_are_those_of_the_last_usage(name: str) -> None:
    with_usage = adapt(name, PAYLOADS[name], usage=Usage(3, 9))
    without = adapt(name, PAYLOADS[name])
    assert with_usage is not None
    assert without is not None
    assert (with_usage.completion_tokens, without.completion_tokens) == (9, None)
    assert with_usage.mean_acceptance_length == 2.0
    assert with_usage.draft_acceptance_rate == 0.4
    assert with_usage.acceptance_histogram == {0: 2, 2: 2}


@pytest.mark.parametrize("name", ENGINES)
def test_every_signature_key_is_needed_and_no_other(name: str) -> None:
    signatures = {
        "vllm": {"acceptance_histogram", "num_spec_steps", "mean_acceptance_length"},
        "tensorrt_llm": {"total_accepted_draft_tokens", "total_draft_tokens"},
        "sglang": {*PAYLOADS["sglang"]},
    }
    adapter = ADAPTERS[name]
    signature = dict.fromkeys(signatures[name])
    assert adapter.can_adapt([ParsedResponse(0, spec_decode_stats=signature)])
    for key in signature:
        part = {other: None for other in signature if other != key}
        assert not adapter.can_adapt([ParsedResponse(0, spec_decode_stats=part)])


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("stats", [None, [], {}, "x", 3, [PAYLOADS["vllm"]]])
def test_what_is_no_object_is_not_claimed(name: str, stats: Any) -> None:
    responses = [ParsedResponse(0, spec_decode_stats=stats)]
    assert not ADAPTERS[name].can_adapt(responses)
    assert ADAPTERS[name].adapt(responses) is None


@pytest.mark.parametrize("name", ENGINES)
def test_an_unknown_key_changes_nothing(name: str) -> None:
    assert adapt(name, {**PAYLOADS[name], "new_in_the_next_version": {"x": [1]}}) == adapt(name, PAYLOADS[name])


@pytest.mark.parametrize("name", ENGINES)
def test_the_last_object_counts(name: str) -> None:
    assert adapt(name, {**PAYLOADS[name], next(iter(PAYLOADS[name])): "x"}, PAYLOADS[name]) == adapt(
        name, PAYLOADS[name]
    )


@pytest.mark.parametrize("histogram", [[2, 0, 2, 0], [2, 2], [2], {"0": 2, "2": 2}, "202", None])
@pytest.mark.parametrize("name", ["vllm", "tensorrt_llm"])
def test_a_histogram_has_k_and_one_buckets(name: str, histogram: Any) -> None:
    assert adapt(name, {**PAYLOADS[name], "acceptance_histogram": histogram}) is None


@pytest.mark.parametrize("name", ["vllm", "tensorrt_llm"])
def test_without_a_fixed_draft_length_a_histogram_has_any_length(name: str) -> None:
    record = adapt(name, {**PAYLOADS[name], "acceptance_histogram": [2, 0, 2, 0, 0], "num_spec_tokens": None})
    assert record is not None
    assert (record.num_spec_tokens, record.acceptance_histogram) == (None, {0: 2, 2: 2})


@pytest.mark.parametrize("value", [2.0, "2", True, [2], {}])
@pytest.mark.parametrize("name", ["vllm", "tensorrt_llm"])
def test_a_draft_length_that_is_no_count_is_malformed(name: str, value: Any) -> None:
    assert adapt(name, {**PAYLOADS[name], "num_spec_tokens": value}) is None


def test_vllm_figures_are_taken_as_sent() -> None:
    record = adapt("vllm", {**PAYLOADS["vllm"], "mean_acceptance_length": 2.125, "draft_acceptance_rate": 0.403})
    assert record is not None
    assert (record.mean_acceptance_length, record.draft_acceptance_rate) == (2.125, 0.403)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("vllm", {"mean_acceptance_length": 1e200}),
        ("vllm", {"mean_acceptance_length": PAYLOADS["vllm"]["num_spec_tokens"] + 1.1}),
        ("vllm", {"draft_acceptance_rate": 0.99}),
        ("tensorrt_llm", {"acceptance_rate": 0.99}),
        ("tensorrt_llm", {"acceptance_rate": 0.99, "num_spec_tokens": None}),
    ],
)
def test_figures_that_the_counts_cannot_have_are_malformed(name: str, change: dict[str, Any]) -> None:
    assert adapt(name, PAYLOADS[name]) is not None
    assert adapt(name, {**PAYLOADS[name], **change}) is None


@pytest.mark.parametrize(
    ("accepted", "drafted"),
    [([2, 0, 2, 0], [2, 2, 2, 4]), ([2, 0, 2], None), ({"0": 2}, None), ("2020", None), (5, None)],
)
def test_vllm_arrays_that_do_not_fit_are_malformed(accepted: Any, drafted: Any) -> None:
    payload = {**PAYLOADS["vllm"], "per_step_accepted": accepted, "per_step_drafted": drafted}
    assert adapt("vllm", payload) is None


def test_sglang_derives_its_figures() -> None:
    sent = {"spec_accept_length": 9.9, "spec_accept_rate": 0.99, "spec_num_proposed_drafts": 0}
    payload = {**PAYLOADS["sglang"], **sent, "spec_num_correct_drafts": 0, "spec_correct_drafts_histogram": [4]}
    record = adapt("sglang", payload)
    assert record is not None
    assert (record.mean_acceptance_length, record.draft_acceptance_rate) == (1.0, 0.0)
