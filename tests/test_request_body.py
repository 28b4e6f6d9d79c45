from __future__ import annotations

from typing import Any

import pytest

from aiperf_spec.config.choices import EndpointType
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.wire.request_body import build_body, prompts_and_samples
from aiperf_spec.workload.prompts import Prompt

TEXT = Prompt("a", text="hello")
OTHER = Prompt("b", text="world")
TALK = Prompt(
    "c",
    messages=(
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image_url"}], "name": "x"},
    ),
)


def body(*prompts: Prompt, **values: Any) -> dict[str, Any]:
    config = ProfileConfig(url="http://h:1", **values)
    return build_body(config, "m", prompts or (TEXT,))


def test_chat() -> None:
    assert body() == {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_chat_sends_messages_as_they_were_given() -> None:
    assert body(TALK)["messages"] == list(TALK.messages or ())


def test_completions() -> None:
    assert body(endpoint_type="completions", streaming=False) == {"model": "m", "prompt": "hello", "stream": False}


def test_completions_join_the_texts_of_messages() -> None:
    assert body(TALK, endpoint_type="completions")["prompt"] == "be brief\n\nhi"


def test_a_batch_is_a_list_of_prompts() -> None:
    assert body(TEXT, OTHER, endpoint_type="completions", batch_size_text=2)["prompt"] == ["hello", "world"]


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
class TestStreamOptions:
    def test_usage_is_asked_for(self, endpoint: str) -> None:
        assert body(endpoint_type=endpoint)["stream_options"] == {"include_usage": True}

    @pytest.mark.parametrize(
        ("given", "sent"),
        [
            ({"continuous_usage_stats": True}, {"include_usage": True, "continuous_usage_stats": True}),
            ({"include_usage": False}, {"include_usage": False}),
            ({"include_usage": False, "x": 1}, {"include_usage": False, "x": 1}),
            ({"include_usage": None}, {"include_usage": None}),
            ({}, {"include_usage": True}),
        ],
    )
    def test_the_user_has_the_last_word(self, endpoint: str, given: Any, sent: Any) -> None:
        assert body(endpoint_type=endpoint, extra_inputs={"stream_options": given})["stream_options"] == sent

    def test_a_body_that_is_no_stream_has_none(self, endpoint: str) -> None:
        assert "stream_options" not in body(endpoint_type=endpoint, streaming=False)
        assert "stream_options" not in body(endpoint_type=endpoint, include_usage=False)
        assert "stream_options" not in body(endpoint_type=endpoint, extra_inputs={"stream_options": None})
        payload = Prompt("a", payload={"messages": [{"role": "user", "content": "a"}], "stream_options": None})
        assert "stream_options" not in body(payload, endpoint_type=endpoint)
        kept = {"stream_options": {"continuous_usage_stats": True}}
        assert body(endpoint_type=endpoint, include_usage=False, extra_inputs=kept).items() >= kept.items()
        extra = {"stream_options": {"include_usage": True}}
        assert "stream_options" not in body(endpoint_type=endpoint, streaming=False, extra_inputs=extra)

    def test_the_configuration_is_left_alone(self, endpoint: str) -> None:
        options = {"x": 1}
        extra = {"stream_options": options}
        config = ProfileConfig(url="h", endpoint_type=EndpointType(endpoint), extra_inputs=extra)
        assert build_body(config, "m", (TEXT,)) == build_body(config, "m", (TEXT,))
        assert (config.extra_inputs, options) == ({"stream_options": {"x": 1}}, {"x": 1})


@pytest.mark.parametrize(
    ("endpoint", "legacy", "key"),
    [
        ("chat", False, "max_completion_tokens"),
        ("chat", True, "max_tokens"),
        ("completions", False, "max_tokens"),
        ("completions", True, "max_tokens"),
    ],
)
def test_the_name_of_max_tokens(endpoint: str, legacy: bool, key: str) -> None:
    sent = body(endpoint_type=endpoint, use_legacy_max_tokens=legacy, max_tokens=9)
    assert {name: value for name, value in sent.items() if "max" in name} == {key: 9}


@pytest.mark.parametrize("key", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("endpoint", ["chat", "completions"])
@pytest.mark.parametrize("value", [5, None])
def test_max_tokens_in_extra_inputs_is_the_only_one(endpoint: str, key: str, value: int | None) -> None:
    sent = body(endpoint_type=endpoint, max_tokens=9, extra_inputs={key: value})
    assert {name: value for name, value in sent.items() if "max" in name} == {key: value}


def test_no_limit_is_sent_unasked() -> None:
    assert not [key for key in body() if "max" in key or key == "temperature"]


def test_extra_inputs_win() -> None:
    assert body(temperature=0.5, extra_inputs={"temperature": 0})["temperature"] == 0
    assert body(temperature=0.0)["temperature"] == 0.0
    assert body(extra_inputs={"return_spec_tokens_details": True})["return_spec_tokens_details"] is True


@pytest.mark.parametrize(
    ("given", "several"),
    [
        ({}, False),
        ({"n": 1}, False),
        ({"n": 2}, True),
        ({"n": 2.0}, True),
        ({"n": True}, False),
        ({"n": "2"}, True),
        ({"n": "1"}, False),
        ({"n": "many"}, False),
        ({"n": None}, False),
        ({"best_of": 1}, False),
        ({"best_of": 3}, True),
        ({"n": 1, "best_of": 3}, True),
        ({"prompt": "a"}, False),
        ({"prompt": ["a"]}, False),
        ({"prompt": ["a", "b"]}, True),
        ({"prompt": []}, False),
        ({"prompt": [1, 2, 3]}, False),
        ({"prompt": [[1, 2, 3]]}, False),
        ({"prompt": [[1, 2], [3]]}, True),
        ({"messages": [{"role": "user"}, {"role": "user"}]}, False),
    ],
)
def test_asks_for_several_sequences(given: dict[str, Any], several: bool) -> None:
    assert (prompts_and_samples(given) != (1, 1)) is several


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (1, 1)),
        ({"n": 3}, (1, 3)),
        ({"n": "2", "best_of": 5}, (1, 5)),
        ({"n": True, "prompt": ["a", "b"]}, (2, 1)),
        ({"n": 2, "prompt": [[1], [2], [3]]}, (3, 2)),
        ({"n": "inf", "prompt": [1, 2]}, (1, 1_000_000)),
        ({"n": "nan", "best_of": 0}, (1, 1)),
    ],
)
def test_prompts_and_samples(given: dict[str, Any], expected: tuple[int, int]) -> None:
    assert prompts_and_samples(given) == expected
