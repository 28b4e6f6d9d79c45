from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf_spec.adapters.registry import BUILT_IN, AdapterRegistry
from aiperf_spec.models.response import ParsedResponse, Usage
from aiperf_spec.wire.chunk import message_of, parse_event
from aiperf_spec.wire.sse import SSEEvent

PATHS = AdapterRegistry(BUILT_IN).payload_paths


def parse(value: Any, *, kind: bytes = b"") -> ParsedResponse:
    """Parse an event of JSON, or of bytes as they are, that has to say something."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    response = parse_event(SSEEvent(data, kind), 7, PATHS)
    assert response is not None
    assert response.arrival_ns == 7
    return response


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def message(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": {"role": "assistant", **fields}, "finish_reason": "stop"}]}


CONTENT: list[tuple[dict[str, Any], str, str]] = [
    ({"content": "hi"}, "hi", ""),
    ({"content": " "}, " ", ""),
    ({"content": "\n"}, "\n", ""),
    ({"reasoning_content": "hm"}, "", "hm"),
    ({"reasoning": "hm"}, "", "hm"),
    ({"reasoning": "hm", "reasoning_content": "hm"}, "", "hm"),
    ({"reasoning": "hm", "reasoning_content": None}, "", "hm"),
    ({"reasoning": "hm", "reasoning_content": ""}, "", "hm"),
    ({"content": "hi", "reasoning_content": "hm"}, "hi", "hm"),
    ({"thinking": "hm"}, "", "hm"),
    ({"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}, "", "hm"),
    ({"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}, "", "hm"),
    ({"content": "", "audio": {"id": "a", "data": "UklGRg=="}}, "", ""),
    ({"audio": {"transcript": "hi"}}, "", ""),
    ({"refusal": "no"}, "no", ""),
    ({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]}, "", ""),
    ({"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}, "", ""),
    ({"function_call": {"name": "f", "arguments": ""}}, "", ""),
    ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab", ""),
    ({"content": [{"type": "text", "text": "a"}, {"type": "image"}, "x", {"text": 3}]}, "a", ""),
]


@pytest.mark.parametrize("shape", [delta, message], ids=["delta", "message"])
@pytest.mark.parametrize("role", [{}, {"role": "assistant"}], ids=["alone", "with role"])
@pytest.mark.parametrize(("fields", "text", "reasoning"), CONTENT, ids=[json.dumps(row[0])[:50] for row in CONTENT])
def test_what_is_content(fields: dict[str, Any], text: str, reasoning: str, role: dict[str, Any], shape: Any) -> None:
    response = parse(shape(**role, **fields))
    assert (response.is_content, response.text, response.reasoning) == (True, text, reasoning)
    assert response.choice_indices == (0,)
    assert response.error is None


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"role": "assistant"},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": None},
        {"content": ""},
        {"content": None},
        {"content": []},
        {"content": 0},
        {"content": {"text": "x"}},
        {"role": "assistant", "content": "", "reasoning_content": None, "tool_calls": None, "refusal": None},
        {"reasoning": ""},
        {"reasoning": 1},
        {"thinking": ""},
        {"thinking": 1},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]},
        {"reasoning_details": []},
        {"audio": {"id": "a"}},
        {"audio": "x"},
        {"tool_calls": []},
        {"function_call": None},
        {"refusal": ""},
        {"refusal": 1},
    ],
    ids=json.dumps,
)
def test_what_is_no_content(fields: dict[str, Any]) -> None:
    response = parse(delta(**fields))
    assert (response.is_content, response.text, response.reasoning) == (False, "", "")
    assert response.choice_indices == (0,)


@pytest.mark.parametrize(
    ("fields", "unread"),
    [
        ({"role": "assistant", "name": "bot"}, ()),
        ({"thought": "hm"}, ("thought",)),
        ({"thought": [{"text": "hm"}], "content": None}, ("thought",)),
        ({"thought": {"text": "hm"}, "plan": ["x"], "seed": 7, "flag": True, "empty": ""}, ("thought", "plan")),
        ({"role": "assistant", "content": {"text": "x"}}, ("content",)),
        ({"thought": [[[["x"]]]]}, ()),
        ({"content": "x", "provider": "p"}, ()),
    ],
)
def test_text_that_is_not_read_is_seen_where_there_is_no_content(fields: Any, unread: tuple[str, ...]) -> None:
    assert parse(delta(**fields)).unread_fields == unread


def test_text_completions() -> None:
    response = parse({"choices": [{"index": 0, "text": "a"}]})
    assert (response.is_content, response.text) == (True, "a")
    assert not parse({"choices": [{"index": 0, "text": ""}]}).is_content


def test_a_finish_only_chunk_is_no_content() -> None:
    response = parse({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
    assert (response.is_content, response.finish_reasons) == (False, ("length",))


def test_a_last_token_may_come_with_the_finish_reason() -> None:
    response = parse({"choices": [{"index": 0, "delta": {"content": "."}, "finish_reason": "stop"}]})
    assert (response.is_content, response.finish_reasons) == (True, ("stop",))


@pytest.mark.parametrize("reason", [None, "", 0, [], {}])
def test_what_is_no_finish_reason(reason: Any) -> None:
    assert parse({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).finish_reasons == ()


def test_several_choices_in_one_event() -> None:
    response = parse(
        {"choices": [{"index": 1, "text": "b", "finish_reason": "stop"}, {"index": 0, "text": "a"}, {"index": 1}]}
    )
    assert response.choice_indices == (1, 0)
    assert response.text == "ba"
    assert response.finish_reasons == ("stop",)


@pytest.mark.parametrize("index", [None, "0", 1.0, True])
def test_a_choice_without_a_usable_index_has_its_position(index: Any) -> None:
    assert parse({"choices": [{"text": "a"}, {"index": index, "text": "b"}]}).choice_indices == (0, 1)


@pytest.mark.parametrize("choices", [None, [], {}, "x", 3, [None], ["x"], [[]]])
def test_choices_that_hold_none(choices: Any) -> None:
    response = parse({"choices": choices, "usage": {"completion_tokens": 3}})
    assert response.choice_indices == ()
    assert not response.is_content
    assert response.usage == Usage(None, 3)


@pytest.mark.parametrize("choice", [{"delta": None}, {"delta": []}, {"delta": "x"}, {"message": None}, {}])
def test_a_choice_without_an_object_in_it(choice: dict[str, Any]) -> None:
    response = parse({"choices": [choice]})
    assert (response.is_content, response.choice_indices) == (False, (0,))


def test_a_usage_chunk() -> None:
    response = parse(
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14, "details": {"x": 1}}}
    )
    assert response.usage == Usage(5, 9, 14)
    assert not response.is_content


@pytest.mark.parametrize("usage", [None, {}, [], "x", 3, {"prompt_tokens": None}, {"completion_tokens": "9"}])
def test_usage_without_a_count_is_none(usage: Any) -> None:
    assert parse({"choices": [], "usage": usage}).usage is None


@pytest.mark.parametrize("count", ["3", 3.0, True, -1, 2**53, 2**64, 2**65, 10**400, None, [3]])
def test_what_is_no_token_count(count: Any) -> None:
    assert parse({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": count}}).usage == Usage(5, None)


def test_a_zero_count_is_a_count() -> None:
    assert parse({"choices": [], "usage": {"completion_tokens": 0}}).usage == Usage(None, 0)


ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"error": {"message": "too long", "code": 400}}, "too long"),
    ({"error": {"object": "error", "message": "timeout", "type": "SERVICE"}}, "timeout"),
    ({"error": "too long"}, "too long"),
    ({"error": {"error": {"message": "inner"}}}, "inner"),
    ({"error": {"detail": [{"msg": "first"}, {"msg": "second"}]}}, "first"),
    ({"error": ["a", "b"]}, "a"),
    ({"error": {}}, "{}"),
    ({"error": {"code": 500}}, '{"code": 500}'),
    ({"error": {"message": ""}}, '{"message": ""}'),
    ({"error": 500}, "500"),
    ({"error": True}, "true"),
    ({"object": "error", "message": "flat", "type": "BadRequestError", "code": 400}, "flat"),
    ({"object": "error"}, '{"object": "error"}'),
    ({"error": {"message": "late"}, "choices": [{"index": 0, "delta": {"content": "x"}}]}, "late"),
]


@pytest.mark.parametrize(("body", "said"), ERRORS, ids=[json.dumps(body)[:60] for body, _ in ERRORS])
def test_errors_in_every_shape(body: dict[str, Any], said: str) -> None:
    response = parse(body)
    assert (response.error, response.malformed, response.is_content) == (said, False, False)
    assert response.spec_decode_stats is None
    assert response.usage is None


@pytest.mark.parametrize("error", [None, "", [], 0, False])
def test_an_empty_error_is_none(error: Any) -> None:
    response = parse({"error": error, **delta(content="x")})
    assert (response.error, response.is_content) == (None, True)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"message": "busy"}', "busy"),
        (b'{"error": {"message": "busy"}}', "busy"),
        (b'{"code": 503}', '{"code": 503}'),
        (b'"busy"', "busy"),
        (b"busy", "busy"),
        (b"caf\xc3\xa9 \xff", "café \ufffd"),
        (b"", "the server sent an error event without a message"),
        (b"[DONE]", "[DONE]"),
    ],
)
def test_an_error_event_is_an_error_whatever_its_data(data: bytes, said: str) -> None:
    response = parse(data, kind=b"error")
    assert (response.error, response.malformed) == (said, False)


def test_another_event_type_is_read_as_usual() -> None:
    response = parse({"output_ids": [1, 2]}, kind=b"sglext_ids")
    assert (response.error, response.is_content, response.spec_decode_stats) == (None, False, None)


@pytest.mark.parametrize("data", [b"[DONE]", b" [DONE]", b"[DONE] ", b"[DONE]\n"])
def test_the_end_mark(data: bytes) -> None:
    response = parse(data)
    assert response.is_done
    assert response.error is None


@pytest.mark.parametrize("data", [b"", b" ", b"\n", b"\t\n "])
def test_an_event_without_data_says_nothing(data: bytes) -> None:
    assert parse_event(SSEEvent(data), 7, PATHS) is None


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1" + "0" * 400])
def test_numbers_that_json_has_not_are_taken(number: str) -> None:
    response = parse(
        f'{{"choices":[{{"index":0,"delta":{{"content":"x"}},"logprobs":{number}}}],'
        f'"usage":{{"prompt_tokens":{number},"completion_tokens":4}}}}'.encode()
    )
    assert (response.text, response.error, response.usage) == ("x", None, Usage(None, 4))


def test_invalid_utf_8_is_replaced() -> None:
    response = parse(b'{"choices":[{"index":0,"delta":{"content":"a\xff\xc3b"}}]}')
    assert (response.text, response.error) == ("a\ufffd\ufffdb", None)


def test_separators_of_javascript_are_text() -> None:
    assert parse('{"choices":[{"index":0,"text":"a\u2028b\u0085c"}]}'.encode()).text == "a\u2028b\u0085c"


@pytest.mark.parametrize("data", [b"{", b"x", b"{]", b"{'a': 1}", b'{"a": 1} {"b": 2}', b"<html>", b"data: {}"])
def test_what_is_not_json_is_said(data: bytes) -> None:
    response = parse(data)
    assert response.malformed
    assert response.error == f"the server sent what is not JSON: {data.decode()}"


def test_null_says_nothing() -> None:
    assert parse_event(SSEEvent(b"null"), 1, ()) is None


@pytest.mark.parametrize("data", [b"[]", b"[1]", b"3", b'"text"', b"true", b"NaN"])
def test_json_that_is_no_object_is_said(data: bytes) -> None:
    response = parse(data)
    assert response.malformed
    assert response.error == f"the server sent JSON that is no object: {data.decode()}"


def test_a_long_unreadable_event_is_shown_in_part() -> None:
    error = parse(b"x" * 100_000).error
    assert error is not None
    assert len(error) < 300


@pytest.mark.parametrize("depth", [10, 500, 1000, 1020, 1500, 100_000])
@pytest.mark.parametrize(
    ("start", "opening", "closing", "end"),
    [
        (b"", b'{"error":', b"}", b""),
        (b"", b"[", b"]", b""),
        (b'{"error":', b"[", b"]", b"}"),
        (b'{"error":', b'{"x":', b"}", b"}"),
        (b'{"choices":', b"[", b"]", b"}"),
        (b'{"metrics":{"speculative_decoding":', b'{"x":', b"}", b"}}"),
    ],
)
@pytest.mark.parametrize("kind", [b"", b"error"])
def test_deep_nesting_never_raises(
    depth: int, start: bytes, opening: bytes, closing: bytes, end: bytes, kind: bytes
) -> None:
    parse(start + opening * depth + b"1" + closing * depth + end, kind=kind)


def test_message_of_shows_what_it_cannot_read() -> None:
    assert message_of({"code": 3, "reason": "é"}) == '{"code": 3, "reason": "é"}'
    assert message_of([]) == "[]"
    assert message_of(None) == "null"


class TestCapture:
    stats: ClassVar[dict[str, Any]] = {"num_spec_steps": 3}

    @pytest.mark.parametrize(
        "body",
        [
            {"metrics": {"speculative_decoding": stats}},
            {"choices": [{"index": 0, "speculative_decoding": stats}]},
            {"sglext": {"spec_tokens_details": stats}},
        ],
    )
    def test_every_engine_path_is_captured(self, body: dict[str, Any]) -> None:
        assert parse(body).spec_decode_stats == self.stats

    @pytest.mark.parametrize("empty", [None, {}, [], 0, "", "text", 3, True])
    def test_an_empty_object_counts_as_absent(self, empty: Any) -> None:
        for body in (
            {"metrics": {"speculative_decoding": empty}},
            {"metrics": empty},
            {"choices": [{"index": 0, "speculative_decoding": empty}]},
            {"sglext": {"spec_tokens_details": empty}},
            {"sglext": empty},
        ):
            assert parse(body).spec_decode_stats is None

    def test_several_objects_become_a_list(self) -> None:
        choice = {"speculative_decoding": self.stats}
        assert parse({"choices": [choice, {"index": 1}, choice]}).spec_decode_stats == [self.stats, self.stats]

    def test_a_list_is_captured_as_one(self) -> None:
        assert parse({"sglext": {"spec_tokens_details": [self.stats]}}).spec_decode_stats == [self.stats]

    def test_nothing_is_captured_without_a_path(self) -> None:
        data = json.dumps({"metrics": {"speculative_decoding": self.stats}}).encode()
        response = parse_event(SSEEvent(data), 0, ())
        assert response is not None
        assert response.spec_decode_stats is None

    def test_a_path_may_pass_through_every_item_of_a_list(self) -> None:
        data = json.dumps({"a": [{"b": [{"c": self.stats}, {"c": None}, 3]}, {"b": {}}, {"b": [{"c": [1]}]}]}).encode()
        response = parse_event(SSEEvent(data), 0, (("a", "*", "b", "*", "c"),))
        assert response is not None
        assert response.spec_decode_stats == [self.stats, [1]]


SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("error")
KEYS = st.sampled_from(
    [
        "choices",
        "delta",
        "message",
        "content",
        "text",
        "reasoning",
        "index",
        "finish_reason",
        "usage",
        "completion_tokens",
        "error",
        "object",
        "metrics",
        "speculative_decoding",
        "sglext",
        "spec_tokens_details",
        "tool_calls",
        "refusal",
        "msg",
        "detail",
    ]
)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=20
)


def check(data: bytes, kind: bytes) -> None:
    response = parse_event(SSEEvent(data, kind), 7, PATHS)
    if response is None:
        assert data.strip() in (b"", b"null")
        return
    assert response.arrival_ns == 7
    assert isinstance(response.text, str)
    assert isinstance(response.reasoning, str)
    assert response.error is None or isinstance(response.error, str)
    assert response.spec_decode_stats is None or response.spec_decode_stats
    assert all(type(index) is int for index in response.choice_indices)
    assert not response.malformed or response.error is not None


@given(data=st.binary(max_size=60) | st.text(max_size=40).map(str.encode), kind=st.sampled_from([b"", b"error"]))
def test_arbitrary_bytes_never_raise(data: bytes, kind: bytes) -> None:
    check(data, kind)


@settings(max_examples=300)
@given(value=st.dictionaries(KEYS, JSON, max_size=5) | JSON, kind=st.sampled_from([b"", b"error", b"ping"]))
def test_arbitrary_json_never_raises(value: Any, kind: bytes) -> None:
    check(json.dumps(value).encode(), kind)


def test_each_engines_own_timing_is_found_at_its_path() -> None:
    paths = (("metrics",), ("acme", "timing"), ("list", "*"))
    found = parse_event(SSEEvent(b'{"metrics": {"a": 1}, "acme": {"timing": {"b": 2}}, "list": [3]}'), 0, (), paths)
    assert found is not None
    assert found.engine_timings == {("metrics",): {"a": 1}, ("acme", "timing"): {"b": 2}}
    for other in (b'{"metrics": []}', b'{"metrics": {}}', b'{"metrics": 3, "acme": 4}', b'{"list": [{}, {}]}'):
        nothing = parse_event(SSEEvent(other), 0, (), paths)
        assert nothing is not None
        assert nothing.engine_timings is None
