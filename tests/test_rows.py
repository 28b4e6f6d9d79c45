from __future__ import annotations

import io
import json
from typing import Any

import pytest

from aiperf_spec.workload import rows as reading
from aiperf_spec.workload.rows import FileKind, Row, rows


def read(data: bytes, kind: FileKind) -> list[Row]:
    return list(rows(io.BytesIO(data), kind))


def values(data: bytes, kind: FileKind) -> list[Any]:
    found = read(data, kind)
    assert not [row for row in found if row.fault is not None]
    return [row.value for row in found]


def test_jsonl_goes_on_after_a_fault() -> None:
    found = read(b'\xef\xbb\xbf{"a": 1}\r\n\n\xff\n{\n[1]', FileKind.JSONL)
    assert [(row.number, row.value) for row in found] == [(1, {"a": 1}), (3, None), (4, None), (5, [1])]
    assert found[1].fault == "not UTF-8"
    assert found[2].fault
    assert found[2].fault.startswith("not JSON")


def test_a_line_longer_than_a_row_may_be_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_ROW", 20)
    found = read(b'{"a": 1}\n' + b"x" * 70 + b'\n{"a": 2}', FileKind.JSONL)
    assert [row.value for row in found] == [{"a": 1}, None, {"a": 2}]
    assert found[1].number == 2
    assert "longer than" in (found[1].fault or "")


@pytest.mark.parametrize(
    "row", [b"x" * 70, b"x," * 35, b'"x\nx",' * 12 + b"x"], ids=["one cell", "many cells", "many lines"]
)
def test_a_csv_row_longer_than_a_row_may_be_is_passed_over(row: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_ROW", 20)
    found = read(b"text\n" + row + b"\n" + b"good\n", FileKind.CSV)
    assert found[-1].value == {"text": "good"}
    assert "a row longer than" in (found[0].fault or "")
    assert [row.value for row in found[:-1]] == [None] * (len(found) - 1)
    assert len(found) == 2 or b"\n" in row


ENTRIES = [{"text": "a\u2028\U0001f600" * 3, "n": [1, {"x": "]},{"}]}, {"text": "b"}, {"text": "c"}]


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 1 << 20])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_array_is_read_through_a_window_of_any_size(
    chunk: int, indent: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_CHUNK", chunk)
    data = json.dumps(ENTRIES, indent=indent, ensure_ascii=False).encode()
    assert values(b"\xef\xbb\xbf" + data, FileKind.JSON) == ENTRIES
    # Objects one after the other are no JSON, and are called so all the same.
    assert values(b"\n".join(json.dumps(entry).encode() for entry in ENTRIES), FileKind.JSON) == ENTRIES


@pytest.mark.parametrize(
    ("data", "good", "fault"),
    [
        (b'[{"a": 1}, {"a": ]', 1, "not JSON"),
        (b'[{"a": 1}, {"a": 2}', 2, "the array is not closed"),
        (b'[{"a": "\xff"}, {"a": 2}]', 1, "not UTF-8"),
        (b"[" * 100_000, 0, "not JSON"),
        (b"nonsense", 0, "not JSON"),
    ],
)
def test_a_json_array_with_a_fault(data: bytes, good: int, fault: str) -> None:
    found = read(data, FileKind.JSON)
    assert sum(1 for row in found if row.fault is None) == good
    assert [row for row in found if row.fault and fault in row.fault]


@pytest.mark.parametrize("data", [b"", b"  \n", b"[]", b"[ \n]"])
def test_json_without_entries(data: bytes) -> None:
    assert values(data, FileKind.JSON) == []


def test_csv() -> None:
    data = (
        b'\xef\xbb\xbftext,category,output_length,extra\r\n"a, ""b""\nc",coding,12,"{""top_p"": 0.5}"\r\n\r\nd,,,\r\n'
    )
    assert values(data, FileKind.CSV) == [
        {"text": 'a, "b"\nc', "category": "coding", "output_length": 12, "extra": {"top_p": 0.5}},
        {"text": "d"},
    ]


def test_csv_with_faults() -> None:
    found = read(b'text,extra\na,b,c\n\xff,\nx,{\n"a"b,\nlast,\n', FileKind.CSV)
    assert [row.number for row in found] == [2, 3, 4, 5, 6]
    faults = [row.fault or "" for row in found]
    assert "3 cells under 2 columns" in faults[0]
    assert faults[1] == "not UTF-8"
    assert "extra is not JSON" in faults[2]
    assert "not CSV" in faults[3]
    assert (found[4].value, found[4].fault) == ({"text": "last"}, None)


def test_a_long_cell() -> None:
    assert values(b"text\n" + b"x" * 300_000, FileKind.CSV) == [{"text": "x" * 300_000}]
