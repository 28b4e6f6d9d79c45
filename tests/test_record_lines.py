"""Lines of records: what sums them up and what loads them accept the same ones, by the identities of the record."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from aiperf_spec.artifacts.read.record_lines import NO_RECORD, RecordLine, decode_line, read_part
from aiperf_spec.artifacts.read.records import load_records, read_record
from aiperf_spec.artifacts.write.record_lines import record_line
from aiperf_spec.models.acceptance import SpecDecodeAcceptanceRecord
from aiperf_spec.models.run import ErrorKind
from tests.records import failed, record

AIPERF = Path(__file__).parent / "aiperf" / "vllm-speedbench" / "profile_export.jsonl"
READ = ("request_latency", "inter_chunk_latency", "output_sequence_length", "spec_decode_steps")
LINES = [json.loads(line) for line in AIPERF.read_text().splitlines()[2:4]]
for each in LINES:
    each["metrics"] = {tag: each["metrics"][tag] for tag in READ}
OURS = [
    record(0, start=5, contents=(100, 150, 300), tokens=5, histogram={0: 2, 3: 1}, category="coding"),
    failed(1, ErrorKind.HTTP_STATUS, status=503, message="overloaded"),
]
LINES += [json.loads(record_line(each, 0)) for each in OURS]
WRONG: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    7,
    1.5,
    29.0,
    2**53,
    2**63,
    10**30,
    1e300,
    "",
    "x",
    "1",
    [],
    [1],
    [1, 2.5],
    ["1"],
    {},
]
WRONG += [{"value": "x"}, {"value": None}, {"value": [1, "x"]}, {"0": 1}, {"01": 1}, {"0": 0}]


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def spaced(value: Any) -> bytes:
    return json.dumps(value, indent=1).replace("\n", " ").encode()


def decoded(text: bytes) -> RecordLine | None:
    try:
        return decode_line(text)
    except NO_RECORD:
        return None


def is_read(text: bytes) -> bool:
    try:
        read_record(text)
    except NO_RECORD:
        return False
    return True


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(min(len(value), 3)):
            yield from places(value[key], (*path, key))


def mutations(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in places(line):
        for wrong in WRONG:
            changed = deepcopy(line)
            holder = changed
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = wrong
            yield changed
        changed = deepcopy(line)
        holder = changed
        for key in path[:-1]:
            holder = holder[key]
        del holder[path[-1]]
        yield changed


def is_consistent(acceptance: dict[str, Any]) -> bool:
    # The record's own constructor: keys of JSON are text, and what an AIPerf to come adds is no mistake.
    known = {name: value for name, value in acceptance.items() if name in SpecDecodeAcceptanceRecord.__annotations__}
    try:
        known["acceptance_histogram"] = {int(bucket): n for bucket, n in known["acceptance_histogram"].items()}
        SpecDecodeAcceptanceRecord(**known)
    except (ValidationError, KeyError, AttributeError, ValueError):
        return False
    return True


@pytest.mark.parametrize("line", LINES, ids=["aiperf", "aiperf again", "ours", "failed"])
def test_every_changed_field_is_judged_alike_by_whoever_reads_the_line(line: dict[str, Any]) -> None:
    verdicts: Counter[bool] = Counter()
    for changed in mutations(line):
        text = compact(changed)
        accepted = decoded(text) is not None
        verdicts[accepted] += 1
        assert is_read(text) is accepted, changed
        # However it is written.
        assert (decoded(spaced(changed)) is not None) is accepted, changed
    assert verdicts[True] > 50
    assert verdicts[False] > 50


@pytest.mark.parametrize("line", LINES[:3], ids=["aiperf", "aiperf again", "ours"])
def test_every_changed_acceptance_is_judged_as_the_record_itself_judges_it(line: dict[str, Any]) -> None:
    for changed in mutations(line["spec_decode_acceptance"]):
        if changed.get("acceptance_histogram") == {"01": 1}:
            continue  # no number in JSON, one to Python's int()
        text = compact({**line, "spec_decode_acceptance": changed})
        assert (decoded(text) is not None) is is_consistent(changed), changed


STEPS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8)


@settings(max_examples=400, deadline=None)
@given(
    steps=STEPS,
    k=st.none() | st.integers(0, 12),
    arrays=st.sampled_from(["both", "accepted", "drafted", "none"]),
    change=st.none() | st.tuples(st.integers(0, 40), st.integers(-1, 12)),
    scale=st.sampled_from([1, 1, 1, 7, 300]),
)
def test_steps_are_judged_as_the_record_itself_judges_them(
    steps: list[tuple[int, int]], k: int | None, arrays: str, change: tuple[int, int] | None, scale: int
) -> None:
    accepted, drafted = [a * scale for a, _ in steps], [(a + more) * scale for a, more in steps]
    histogram = {str(bucket): n for bucket, n in Counter(accepted).items()}
    acceptance: dict[str, Any] = {
        "engine": "vllm",
        "mean_acceptance_length": 1.5,
        "draft_acceptance_rate": 0.5,
        "acceptance_histogram": histogram,
        "num_accepted_draft_tokens": sum(accepted),
        "num_draft_tokens": sum(drafted),
        "num_spec_steps": len(steps),
        "num_spec_tokens": k,
        "per_step_accepted": accepted if arrays in ("both", "accepted") else None,
        "per_step_drafted": drafted if arrays in ("both", "drafted") else None,
    }
    if change is not None:
        numbers: list[tuple[Any, Any]] = [(acceptance, name) for name in acceptance if name.startswith("num_")]
        numbers += [(histogram, bucket) for bucket in histogram]
        for array in (acceptance["per_step_accepted"], acceptance["per_step_drafted"]):
            numbers += [(array, i) for i in range(len(array or ()))]
        holder, key = numbers[change[0] % len(numbers)]
        holder[key] = change[1]
    for write in (compact, spaced):
        text = write({**LINES[0], "spec_decode_acceptance": acceptance})
        assert (decoded(text) is not None) is is_consistent(acceptance)
        assert is_read(text) is is_consistent(acceptance)


@pytest.mark.parametrize(
    "array", ["[1,23 ]", "[1.2,3]", '"1,2,3"', "[1,2e3]", "[[1],2]", "[1,2,true]", "{}", "[1,2, 3]"]
)
def test_text_that_only_looks_like_a_list_of_digits_is_none(array: str) -> None:
    acceptance = {
        **{"engine": "vllm", "mean_acceptance_length": 3.0, "draft_acceptance_rate": 0.4, "num_spec_tokens": 5},
        **{"num_accepted_draft_tokens": 6, "num_draft_tokens": 15, "num_spec_steps": 3},
        "acceptance_histogram": {"1": 1, "2": 1, "3": 1},
    }
    for name, good in (("per_step_accepted", "[1,2,3]"), ("per_step_drafted", "[5,5,5]")):
        whole = {**acceptance, "per_step_accepted": "A", "per_step_drafted": "D", name: "X"}
        line = compact({**LINES[0], "spec_decode_acceptance": whole}).replace(b'"X"', b"%s")
        line = line.replace(b'"A"', b"[1,2,3]").replace(b'"D"', b"[5,5,5]")
        assert decoded(line.replace(b"%s", good.encode())) is not None
        is_same = json.loads(array) == json.loads(good)
        assert (decoded(line.replace(b"%s", array.encode())) is not None) is is_same


def test_a_histogram_that_contradicts_its_counts_is_in_no_figure(tmp_path: Path) -> None:
    lines = [deepcopy(LINES[0]) for _ in range(3)]
    histogram = lines[1]["spec_decode_acceptance"]["acceptance_histogram"]
    histogram["0"] += 1
    (tmp_path / AIPERF.name).write_bytes(b"".join(compact(line) + b"\n" for line in lines))
    part = read_part(tmp_path / AIPERF.name, 0, None)
    assert (part.succeeded, part.unreadable) == (2, 1)
    assert load_records(tmp_path).unreadable == (2,)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda line: line[: len(line) // 2],
        lambda line: line[: len(line) // 2] + line,
        lambda line: line + b"}",
        lambda line: line[:-1],
        lambda line: line.replace(b'"engine"', b"\xff"),
        lambda line: line.replace(b'"source_kind":"', b'"source_kind":"\xff'),
        lambda line: line.replace(b'"source_kind":"', b'"source_kind":"\\ud800'),
        lambda line: b'{"metadata":' + b"[" * 200_000,
        lambda line: b"[" * 200_000,
        lambda line: b'"' + line,
        lambda line: b"null",
    ],
)
def test_what_is_no_line_is_refused_by_all(spoil: Any) -> None:
    text = spoil(compact(LINES[0]))
    assert decoded(text) is None
    assert not is_read(text)


def test_an_error_counts_wherever_it_stands() -> None:
    first, last = LINES[0], {"error": {"message": "gone", "code": None}}
    for line in ({**first, **last}, {**last, **first}):
        found = decoded(compact(line))
        assert found is not None
        assert not found.measured
        assert read_record(compact(line)).error is not None
    between = {"metadata": first["metadata"], "metrics": first["metrics"], **last}
    found = decoded(compact({**between, "spec_decode_acceptance": first["spec_decode_acceptance"]}))
    assert found is not None
    assert not found.measured


@pytest.mark.parametrize("tag", ["request_latency", "inter_chunk_latency", "output_sequence_length"])
def test_a_metric_of_a_wrong_type_costs_itself_alone(tag: str) -> None:
    line, attribute = deepcopy(LINES[0]), {"request_latency": "last_content_ns", "inter_chunk_latency": "chunk_gaps_ns"}
    whole = read_record(compact(line))
    line["metrics"][tag] = {"value": "soon"}
    spoilt = read_record(compact(line))
    missing = attribute.get(tag, "output_tokens")
    assert getattr(spoilt, missing) is None
    setattr(whole, missing, None)
    assert spoilt == whole
