"""Cases of token counts, latencies and acceptance."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiperf_spec import DropReason, RequestRecord
from aiperf_spec.metrics.latency import inter_token_latency, output_token_throughput_per_user, request_latency
from aiperf_spec.models.run import ErrorKind, NoticeKind
from tests.public_cases.cases import CASES, Case
from tests.public_cases.expectations import check
from tests.public_cases.running import Run, gaps_ms, latency_ms, run_case

NONE = ["0", *"–" * 7]
"""The printed row of a latency that no request has."""


def _itl(record: RequestRecord) -> float:
    value = inter_token_latency(record)
    assert value is not None
    return value


def trailing_usage(run: Run) -> None:
    # The usage chunk comes 600 ms after the last token.
    assert latency_ms(run.only) == pytest.approx(100, abs=1)
    assert _itl(run.only) == pytest.approx(50, abs=1)
    assert float(run.row("Request latency (ms)")[1]) == pytest.approx(latency_ms(run.only), abs=0.5)


def running_usage(run: Run) -> None:
    # 150 ms over 7 - 1 tokens: that the first chunk bundles four does not change the divisor.
    assert _itl(run.only) == pytest.approx(sum(gaps_ms(run.only)) / 6)
    assert _itl(run.only) == pytest.approx(25, abs=1)
    assert run.summary.run_values["total_osl"] == 7


def reasoning_first(run: Run) -> None:
    for record in run.records:
        responses = run.responses(record.index)
        assert "".join(response.reasoning for response in responses) == "t1t2"
        assert "".join(response.text for response in responses) == "ab"
        # The answer begins 400 ms after the thought.
        assert gaps_ms(record)[1] == pytest.approx(400, abs=1)


def tool_calls(run: Run) -> None:
    assert gaps_ms(run.only) == pytest.approx([50, 50], abs=1)
    assert run.row("Output tokens")[:2] == ["1", "17.00"]
    (asked,) = run.stub.posts
    assert asked.body["max_completion_tokens"] == 100


def requested_count(run: Run) -> None:
    assert run.row("Output tokens")[:2] == ["1", "2.00"]
    (asked,) = run.stub.posts
    assert asked.body["max_tokens"] == 100


def division_by_zero(run: Run) -> None:
    empty, body, one, zero = run.records
    assert empty.error is not None
    assert empty.error.kind is ErrorKind.EMPTY
    assert [record.output_tokens for record in (body, one, zero)] == [1, 1, 0]
    assert all(record.succeeded for record in (body, one, zero))
    for record in run.records:
        assert inter_token_latency(record) is None
        assert output_token_throughput_per_user(record) is None
    assert body.first_content_ns is None
    assert run.row("ITL (ms)") == NONE
    assert run.row("Tokens/s per user") == NONE
    assert run.row("Output tokens")[:3] == ["3", "0.67", "0.00"]
    assert run.notices(NoticeKind.ZERO_USAGE) == [
        "1 response of 3 had content, but usage says 0 completion tokens. Output lengths are shown as the server "
        "reported them"
    ]


_REFUSED = "unsupported parameter max_tokens; send max_completion_tokens"


def names_of_max_tokens(run: Run) -> None:
    def sent(name: str, **changes: Any) -> tuple[dict[str, Any], Run]:
        again = run_case(run.case, run.folder.with_name(name), **changes)
        (asked,) = again.stub.posts
        return {key: value for key, value in asked.body.items() if "tokens" in key}, again

    assert run.only.succeeded
    assert [response.text for response in run.responses(0) if response.is_content] == ["a", "b"]
    (asked,) = run.stub.posts
    assert asked.body["max_completion_tokens"] == 8
    assert "max_tokens" not in asked.body
    body, extra = sent("extra", use_legacy_max_tokens=True, extra_inputs={"max_completion_tokens": 16})
    assert body == {"max_completion_tokens": 16}
    assert extra.only.succeeded

    body, legacy = sent("legacy", use_legacy_max_tokens=True)
    assert body == {"max_tokens": 8}
    assert _REFUSED in legacy.printed
    assert legacy.notices(NoticeKind.MAX_TOKENS_REFUSED) == [
        "the server does not accept max_tokens: leave out --use-legacy-max-tokens, to send max_completion_tokens"
    ]
    body, completions = sent("completions", endpoint_type="completions")
    assert body == {"max_tokens": 8}
    assert _REFUSED in completions.printed
    assert completions.notices(NoticeKind.MAX_TOKENS_REFUSED) == []
    # The name came from --extra-inputs: neither way of the option would change it.
    body, by_hand = sent("by-hand", extra_inputs={"max_tokens": 9})
    assert body == {"max_tokens": 9}
    assert _REFUSED in by_hand.printed
    assert by_hand.notices(NoticeKind.MAX_TOKENS_REFUSED) == []

    def answered(name: str, message: str) -> Run:
        refusal = run.case.script["responses"][0] | {"chunks": [{"s": json.dumps({"error": {"message": message}})}]}
        again = run_case(run.case, run.folder.with_name(name), {"responses": [refusal | {"when": {}}]})
        assert message in again.printed
        return again

    other = answered("other", "unknown field max_completion_tokens")
    assert other.notices(NoticeKind.MAX_TOKENS_REFUSED) == [
        "the server does not accept max_completion_tokens: add --use-legacy-max-tokens, to send max_tokens"
    ]
    # Here the number is refused, and no other name for it would help.
    large = answered("large", "'max_tokens' or 'max_completion_tokens' is too large: 8. The context length is 4 tokens")
    assert large.notices(NoticeKind.MAX_TOKENS_REFUSED) == []


def no_stream(run: Run) -> None:
    assert latency_ms(run.only) == pytest.approx(300, abs=1)
    assert run.only.first_content_ns is None
    assert run.only.chunk_gaps_ns is None
    for label in ("TTFT (ms)", "ITL (ms)", "Inter-chunk gap (ms)", "Tokens/s per user"):
        assert run.row(label) == NONE
    assert run.row("Request latency (ms)")[0] == "1"
    assert "time_to_first_token" not in run.document()


def histogram_shapes(run: Run) -> None:
    assert [record.drop_reason for record in run.records] == [None, DropReason.MALFORMED, DropReason.ABSENT]
    assert run.row("malformed") == ["1", "of", "3", "the", "payload", "contradicts", "itself"]
    assert run.row("absent")[:3] == ["1", "of", "3"]


def similar_engines(run: Run) -> None:
    for record in run.records:
        assert record.acceptance is not None
        assert record.acceptance.engine == "tensorrt_llm"
    assert run.row("Acceptance length") == ["2", "2.00"]
    assert run.notices(NoticeKind.ADAPTER) == []
    # The last token came with the statistics: it is timed, and the request ends there.
    assert run.responses(0)[3].is_content
    assert run.responses(0)[3].finish_reasons == ("stop",)


def unbounded_draft(run: Run) -> None:
    assert run.only.acceptance is not None
    assert run.only.acceptance.num_spec_tokens is None
    for key, value in (("total_accepted_draft_tokens", 5), ("num_spec_steps", 4)):
        (response,) = copy.deepcopy(run.case.script["responses"])
        body = json.loads(response["chunks"][0]["s"])
        body["choices"][0]["speculative_decoding"][key] = value
        response["chunks"][0]["s"] = json.dumps(body)
        altered = run_case(run.case, run.folder.with_name(key), {"responses": [response]})
        assert altered.only.drop_reason is DropReason.MALFORMED, key


def own_average(run: Run) -> None:
    # Statistics and usage come 300 and 600 ms after the last token, in either order.
    assert all(latency_ms(record) < 1 for record in run.records)
    assert run.records[2].drop_reason is DropReason.MULTI_SEQUENCE
    assert run.row("Length per request")[:2] == ["2", "2.50"]
    assert run.row("Acceptance length") == ["2", "2.50"]


def averages(run: Run) -> None:
    expected = run.case.expect["spec_summary"]
    lengths = run.summary.record_stats["spec_decode_acceptance_length"]
    rates = run.summary.record_stats["spec_decode_draft_acceptance_rate"]
    assert run.summary.acceptance.requests == lengths.count == expected["records"]
    assert lengths.avg == pytest.approx(expected["mean_accept_len"])
    assert run.summary.acceptance.length == pytest.approx(expected["pooled_accept_len"])
    assert (run.summary.acceptance.steps, run.summary.acceptance.accepted) == (10, 1)
    assert rates.avg == pytest.approx(100 / 6)
    assert run.summary.acceptance.rate == pytest.approx(1 / 30)
    assert run.row("Length per request")[:2] == ["2", "1.50"]
    assert run.row("Rate per request (%)")[:2] == ["2", "16.67"]
    assert run.row("Acceptance length") == ["2", "1.10"]
    assert run.row("Draft accept. rate (%)") == ["2", "3.33"]
    assert "2 of 3 successful requests reported acceptance" in run.printed
    assert "In bold rows every verify step has the same weight; the other rows are over requests." in (
        " ".join(run.printed.split())
    )
    assert run.row("absent")[:3] == ["1", "of", "3"]


def unknown_engine(run: Run) -> None:
    # Drafts without the engine's other keys may be another engine's.
    assert run.only.drop_reason is DropReason.UNRECOGNIZED
    assert run.row("Inter-chunk gap (ms)")[0] == "1"


def stripped_by_a_proxy(run: Run) -> None:
    assert run.only.output_tokens is None
    assert request_latency(run.only) is not None
    assert run.row("Output tokens") == NONE
    assert "– output tokens/s" in run.printed
    assert "Acceptance length" not in run.printed
    assert "0 of 1 successful request reported acceptance" in run.printed
    assert len(run.notices(NoticeKind.NO_ACCEPTANCE)) == 1
    assert len(run.notices(NoticeKind.NO_TOKEN_COUNTS)) == 1


def not_a_number(run: Run) -> None:
    assert [r.drop_reason for r in run.records] == [DropReason.MALFORMED, DropReason.ABSENT, DropReason.ABSENT]


def nothing_more(run: Run) -> None:
    """Say that the stated expectations are the whole case."""


CHECKS: dict[str, Callable[[Run], None]] = {
    "vllm-project/vllm#55508": trailing_usage,
    "BerriAI/litellm#17136": nothing_more,
    "ai-dynamo/aiperf#1279": running_usage,
    "vllm-project/vllm#3759": nothing_more,
    "vllm-project/guidellm#737": reasoning_first,
    "sgl-project/sglang#36272": tool_calls,
    "sgl-project/sglang#24254": requested_count,
    "ray-project/llmperf#55": division_by_zero,
    "SeraphimSerapis/tool-eval-bench#72": names_of_max_tokens,
    "modelscope/evalscope#1499": no_stream,
    "ai-dynamo/aiperf#1167": histogram_shapes,
    "ai-dynamo/aiperf#1433": similar_engines,
    "NVIDIA/TensorRT-LLM#19311": unbounded_draft,
    "sgl-project/sglang#33518": own_average,
    "sgl-project/sglang#34743": averages,
    "ggml-org/llama.cpp#12603": unknown_engine,
    "BerriAI/litellm#5197": stripped_by_a_proxy,
    "exo-explore/exo#1622": not_a_number,
}


@pytest.mark.parametrize("case_id", CHECKS)
def test_case(case_id: str, tmp_path: Path) -> None:
    case: Case = CASES[case_id]
    run = run_case(case, tmp_path / "run")
    check(run)
    CHECKS[case_id](run)
