"""CSV that a spreadsheet takes for data."""

from __future__ import annotations

import csv

import pytest

from aiperf_spec.analysis.matrix import Cell, Matrix, Row
from aiperf_spec.artifacts.write.csv_table import csv_bytes, csv_safe
from aiperf_spec.artifacts.write.matrix_formats import matrix_csv
from aiperf_spec.config.choices import ReportMetric


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_what_a_spreadsheet_would_run_is_text(text: str) -> None:
    assert csv_safe(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "coding", "-1.5", "+3", "-1e9", "1=1", "meta-llama/Llama", "'=1"])
def test_all_else_stays_as_it_is(text: str) -> None:
    assert csv_safe(text) == text


def test_rows_read_back() -> None:
    table = csv_bytes([["a,b", 'say "x"', "=1"], []])
    assert list(csv.reader(table.decode().splitlines())) == [["a,b", 'say "x"', "'=1"], []]


def test_names_of_others_run_nothing() -> None:
    cell = Cell(2.0, requests=5)
    row = Row("=HYPERLINK(A1)", ["@run"], {"+category": cell}, pooled=cell)
    matrix = Matrix(ReportMetric.ACCEPT_LENGTH, ["+category"], [row], [])
    rows = list(csv.reader(matrix_csv(matrix, intervals=False).decode().splitlines()))
    assert rows[0][3] == "'+category"
    assert rows[1][0] == "'=HYPERLINK(A1)"
    assert rows[1][1] == "'@run"
