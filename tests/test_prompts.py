from __future__ import annotations

import gzip
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from aiperf_spec.config.choices import SamplingStrategy
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import InputFileError
from aiperf_spec.models.run import DatasetInfo
from aiperf_spec.workload.dataset import open_workload
from aiperf_spec.workload.files import PromptFile
from aiperf_spec.workload.prompts import Prompt, order


def load_prompts(path: Path | None) -> tuple[tuple[Prompt, ...], DatasetInfo]:
    workload = open_workload(ProfileConfig(url="h:1", input_file=path))
    assert workload.prompts is not None
    return workload.prompts, workload.info


@pytest.fixture
def file(tmp_path: Path) -> Any:
    """Write the bytes to a file and read prompts from it."""

    def read(data: bytes) -> tuple[Prompt, ...]:
        path = tmp_path / "prompts.jsonl"
        path.write_bytes(data)
        return load_prompts(path)[0]

    return read


def test_the_three_shapes(file: Any) -> None:
    messages = b'{"messages": [{"role": "user", "content": "c"}]}'
    assert file(b'{"text": "a"}\n{"prompt": "b"}\n' + messages) == (
        Prompt("line-1", text="a"),
        Prompt("line-2", text="b"),
        Prompt("line-3", messages=({"role": "user", "content": "c"},)),
    )


def test_category_and_question_id(file: Any) -> None:
    data = b'{"text": "a", "category": "coding", "question_id": 81, "other": [1]}\n{"text": "b", "question_id": "q"}\n'
    assert file(data) == (Prompt("81", text="a", category="coding"), Prompt("q", text="b"))


@pytest.mark.parametrize("value", ['""', "null"])
def test_an_empty_category_is_none(file: Any, value: str) -> None:
    assert file(f'{{"text": "a", "category": {value}}}'.encode())[0].category is None


@pytest.mark.parametrize("value", ["null", "1.5", "[]"])
def test_a_question_id_that_is_none_gives_way_to_the_line(file: Any, value: str) -> None:
    assert file(f'\n{{"text": "a", "question_id": {value}}}'.encode())[0].id == "line-2"


@pytest.mark.parametrize(
    "data",
    [
        b'\xef\xbb\xbf{"text": "a"}\n{"text": "b"}',
        b'{"text": "a"}\r\n{"text": "b"}\r\n',
        b'\n\n{"text": "a"}\n  \n\r\n{"text": "b"}\n\n',
        b' {"text": "a"} \n\t{"text": "b"}',
    ],
    ids=["BOM", "CRLF", "blank lines", "indented"],
)
def test_how_lines_may_be_written(file: Any, data: bytes) -> None:
    assert [prompt.text for prompt in file(data)] == ["a", "b"]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085"])
def test_only_lf_ends_a_line(file: Any, separator: str) -> None:
    assert file(f'{{"text": "a{separator}b"}}\n'.encode())[0].text == f"a{separator}b"


BAD = [
    (b"{", "not JSON"),
    (b"text", "not JSON"),
    (b"{'text': 'a'}", "not JSON"),
    (b'{"text": "\xff"}', "not UTF-8"),
    (b"[" * 100_000, "not JSON"),
    (b'"a"', "a str, not an object"),
    (b'["a"]', "a list, not an object"),
    (b"null", "a NoneType, not an object"),
    (b"{}", "expected one of text, prompt and messages, found none of them"),
    (b'{"txt": "a"}', "expected one of text, prompt and messages, found none of them"),
    (b'{"text": "a", "prompt": "b"}', "expected one of text, prompt and messages, found text and prompt"),
    (b'{"text": ""}', "text must be a non-empty string"),
    (b'{"text": 3}', "text must be a non-empty string"),
    (b'{"prompt": ["a"]}', "prompt must be a non-empty string"),
    (b'{"messages": []}', "messages must be a non-empty list of objects"),
    (b'{"messages": "a"}', "messages must be a non-empty list of objects"),
    (b'{"messages": ["a"]}', "messages must be a non-empty list of objects"),
    (b'{"text": "a", "category": 3}', "category must be a string"),
    (b'{"text": "a\\ud800"}', "cannot be sent as JSON"),
    (b'{"text": "a", "category": "\\udfff"}', "cannot be sent as JSON"),
    (b'{"text": "a", "question_id": "\\udfff"}', "cannot be sent as JSON"),
    (b'{"messages": [{"role": "user", "n": 100000000000000000000000000}]}', "cannot be sent as JSON"),
    (b'{"messages": [{"role": "user", "n": NaN}]}', "cannot be sent as JSON"),
    (b'{"messages": [{"role": "user", "n": -Infinity}]}', "cannot be sent as JSON"),
    (b'{"messages": [{"role": "user", "n": ' + b"[" * 300 + b"]" * 300 + b"}]}", "cannot be sent as JSON"),
]


@pytest.mark.parametrize(("line", "what"), BAD, ids=[str(line[:40]) for line, _ in BAD])
def test_a_bad_line_is_refused_by_file_and_number(file: Any, line: bytes, what: str) -> None:
    with pytest.raises(InputFileError) as caught:
        file(b'{"text": "a"}\n\n' + line + b'\n{"text": "b"}\n')
    assert "prompts.jsonl'" in caught.value.message
    assert f"line 3: {what}" in caught.value.message
    assert caught.value.remedy


def test_what_is_ignored_may_hold_anything(file: Any) -> None:
    assert file(b'{"text": "a", "score": NaN, "note": "\\ud800", "n": 1e999}')[0].text == "a"


@pytest.mark.parametrize("data", [b"", b"\n \n", b"\xef\xbb\xbf"])
def test_a_file_without_prompts_is_refused(file: Any, data: bytes) -> None:
    with pytest.raises(InputFileError, match="holds no prompt"):
        file(data)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="No such file"):
        load_prompts(tmp_path / "none.jsonl")
    with pytest.raises(InputFileError, match="directory"):
        load_prompts(tmp_path)


def test_what_is_said_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"text": "a"}\n{"text": "b", "category": "c"}\n')
    info = load_prompts(path)[1]
    assert (info.name, info.path, info.entries, info.has_categories) == ("p.jsonl", str(path), 2, True)
    path.write_text('{"text": "a"}\n')
    assert not load_prompts(path)[1].has_categories


def test_the_built_in_prompts() -> None:
    prompts, info = load_prompts(None)
    assert info.entries == len(prompts) >= 12
    assert info.has_categories
    assert len({prompt.id for prompt in prompts}) == len({prompt.text for prompt in prompts}) == len(prompts)
    assert all(prompt.text and prompt.category for prompt in prompts)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a", "a"),
        (None, ""),
        ([{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}], "a\nb"),
        (["x", {"text": 3}], ""),
        (3, ""),
    ],
)
def test_the_text_of_a_message(content: Any, text: str) -> None:
    assert Prompt("x", messages=({"role": "user", "content": content},)).as_text() == text


def test_messages_join_by_a_blank_line() -> None:
    talk = ({"content": "a"}, {"role": "tool"}, {"content": "b"})
    assert Prompt("x", messages=talk).as_text() == "a\n\nb"
    assert Prompt("x", messages=talk).as_messages() == list(talk)
    assert Prompt("x", text="a").as_messages() == [{"role": "user", "content": "a"}]


PROMPTS = tuple(Prompt(str(i), text=str(i)) for i in range(7))


def ids(strategy: SamplingStrategy, seed: int, count: int = 70) -> list[str]:
    return [prompt.id for prompt in islice(order(PROMPTS, strategy, seed), count)]


@pytest.mark.parametrize("strategy", SamplingStrategy)
@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_the_same_seed_gives_the_same_order(strategy: SamplingStrategy, seed: int) -> None:
    assert ids(strategy, seed) == ids(strategy, seed)


@pytest.mark.parametrize(
    ("strategy", "drawn"),
    [(SamplingStrategy.SHUFFLE, "02365413216045"), (SamplingStrategy.RANDOM, "14412435404063")],
)
def test_a_seed_means_the_same_order_in_every_process(strategy: SamplingStrategy, drawn: str) -> None:
    assert ids(strategy, 3, 14) == list(drawn)


@pytest.mark.parametrize("strategy", [SamplingStrategy.SHUFFLE, SamplingStrategy.RANDOM])
def test_another_seed_gives_another_order(strategy: SamplingStrategy) -> None:
    assert ids(strategy, 0) != ids(strategy, 1)


def test_sequential_cycles() -> None:
    assert ids(SamplingStrategy.SEQUENTIAL, 5) == [str(i) for i in range(7)] * 10


def test_shuffle_goes_through_all_in_a_new_order_each_pass() -> None:
    drawn = ids(SamplingStrategy.SHUFFLE, 3)
    passes = [drawn[i : i + 7] for i in range(0, 70, 7)]
    assert all(sorted(one_pass) == sorted(ids(SamplingStrategy.SEQUENTIAL, 0, 7)) for one_pass in passes)
    assert len({tuple(one_pass) for one_pass in passes}) > 1


def test_random_draws_from_all() -> None:
    drawn = ids(SamplingStrategy.RANDOM, 3, 700)
    assert set(drawn) == {str(i) for i in range(7)}
    assert drawn[:7] != drawn[7:14]


def test_a_prompts_hash_is_of_what_the_model_reads() -> None:
    text = Prompt("a", text="why?", category="qa")
    assert text.content_hash == Prompt("b", messages=({"role": "user", "content": "why?"},)).content_hash
    assert text.content_hash == Prompt("c", text="why?", output_length=9, extra={"temperature": 1}).content_hash
    payload = {"model": "m", "messages": [{"content": "why?", "role": "user"}]}
    assert text.content_hash == Prompt("d", payload=payload).content_hash
    others = [
        Prompt("a", text="why? "),
        Prompt("a", messages=({"role": "system", "content": "why?"},)),
        Prompt("a", text="why?", extra={"tools": [{"type": "function"}]}),
        Prompt("a", text="why?", later=(({"role": "user", "content": "and?"},),)),
        Prompt("a", payload={"model": "m"}),
        Prompt("a", text="\ud800"),
    ]
    assert len({text.content_hash, *(other.content_hash for other in others)}) == 7
    assert all(len(other.content_hash) == 16 for other in others)


def test_all_turns_of_a_conversation_have_the_hash_of_the_whole() -> None:
    first = Prompt("a", text="why?", later=(({"role": "user", "content": "and?"},),))
    second = first.after({"role": "assistant", "content": "because"})
    assert second.content_hash is first.content_hash
    assert first.cut(0).content_hash is first.content_hash


def test_a_file_is_known_by_its_content(tmp_path: Path) -> None:
    def hashes(name: str, data: bytes) -> tuple[str, ...]:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        return load_prompts(path)[1].file_hashes

    line = b'{"text": "one"}\n'
    known = hashes("prompts.jsonl", line)
    assert len(known) == 1
    assert hashes("renamed.jsonl", line) == hashes("packed.jsonl.gz", gzip.compress(line)) == known
    assert hashes("elsewhere/prompts.jsonl", line * 2) != known
    assert load_prompts(None)[1].file_hashes == ()


def test_a_streamed_file_is_known_by_its_beginning_and_size(tmp_path: Path) -> None:
    hashes, path = set(), tmp_path / "prompts.jsonl"
    for data in (b'{"text": "one"}\n' * 9, b'{"text": "one"}\n' * 10, b'{"text": "two"}\n' * 10):
        path.write_bytes(data)
        hashes.add(PromptFile(path, "", ProfileConfig(url="h:1"), 20).content_hash)
    assert len(hashes) == 3
