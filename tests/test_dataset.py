"""Files of prompts, and what a run takes from them."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aiperf_spec.config.choices import SamplingStrategy
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import InputFileError
from aiperf_spec.load.plan import requests_of
from aiperf_spec.models.run import Phase
from aiperf_spec.workload import files
from aiperf_spec.workload.dataset import Workload, open_workload
from aiperf_spec.workload.prompts import Prompt

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write rows, or bytes, into a file."""

    def write(*rows: Any, name: str = "p.jsonl") -> Path:
        path = tmp_path / name
        lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return path

    return write


def workload(*paths: Path, limit: int = 1 << 20, **values: Any) -> Workload:
    return open_workload(ProfileConfig(url="h", input_file=paths, **values), limit_bytes=limit)


def texts(found: Workload, count: int | None = None) -> list[str | None]:
    prompts = found.once() if count is None else itertools.islice(found.ordered(), count)
    return [prompt.as_text() for prompt in prompts]


TIMED = [{"text": str(time), "timestamp": time} for time in (30, 10, 20, 10)]


def test_a_trace_is_sorted_by_its_times(write: Write) -> None:
    found = workload(write(*TIMED[:2]), write(*TIMED[2:], name="q.jsonl"), fixed_schedule=True)
    assert texts(found) == ["10", "10", "20", "30"]
    assert [prompt.due_ms for prompt in found.once()] == [0, 0, 10, 20]
    cut = workload(write(*TIMED), fixed_schedule=True, fixed_schedule_end_offset=20, num_prompts=2)
    assert (texts(cut), cut.info.turns) == (["10", "10"], 2)


def test_a_large_trace_is_streamed_in_its_order(write: Write) -> None:
    ordered = sorted(TIMED, key=lambda row: row["timestamp"])
    found = workload(write(*ordered), limit=20, fixed_schedule=True, fixed_schedule_start_offset=10, num_prompts=3)
    assert found.prompts is None
    assert [(prompt.text, prompt.due_ms) for prompt in found.once()] == [("10", 0), ("10", 0), ("20", 10)]
    with pytest.raises(InputFileError, match="timestamp 10 follows 30, in a file too large to sort"):
        texts(workload(write(*TIMED), limit=20, fixed_schedule=True))


def test_a_trace_is_sent_once(write: Write) -> None:
    with pytest.raises(InputFileError, match="--request-count 5: --fixed-schedule sends each request of the file once"):
        workload(write(*TIMED), fixed_schedule=True, request_count=5)
    assert requests_of(ProfileConfig(url="h"), workload(write(*TIMED), fixed_schedule=True).info, Phase.PROFILING) == 4


def test_times_in_csv(write: Write) -> None:
    path = write(b"text,timestamp", b"a,10", b"b,12.5", name="p.csv")
    assert [prompt.due_ms for prompt in workload(path, fixed_schedule=True).once()] == [0, 2.5]


ROWS = [{"text": str(index), "category": "even" if index % 2 == 0 else "odd"} for index in range(10)]


@pytest.mark.parametrize("name", ["p.jsonl", "p.json", "p.csv", "p.jsonl.gz", "p.json.gz", "p.csv.gz", "p.txt"])
@pytest.mark.parametrize("limit", [1 << 20, 20])
def test_every_kind_of_file_held_or_streamed(name: str, limit: int, tmp_path: Path) -> None:
    if ".csv" in name:
        data = "text,category\n" + "".join(f"{row['text']},{row['category']}\n" for row in ROWS)
    elif ".json" in name and ".jsonl" not in name:
        data = json.dumps(ROWS)
    else:
        data = "".join(json.dumps(row) + "\n" for row in ROWS)
    path = tmp_path / name
    path.write_bytes(gzip.compress(data.encode()) if name.endswith(".gz") else data.encode())
    found = workload(path, limit=limit)
    assert (found.prompts is None) == (limit == 20)
    assert texts(found) == [row["text"] for row in ROWS]
    assert texts(found, 23) == [str(index % 10) for index in range(23)]
    assert {prompt.category for prompt in found.once()} == {"even", "odd"}
    assert found.info.entries == (None if limit == 20 else 10)
    assert found.info.type == "single_turn"


def test_a_small_file_of_very_many_rows_is_streamed(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_HELD", 10)
    assert workload(write(*ROWS)).prompts is not None
    monkeypatch.setattr(files, "MAX_HELD", 9)
    found = workload(write(*ROWS))
    assert found.prompts is None
    assert texts(found) == [row["text"] for row in ROWS]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b'{"text": "a"}\n' * 10)))
    with pytest.raises(InputFileError, match="standard input holds more than 9 prompts"):
        workload(Path("-"))


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (b'{"text": "a"}\n', gzip.compress(b'[{"text": "a"}]')):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        found = workload(Path("-"))
        assert texts(found, 2) == ["a", "a"]
        assert found.info.name == "standard input"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b'{"text": "a"}\n' * 100)))
    with pytest.raises(InputFileError, match="standard input holds more than"):
        workload(Path("-"), limit=100)
    with pytest.raises(InputFileError, match="only once"):
        workload(Path("-"), Path("-"))


def test_several_files_keep_their_shapes_and_names(write: Write) -> None:
    first = write({"text": "a"}, name="one.jsonl")
    second = write({"turns": ["b", "c"], "question_id": 1}, name="two.jsonl")
    found = workload(first, second)
    assert [prompt.id for prompt in found.once()] == ["one:line-1", "1"]
    assert (found.info.name, found.info.type) == ("one.jsonl + two.jsonl", "single_turn + spec_bench")
    assert (found.info.entries, found.info.turns) == (2, 3)


def test_repeated_ids_are_told_apart(write: Write) -> None:
    found = workload(write({"text": "a", "question_id": 1}, {"text": "b", "question_id": "1"}, {"text": "c"}))
    assert [prompt.id for prompt in found.once()] == ["1", "1#2", "line-3"]
    assert found.info.repeated_ids == 1


@pytest.mark.parametrize("limit", [1 << 20, 20])
def test_categories(write: Write, limit: int) -> None:
    path = write(*ROWS)
    assert texts(workload(path, limit=limit, category=("odd",))) == ["1", "3", "5", "7", "9"]
    assert texts(workload(path, limit=limit, category=("odd", "even"))) == [row["text"] for row in ROWS]
    with pytest.raises(InputFileError) as caught:
        texts(workload(path, limit=limit, category=("none",)))
    assert "no prompt is of category none" in caught.value.message
    assert caught.value.remedy == "there are even (5), odd (5)"


def test_a_selector_takes_its_category_and_its_subset(write: Write) -> None:
    rows = [
        {"question_id": str(i), "category": c, "messages": [{"role": "user", "content": c}]}
        for i, c in enumerate(["coding", "qa", "coding"])
    ]
    path = write(*rows, name="speed/qualitative.jsonl")
    write({**rows[0], "category": "mixed"}, name="speed/throughput_1k.jsonl")
    folder = path.parent
    assert texts(workload(path, custom_dataset_type="speed_bench_coding")) == ["coding", "coding"]
    assert texts(workload(folder, custom_dataset_type="speed_bench_qa")) == ["qa"]
    assert len(texts(workload(folder))) == len(texts(workload(folder, custom_dataset_type="speed-bench"))) == 3
    throughput = workload(folder, custom_dataset_type="speed_bench_throughput_1k_mixed")
    assert [prompt.category for prompt in throughput.once()] == ["mixed"]
    with pytest.raises(InputFileError, match=r"without throughput_2k.jsonl: it holds qualitative, throughput_1k"):
        workload(folder, custom_dataset_type="speed_bench_throughput_2k")
    with pytest.raises(InputFileError, match="is a directory"):
        workload(folder, custom_dataset_type="sharegpt")


def test_num_prompts(write: Write) -> None:
    path = write(*ROWS)
    assert texts(workload(path, num_prompts=3), 7) == ["0", "1", "2", "0", "1", "2", "0"]
    assert texts(workload(path, num_prompts=3, limit=20), 7) == ["0", "1", "2", "0", "1", "2", "0"]
    drawn = [
        texts(workload(path, num_prompts=4, random_seed=seed, dataset_sampling_strategy="shuffle"))
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) == 4
    with pytest.raises(InputFileError, match="--num-prompts 11: there are 10"):
        workload(path, num_prompts=11)


def test_a_random_pool_is_drawn_by_the_seed(write: Write) -> None:
    path = write(*ROWS)
    config = ProfileConfig(url="h", input_file=path, custom_dataset_type="random-pool")
    assert config.sampling is SamplingStrategy.RANDOM
    first, again = (texts(open_workload(config), 50) for _ in range(2))
    assert first == again != [str(index % 10) for index in range(50)]
    assert texts(workload(path, custom_dataset_type="random_pool", dataset_sampling_strategy="sequential"), 3) == [
        "0",
        "1",
        "2",
    ]


@pytest.mark.parametrize("strategy", ["shuffle", "random"])
def test_a_streamed_file_cannot_be_mixed(write: Write, strategy: str) -> None:
    with pytest.raises(InputFileError, match="too large to be held") as caught:
        workload(write(*ROWS), limit=20, dataset_sampling_strategy=strategy)
    assert "shuf" in (caught.value.remedy or "")


@pytest.mark.parametrize("limit", [1 << 20, 20])
@pytest.mark.parametrize("bad", [b'{"text": "\xff"}', b"{", b'{"text": ""}', b"[]"])
def test_bad_lines(write: Write, limit: int, bad: bytes) -> None:
    path = write({"text": "a"}, {"text": "b"}, bad, {"text": "c"}, bad)
    with pytest.raises(InputFileError) as caught:
        texts(workload(path, limit=limit))
    assert "p.jsonl', line 3: " in caught.value.message
    assert "--skip-bad-lines" in (caught.value.remedy or "")
    found = workload(path, limit=limit, skip_bad_lines=True)
    assert texts(found, 7) == ["a", "b", "c", "a", "b", "c", "a"]
    assert found.info.skipped_lines == 2


def test_a_file_of_bad_lines_alone(write: Write) -> None:
    with pytest.raises(InputFileError, match=r"holds no prompt \(2 bad lines were skipped\)"):
        workload(write(b"{", b"}"), skip_bad_lines=True)


def test_auto_says_that_shapes_differ(write: Write) -> None:
    path = write({"text": "a"}, {"conversations": [{"from": "human", "value": "b"}]})
    with pytest.raises(InputFileError, match="of several shapes: sharegpt and single_turn"):
        workload(path)
    # Some questions with a category, some texts without: both are single turns.
    question = {"question_id": "1", "category": "c", "messages": [{"role": "user", "content": "q"}]}
    assert workload(write(question, {"text": "a"})).info.type == "single_turn"


def test_a_damaged_archive(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text": "a"}\n' * 1000)[:-20])
    for limit in (1 << 20, 20):
        with pytest.raises(InputFileError, match="damaged or cut short"):
            texts(workload(path, limit=limit))


def test_what_one_request_cannot_hold(write: Write) -> None:
    turns, own = write({"turns": ["a", "b"]}), write({"text": "a", "output_length": 3}, name="own.jsonl")
    batch: dict[str, Any] = {"endpoint_type": "completions", "batch_size_text": 2}
    with pytest.raises(InputFileError, match="a conversation of several turns, but --batch-size-text 2"):
        workload(turns, **batch)
    with pytest.raises(InputFileError, match="a row with settings of its own, but --batch-size-text 2"):
        workload(own, **batch)
    with pytest.raises(InputFileError, match="goes on from one answer, but --extra-inputs n:2"):
        workload(turns, extra_inputs={"n": 2})


def test_requests_of_one_pass(write: Write) -> None:
    path = write({"turns": ["a", "b", "c"]}, {"turns": ["d"]})
    config = ProfileConfig(url="h:1")

    def requests(prompts: Workload, config: ProfileConfig = config) -> int | None:
        return requests_of(config, prompts.info, Phase.PROFILING)

    assert requests(workload(path)) == 4
    assert requests(workload(path, limit=20)) is None
    assert requests(workload(write(*ROWS))) == 10
    assert requests(workload(write(*ROWS)), config.model_copy(update={"batch_size_text": 4})) == 3
    assert requests(workload(write(*ROWS)), config.model_copy(update={"request_count": 7})) == 7
    assert requests(workload(write(*ROWS)), config.model_copy(update={"benchmark_duration": 7.0})) is None


def test_a_streamed_file_fills_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    line = json.dumps({"text": "x" * 1000}).encode() + b"\n"
    with path.open("wb") as file:
        for _ in range(50):
            file.write(line * 200)
    assert path.stat().st_size > 10_000_000
    found = workload(path, limit=1 << 20)
    tracemalloc.start()
    try:
        assert sum(1 for _ in found.once()) == 10_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_a_turn_carries_the_answer() -> None:
    opening = Prompt("c", text="a", later=(({"role": "user", "content": "b"},), ({"role": "user", "content": "c"},)))
    answer = {"role": "assistant", "content": "x"}
    second = opening.after(answer)
    assert second.as_messages() == [{"role": "user", "content": "a"}, answer, {"role": "user", "content": "b"}]
    assert second.as_text() == "a\n\nx\n\nb"
    assert len(second.later) == 1
    assert opening.cut(1).later == opening.later[:1]
    assert opening.cut(5) is opening


def test_a_streamed_file_that_is_gone_at_the_end_loses_nothing(write: Write) -> None:
    path = write(*ROWS)
    found = workload(path, limit=20)
    path.unlink()
    assert found.info.has_categories
    with pytest.raises(InputFileError, match="No such file"):
        next(found.once())


@pytest.mark.parametrize("kind", ["random_pool", "raw_payload"])
def test_a_folder_of_pools_or_payloads(kind: str, tmp_path: Path) -> None:
    rows = [{"messages": [{"role": "user", "content": text}]} for text in ("a", "b")]
    folder = tmp_path / "pools"
    folder.mkdir()
    with pytest.raises(InputFileError, match="a directory without"):
        open_workload(ProfileConfig(url="h", input_file=folder, custom_dataset_type=kind))
    (folder / "one.jsonl").write_text(json.dumps(rows[0]))
    (folder / "two.json").write_text(json.dumps(rows[1:]))
    (folder / "README.md").write_text("no prompts")
    workload = open_workload(ProfileConfig(url="h", input_file=folder, custom_dataset_type=kind))
    assert workload.prompts is not None
    assert [prompt.id for prompt in workload.prompts] == ["one:line-1", "two:line-1"]
