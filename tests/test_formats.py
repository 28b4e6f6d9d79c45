from __future__ import annotations

from typing import Any

import pytest

from aiperf_spec.config.choices import DatasetSelector, DatasetType, EndpointType
from aiperf_spec.workload.formats import PLACEHOLDER, detect, to_prompt
from aiperf_spec.workload.prompts import Prompt
from aiperf_spec.workload.row_settings import RowFaultError, unsent_fields

T = DatasetType


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def prompt(kind: DatasetType, endpoint: EndpointType = EndpointType.CHAT, **row: Any) -> Prompt:
    return to_prompt(row, kind, "line-1", endpoint)


@pytest.mark.parametrize("kind", [T.SINGLE_TURN, T.RANDOM_POOL])
def test_single_turn(kind: DatasetType) -> None:
    row: dict[str, Any] = {"text": "a", "category": "c", "output_length": 9, "extra": {"top_p": 0.5}, "question_id": 7}
    assert prompt(kind, **row) == Prompt("7", text="a", category="c", output_length=9, extra={"top_p": 0.5})


PARTS = [{"type": "text", "text": "what is it?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}]
CALL = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f"}}]}


@pytest.mark.parametrize(
    "messages",
    [
        [user("a")],
        [user(PARTS)],
        [{"role": "developer", "content": "b"}, {**user("a"), "name": "x"}],
        [user("a"), CALL, {"role": "tool", "tool_call_id": "1", "content": "3"}],
        [user("a"), user("b")],
    ],
)
def test_messages_pass_through_untouched(messages: list[dict[str, Any]]) -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    found = prompt(T.SINGLE_TURN, messages=messages, tools=tools)
    assert found.as_messages() == messages
    assert found.extra == {"tools": tools}
    assert found.later == ()


@pytest.mark.parametrize("turns", [[{"text": "a"}, {"prompt": "b"}], ["a", "b"], ["a", {"messages": [user("b")]}]])
def test_multi_turn(turns: list[Any]) -> None:
    assert prompt(T.MULTI_TURN, session_id="s", turns=turns) == Prompt("s", text="a", later=((user("b"),),))


@pytest.mark.parametrize("kind", [T.SPEC_BENCH, T.MT_BENCH])
def test_questions(kind: DatasetType) -> None:
    found = prompt(kind, question_id=81, category="writing", turns=["a", "b", "c"], reference=["x"])
    assert found == Prompt("81", text="a", category="writing", later=((user("b"),), (user("c"),)))


def test_speed_bench_makes_a_turn_of_each_user_message() -> None:
    system = {"role": "system", "content": "be brief"}
    found = prompt(T.SPEED_BENCH, question_id="q", category="qa", messages=[system, user("a"), user("b")])
    assert found == Prompt("q", messages=(system, user("a")), category="qa", later=((user("b"),),))


def test_speed_bench_with_answers_of_its_own_is_one_request() -> None:
    messages = [user("a"), {"role": "assistant", "content": "x"}, user("b")]
    found = prompt(T.SPEED_BENCH, messages=messages)
    assert (found.as_messages(), found.later) == (messages, ())


def test_sharegpt_takes_questions_and_leaves_answers() -> None:
    spoken = [("gpt", "hi"), ("system", "be brief"), ("human", "a"), ("gpt", "x"), ("user", "b"), ("human", "c")]
    found = prompt(T.SHAREGPT, id="s", conversations=[{"from": who, "value": what} for who, what in spoken])
    system = {"role": "system", "content": "be brief"}
    assert found == Prompt("s", messages=(system, user("a")), later=((user("b"), user("c")),))


def test_sharegpt_with_the_keys_of_messages() -> None:
    spoken = [("assistant", "hi"), ("user", "a"), ("assistant", "x"), ("user", "b")]
    found = prompt(T.SHAREGPT, id="s", conversations=[{"role": who, "content": what} for who, what in spoken])
    assert found == Prompt("s", messages=(user("a"),), later=((user("b"),),))


@pytest.mark.parametrize("key", ["output_length", "output_tokens", "max_tokens", "max_completion_tokens"])
def test_every_name_of_an_output_length(key: str) -> None:
    row: dict[str, Any] = {"prompt": "a", key: 7}
    assert prompt(T.SINGLE_TURN, **row).output_length == 7
    turns = [{"text": "a", key: 5}, {"text": "b", "output_length": 6, "extra": {"seed": 1}, "delay": 1500}, "c"]
    found = prompt(T.MULTI_TURN, turns=turns, extra={"top_p": 0.5}, output_tokens=9)
    assert (found.output_length, found.extra, found.delay_ms) == (5, {"top_p": 0.5}, 0)
    second = found.after({"role": "assistant", "content": "x"})
    assert (second.output_length, second.extra, second.delay_ms) == (6, {"top_p": 0.5, "seed": 1}, 1500)
    third = second.after({"role": "assistant", "content": "y"})
    assert (third.output_length, third.extra, third.delay_ms, third.later) == (9, {"top_p": 0.5}, 0, ())


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        (T.SINGLE_TURN, {"prompt": "a"}),
        (T.MULTI_TURN, {"turns": ["a"]}),
        (T.SHAREGPT, {"conversations": [{"from": "human", "value": "a"}]}),
    ],
)
def test_a_system_prompt_beside_a_prompt(kind: DatasetType, row: dict[str, Any]) -> None:
    messages = [{"role": "system", "content": "be brief"}, user("a")]
    assert prompt(kind, system="be brief", **row).as_messages() == messages


def test_images_are_parts_of_the_message() -> None:
    url = "https://h/a.png"
    parts = [{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": url}}]
    assert prompt(T.SINGLE_TURN, text="what?", image=url).as_messages() == [user(parts)]
    assert prompt(T.MULTI_TURN, turns=[{"text": "what?", "images": [url]}]).as_messages() == [user(parts)]
    with pytest.raises(RowFaultError, match="an image cannot be sent to completions"):
        to_prompt({"text": "what?", "image": url}, T.SINGLE_TURN, "x", EndpointType.COMPLETIONS)


@pytest.mark.parametrize(
    ("kind", "row", "unsent"),
    [
        (T.SINGLE_TURN, {"text": "a", "id": 1, "source": "x", "extra": {}, "max_tokens": 3}, set()),
        (
            T.SINGLE_TURN,
            {"text": "a", "timestamp": 5, "temperature": 0, "tools": []},
            {"timestamp", "temperature", "tools"},
        ),
        (T.SINGLE_TURN, {"messages": [], "tools": [], "system": "x", "seed": None}, {"system"}),
        (
            T.MULTI_TURN,
            {"turns": ["a", {"text": "b", "delay": 5, "audio": "x"}], "delay": 1},
            {"delay", "turns[].audio"},
        ),
        (T.MULTI_TURN, {"turns": [{"text": "a", "delay": 5}]}, {"turns[].delay"}),
        (T.RAW_PAYLOAD, {"messages": [], "temperature": 0}, set()),
    ],
)
def test_fields_that_ask_for_something_and_are_not_sent(
    kind: DatasetType, row: dict[str, Any], unsent: set[str]
) -> None:
    assert unsent_fields(row, kind) == unsent


@pytest.mark.parametrize(
    ("kind", "row", "due_ms", "later_ms"),
    [
        (T.SINGLE_TURN, {"text": "a", "timestamp": 7}, 7, []),
        (T.SINGLE_TURN, {"text_input": "a", "timestamp": 7.5, "hash_ids": [1]}, 7.5, []),
        (T.SHAREGPT, {"conversations": [{"from": "human", "value": "a"}], "timestamp": 0}, 0, []),
        (T.MULTI_TURN, {"turns": [{"text": "a", "timestamp": 7}, "b"]}, 7, []),
        (T.MULTI_TURN, {"timestamp": 7, "turns": ["a", {"text": "b", "timestamp": 9}, "c"]}, 7, [9, None]),
        (T.RAW_PAYLOAD, {"payload": {"messages": [user("a")]}, "timestamp": 7}, 7, []),
    ],
)
def test_times_of_rows(kind: DatasetType, row: dict[str, Any], due_ms: float, later_ms: list[float | None]) -> None:
    found = to_prompt(row, kind, "x", EndpointType.CHAT, is_timed=True)
    assert (found.due_ms, [each.due_ms for each in found.later_settings]) == (due_ms, later_ms)
    assert to_prompt(row, kind, "x", EndpointType.CHAT).due_ms is None
    assert not {"timestamp", "turns[].timestamp"} & unsent_fields(row, kind, is_timed=True)
    assert {"timestamp", "turns[].timestamp"} & unsent_fields(row, kind)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"text": "a"}, "no timestamp, which --fixed-schedule needs in each row"),
        ({"text": "a", "timestamp": -1}, "timestamp must be milliseconds from 0, got -1"),
        ({"text": "a", "timestamp": "2026-01-01"}, "timestamp must be milliseconds from 0, got '2026-01-01'"),
        ({"text": "a", "timestamp": True}, "timestamp must be milliseconds from 0, got True"),
        ({"text": "a", "timestamp": float("nan")}, "timestamp must be milliseconds from 0, got nan"),
        ({"timestamp": 1, "input_length": 9, "hash_ids": [1]}, "input_length without a text"),
    ],
)
def test_a_row_without_a_time(row: dict[str, Any], told: str) -> None:
    with pytest.raises(RowFaultError) as caught:
        to_prompt(row, T.SINGLE_TURN, "x", EndpointType.CHAT, is_timed=True)
    assert told in str(caught.value)


def test_a_raw_payload_is_the_body() -> None:
    row: dict[str, Any] = {"messages": [user("a")], "model": "m", "max_tokens": 3}
    assert prompt(T.RAW_PAYLOAD, **row) == Prompt("line-1", payload=row)
    assert prompt(T.RAW_PAYLOAD, payload=row).payload == row
    assert prompt(T.RAW_PAYLOAD, EndpointType.COMPLETIONS, prompt=[1, 2]).payload == {"prompt": [1, 2]}


@pytest.mark.parametrize(
    ("kind", "row", "what"),
    [
        (T.SINGLE_TURN, {"text": " \n"}, "text must be a non-empty string"),
        (T.SINGLE_TURN, {"text": "a", "output_length": 0}, "output_length must be a whole number of tokens from 1"),
        (T.SINGLE_TURN, {"text": "a", "output_length": True}, "output_length must be"),
        (T.SINGLE_TURN, {"text": "a", "output_length": "9"}, "output_length must be"),
        (T.SINGLE_TURN, {"text": "a", "extra": ["x"]}, "extra must be an object"),
        (T.SINGLE_TURN, {"text": "a", "extra": {"model": "m"}}, "extra may not set 'model'"),
        (T.SINGLE_TURN, {"text": "a", "extra": {"x": float("nan")}}, "cannot be sent as JSON"),
        (T.SINGLE_TURN, {"text": PLACEHOLDER + ": q1"}, "placeholder"),
        (T.SPEED_BENCH, {"messages": [user(PLACEHOLDER)]}, "placeholder"),
        (T.SPEED_BENCH, {"text": "a"}, "messages must be a non-empty list of objects"),
        (T.MULTI_TURN, {"turns": []}, "turns must be a non-empty list"),
        (T.MULTI_TURN, {"turns": [{"text": "a"}, {"text": ""}]}, "turns[1].text must be a non-empty string"),
        (T.MULTI_TURN, {"turns": [{}]}, "turns[0].text must be"),
        (T.MULTI_TURN, {"turns": ["a", "b"], "extra": {"n": 2}}, "extra.n asks for more"),
        (T.SPEC_BENCH, {"turns": ["a", 3]}, "turns[1] must be a non-empty string"),
        (T.SHAREGPT, {"conversations": []}, "conversations must be a non-empty list"),
        (T.SHAREGPT, {"conversations": [{"from": "gpt", "value": "x"}]}, "nobody asks anything"),
        (T.SHAREGPT, {"conversations": [{"from": "me", "value": "x"}]}, "conversations[0].from must be"),
        (T.SHAREGPT, {"conversations": ["x"]}, "conversations[0].from must be"),
        (T.MULTI_TURN, {"turns": ["a", {"text": "b", "delay": -1}]}, "turns[1].delay must be milliseconds"),
        (T.MULTI_TURN, {"turns": [{"text": "a", "output_tokens": 0}]}, "turns[0].output_tokens must be"),
        (T.SINGLE_TURN, {"text": "a", "image": "picture.png"}, "image must be a file or a URL"),
        (T.RAW_PAYLOAD, {"prompt": "a"}, "a request body for chat needs 'messages'"),
        (T.RAW_PAYLOAD, {"messages": [user(PLACEHOLDER)]}, "placeholder"),
        (T.RAW_PAYLOAD, {"messages": [user("a")], "stream_options": 1}, "stream_options must be an object"),
    ],
)
def test_what_is_wrong_with_a_row(kind: DatasetType, row: dict[str, Any], what: str) -> None:
    with pytest.raises(RowFaultError) as caught:
        prompt(kind, **row)
    assert what in str(caught.value)


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"text": "a"}, {T.SINGLE_TURN}),
        ({"prompt": "a", "model": "x"}, {T.SINGLE_TURN}),
        ({"messages": []}, {T.SINGLE_TURN}),
        ({"messages": [], "model": "m"}, {T.SINGLE_TURN}),
        ({"messages": [], "model": "m", "max_tokens": 3}, {T.RAW_PAYLOAD}),
        ({"messages": [], "question_id": "q", "category": "c"}, {T.SPEED_BENCH}),
        ({"turns": ["a"], "question_id": 81, "category": "c"}, {T.SPEC_BENCH}),
        ({"turns": ["a"]}, {T.MULTI_TURN}),
        ({"turns": [{"text": "a"}], "question_id": 81}, {T.MULTI_TURN}),
        ({"conversations": []}, {T.SHAREGPT}),
        ({"text_input": "a", "timestamp": 0}, {T.SINGLE_TURN}),
        ({"payload": {"messages": []}, "timestamp": 0}, {T.RAW_PAYLOAD}),
        ({"other": 1}, set()),
        ("text", set()),
    ],
)
def test_what_a_row_looks_like(row: Any, kind: set[DatasetType]) -> None:
    assert detect([row]) == kind


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("auto", ("auto", T.AUTO, None, None)),
        ("Single-Turn", ("single_turn", T.SINGLE_TURN, None, None)),
        ("speed-bench", ("speed_bench", T.SPEED_BENCH, None, None)),
        ("speed_bench_qualitative", ("speed_bench_qualitative", T.SPEED_BENCH, "qualitative", None)),
        ("speed-bench-coding", ("speed_bench_coding", T.SPEED_BENCH, "qualitative", "coding")),
        ("speed_bench_throughput_1k", ("speed_bench_throughput_1k", T.SPEED_BENCH, "throughput_1k", None)),
        (
            "speed_bench_throughput_16k_low_entropy",
            ("speed_bench_throughput_16k_low_entropy", T.SPEED_BENCH, "throughput_16k", "low_entropy"),
        ),
    ],
)
def test_the_names_of_types(text: str, found: tuple[Any, ...]) -> None:
    assert DatasetSelector.parse(text) == DatasetSelector(*found)


@pytest.mark.parametrize("text", ["", "multiturn", "speed_bench_"])
def test_a_name_of_no_type(text: str) -> None:
    with pytest.raises(ValueError, match="expected auto, single_turn"):
        DatasetSelector.parse(text)
    with pytest.raises(ValueError, match="did you mean multi_turn"):
        DatasetSelector.parse("multiturn")
