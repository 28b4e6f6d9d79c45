from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_spec.config.choices import EndpointType
from aiperf_spec.config.extra_inputs import parse_extra_inputs
from aiperf_spec.config.headers import parse_header
from aiperf_spec.config.settings import ProfileConfig, ReportSettings
from aiperf_spec.config.tags import parse_tags
from aiperf_spec.errors import ConfigError, ExitCode


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("k:true", True),
        ("k:True", True),
        ("k:FALSE", False),
        ("k:null", None),
        ("k:None", None),
        ("k:1", 1),
        ("k:-3", -3),
        ("k:0.5", 0.5),
        ("k:1e3", 1000.0),
        ("k:word", "word"),
        ("k:two words", "two words"),
        ("k: spaced ", "spaced"),
        ("  k  :1", 1),
        ("k:", ""),
        ("k:a:b", "a:b"),
        ("k:http://x/y", "http://x/y"),
        ("k:nan", "nan"),
        ("k:inf", "inf"),
        ("k:-Infinity", "-Infinity"),
        ("k:1e999", "1e999"),
        ("k:1_000", "1_000"),
        ("k:0x10", "0x10"),
        ('k:"x"', '"x"'),
        ("k:[1,2]", [1, 2]),
        ("k: [1, 2]", [1, 2]),
        ("k:[]", []),
        ('k:{"a": {"b": [1, "x,y"]}}', {"a": {"b": [1, "x,y"]}}),
        ("k:tru", "tru"),
    ],
)
def test_the_value_of_a_pair(text: str, value: Any) -> None:
    parsed = parse_extra_inputs([text])
    assert parsed == {"k": value}
    assert type(parsed["k"]) is type(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1,b:2", {"a": 1, "b": 2}),
        ("a:1, b:x y ,c:null", {"a": 1, "b": "x y", "c": None}),
        ("a:[1,2],b:3", {"a": [1, 2], "b": 3}),
        ('a:{"x":1,"y":[2]},b:{"z":null}', {"a": {"x": 1, "y": [2]}, "b": {"z": None}}),
        ("a:1,", {"a": 1}),
        ("a:,b:", {"a": "", "b": ""}),
        ("a:1,a:2", {"a": 2}),
        ("a.b:1", {"a.b": 1}),
        ("min-p:0.1", {"min-p": 0.1}),
        ('{"a": 1, "b": {"c": [true, null]}}', {"a": 1, "b": {"c": [True, None]}}),
        ('  {"a": 1}\n', {"a": 1}),
        ("{}", {}),
    ],
)
def test_pairs_and_objects(text: str, expected: dict[str, Any]) -> None:
    assert parse_extra_inputs([text]) == expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], {}),
        (["a:1", "b:2"], {"a": 1, "b": 2}),
        (["a:1", "a:2"], {"a": 2}),
        (["a:1", '{"a": {"b": 1}}'], {"a": {"b": 1}}),
        (['{"x": {"a": 1}}', '{"x": {"b": 2}}'], {"x": {"b": 2}}),
        (
            ['{"stream_options": {"a": 1, "b": 1}}', 'stream_options:{"b":2}'],
            {"stream_options": {"a": 1, "b": 2}},
        ),
        (['{"stream_options": {"a": 1}}', "stream_options:null"], {"stream_options": None}),
    ],
)
def test_a_later_value_wins(texts: list[str], expected: dict[str, Any]) -> None:
    assert parse_extra_inputs(texts) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "a",
        "a,b:1",
        "a:1,b",
        "a:1,,b:2",
        ":1",
        " :1",
        "a:1,:2",
        "a:[1",
        "a:{x}",
        "a:[1]x",
        "a:[1] ,b:2x:[",
        "a:[NaN]",
        '{"a": NaN}',
        '{"a": 1',
        '{"a": 1} x',
        "{a:1}",
        "{'a': 1}",
        "{" + '"a":{' * 5000 + "}" * 5001,
        "a:" + "[" * 100_000,
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_extra_input_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--extra-inputs") as caught:
        parse_extra_inputs([text])
    assert caught.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize("digits", ["1" + "0" * 30, "1" + "0" * 400, "1" + "0" * 5000])
def test_a_number_of_any_length_is_read(digits: str) -> None:
    assert parse_extra_inputs([f"k:{digits}"])["k"] in (int(digits[:4000]), digits)


@given(st.text(max_size=30) | st.text(alphabet='ab:,[]{}"1 .-eE', max_size=30))
def test_any_text_is_a_mapping_or_a_configuration_error(text: str) -> None:
    try:
        parsed = parse_extra_inputs([text])
    except ConfigError:
        return
    assert all(isinstance(key, str) for key in parsed)
    assert parse_extra_inputs([json.dumps(parsed, allow_nan=False)]) == parsed


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"b": date(2026, 1, 1)}], ids=["nan", "inf", "date"])
def test_what_no_body_can_carry_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=r"--extra-inputs.*cannot be sent as JSON"):
        ProfileConfig.create(url="h:1", extra_inputs={"a": value})


@pytest.mark.parametrize("text", ["a:[1e999]", '{"a": -1e999}', 'a:{"b": 1E310}'])
def test_a_number_beyond_all_floats_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="too large a number"):
        parse_extra_inputs([text])


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("X-Team: search", ("X-Team", "search")),
        ("X-Team:search", ("X-Team", "search")),
        (" X-Team :  a: b  ", ("X-Team", "a: b")),
        ("X-Empty:", ("X-Empty", "")),
        ("Authorization: Bearer abc=", ("Authorization", "Bearer abc=")),
        ("x!#$%&'*+.^_`|~1: v", ("x!#$%&'*+.^_`|~1", "v")),
    ],
)
def test_a_header(text: str, pair: tuple[str, str]) -> None:
    assert parse_header(text) == pair


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no colon",
        ": hunter2",
        "X Team: hunter2",
        "X-Té: hunter2",
        "X(: hunter2",
        "X:\x00hunter2",
        "X: hunter2\r\nY: 1",
        "X: hunter2é",
        "X: hunter2\u2028x",
        "X: hunter2\x85x",
    ],
)
def test_a_bad_header_is_refused_without_its_value(text: str) -> None:
    with pytest.raises(ConfigError, match="--header") as caught:
        parse_header(text)
    assert "hunter2" not in caught.value.message


def test_tags_are_names_and_values() -> None:
    assert parse_tags(["step=3000", " data = a=b "]) == {"step": "3000", "data": "a=b"}
    assert parse_tags(["step=3000", "step=3000"]) == {"step": "3000"}


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["step"], "--tag 'step': expected NAME=VALUE"),
        (["=3"], "the name ''"),
        (["3=3"], "the name '3'"),
        (["a b=3"], "the name 'a b'"),
        (["step="], "the value of 'step' is empty"),
        (["step=a\x1b[31m"], "the value of 'step' holds a control character"),
        (["date=today"], "'date' stands for when a run was made"),
        (["step=1", "step=2"], "--tag: 'step' is given twice, as '1' and as '2'"),
    ],
)
def test_what_is_no_tag_is_refused(texts: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_tags(texts)
    assert said in caught.value.message
    assert caught.value.message.startswith("--tag")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("concurrency", 0),
        ("concurrency", -1),
        ("concurrency", "many"),
        ("request_count", 0),
        ("warmup_request_count", -1),
        ("max_tokens", 0),
        ("temperature", -0.1),
        ("batch_size_text", 0),
        ("request_timeout_seconds", 0),
        ("request_timeout_seconds", float("inf")),
        ("request_timeout_seconds", float("nan")),
        ("ready_timeout", -1),
        ("model", ""),
        ("endpoint_type", "embeddings"),
        ("dataset_sampling_strategy", "sorted"),
        ("export_level", "everything"),
        ("extra_inputs", []),
        ("streamingg", True),
    ],
)
def test_a_value_out_of_range_is_refused_by_the_name_of_its_option(option: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        ProfileConfig.create(url="http://h", **{option: value})
    assert caught.value.message.startswith("--" + option.replace("_", "-"))


@pytest.mark.parametrize(
    ("option", "value"), [("rows", -1), ("worst", -1), ("draft_cost", -0.1), ("baseline_itl", 0), ("concurrency", 1)]
)
def test_so_is_one_of_the_report(option: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        ReportSettings.create(**{option: value})
    assert caught.value.message.startswith("--" + option.replace("_", "-"))


@pytest.mark.parametrize(
    ("option", "value"),
    [("concurrency", 1), ("warmup_request_count", 0), ("temperature", 0), ("ready_timeout", 0), ("max_tokens", 1)],
)
def test_the_least_value_is_taken(option: str, value: Any) -> None:
    assert getattr(ProfileConfig.create(url="http://h", **{option: value}), option) == value


@pytest.mark.parametrize("key", ["model", "stream", "messages", "prompt"])
def test_what_an_option_sets_is_no_extra_input(key: str) -> None:
    with pytest.raises(ConfigError, match=f"'{key}' is set by --"):
        ProfileConfig.create(url="h", extra_inputs={key: "x"})


@pytest.mark.parametrize("options", ["x", [1], 3, True])
def test_stream_options_are_an_object(options: Any) -> None:
    with pytest.raises(ConfigError, match="stream_options"):
        ProfileConfig.create(url="h", extra_inputs={"stream_options": options})


def test_a_batch_needs_completions() -> None:
    with pytest.raises(ConfigError, match="--batch-size-text needs --endpoint-type completions"):
        ProfileConfig.create(url="h", batch_size_text=2)
    assert ProfileConfig.create(url="h/v1/completions", batch_size_text=2).batch_size_text == 2


@pytest.mark.parametrize(
    ("url", "given", "endpoint"),
    [
        ("h", None, EndpointType.CHAT),
        ("h", "completions", EndpointType.COMPLETIONS),
        ("h/v1/completions", None, EndpointType.COMPLETIONS),
        ("h/v1/chat/completions", None, EndpointType.CHAT),
        ("h/v1/completions", "completions", EndpointType.COMPLETIONS),
        ("h/v1/completions", EndpointType.COMPLETIONS, EndpointType.COMPLETIONS),
        ("h/v1/chat/completions", "chat", EndpointType.CHAT),
    ],
)
def test_the_url_may_name_the_endpoint(url: str, given: Any, endpoint: EndpointType) -> None:
    values = {} if given is None else {"endpoint_type": given}
    assert ProfileConfig.create(url=url, **values).endpoint_type is endpoint


@pytest.mark.parametrize(("url", "given"), [("h/v1/completions", "chat"), ("h/v1/chat/completions", "completions")])
def test_a_url_that_names_another_endpoint_is_refused(url: str, given: str) -> None:
    with pytest.raises(ConfigError, match=f"but --endpoint-type is {given}"):
        ProfileConfig.create(url=url, endpoint_type=given)


@pytest.mark.parametrize("values", [{"url": "http://user:hunter2@h:port"}, {"url": 3}, {}])
def test_a_bad_or_missing_url_is_a_configuration_error(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="--url") as caught:
        ProfileConfig.create(**values)
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize("tail", ["\n", "\r", "\x00", "\t", "é", "\u201d", "\u2028", "\ud800"])
def test_a_key_or_header_that_http_cannot_carry_is_refused_unseen(tail: str) -> None:
    for values in ({"api_key": f"hunter2{tail}x"}, {"headers": (("x-note", f"hunter2{tail}x"),)}):
        with pytest.raises(ConfigError, match=r"--(api-key|header)") as caught:
            ProfileConfig.create(url="h", **values)
        assert "hunter2" not in caught.value.message


@pytest.mark.parametrize("name", ["", "x y", "x:y", "é", "x\n"])
def test_a_header_of_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="--header"):
        ProfileConfig.create(url="h", headers=((name, "value"),))


def test_a_configuration_is_frozen_and_shows_no_secret() -> None:
    config = ProfileConfig(url="h", api_key="hunter2-key", headers=(("Authorization", "hunter2"),))
    with pytest.raises(ValueError, match="frozen"):
        config.concurrency = 2
    assert "hunter2" not in repr(config)
    assert "hunter2-key" not in config.model_dump_json()


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"input_file": None}, "--fixed-schedule needs --input-file"),
        ({"request_rate": 5.0}, "--fixed-schedule sends rows at their times, --request-rate at others"),
        ({"arrival_pattern": "constant"}, "--fixed-schedule sends rows at their times, --arrival-pattern at others"),
        ({"dataset_sampling_strategy": "shuffle"}, "in the order of their times, not shuffle"),
        ({"endpoint_type": "completions", "batch_size_text": 2}, "--fixed-schedule sends each apart"),
        (
            {"fixed_schedule_start_offset": 1, "fixed_schedule_auto_offset": True},
            "--fixed-schedule-start-offset and --fixed-schedule-auto-offset both set the start",
        ),
        (
            {"fixed_schedule_start_offset": 2, "fixed_schedule_end_offset": 1},
            "--fixed-schedule-start-offset 2 is after --fixed-schedule-end-offset 1",
        ),
        ({"fixed_schedule": False, "fixed_schedule_end_offset": 1}, "-end-offset needs --fixed-schedule"),
        ({"fixed_schedule": False, "fixed_schedule_auto_offset": False}, "-auto-offset needs --fixed-schedule"),
        ({"fixed_schedule_start_offset": -1}, "--fixed-schedule-start-offset -1"),
    ],
)
def test_what_a_trace_excludes(values: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        ProfileConfig.create(**{"url": "h", "fixed_schedule": True, "input_file": Path("t.jsonl"), **values})


def test_a_trace_caps_nothing_by_itself() -> None:
    config = ProfileConfig.create(url="h", fixed_schedule=True, input_file=Path("t"), custom_dataset_type="random_pool")
    assert (config.is_scheduled, config.concurrency_cap, config.sampling) == (True, None, "sequential")


@pytest.mark.parametrize("key", ["sk-abc\n", "sk-abc\r\n", "sk-a\nbc", "sk-abc\x00", "sk-é"])
def test_a_key_that_no_header_can_carry_is_named_and_not_shown(key: str) -> None:
    with pytest.raises(ConfigError, match="--api-key: the key holds a line break") as caught:
        ProfileConfig.create(url="h", api_key=key)
    assert "sk-" not in str(caught.value)
