"""What a run put out over time."""

from __future__ import annotations

import pytest

from aiperf_spec.analysis.timeline import output_rates
from aiperf_spec.models.run import ErrorKind
from tests.records import failed, record


def test_tokens_count_evenly_between_a_requests_contents() -> None:
    # 40 tokens from 100 to 500 ms, and 30 from 400 to 1000 ms.
    records = [
        record(0, start=0, contents=(100, 500), tokens=40),
        record(1, start=100, contents=(300, 900), tokens=30),
        failed(2, ErrorKind.SERVER_ERROR),
    ]
    rates = output_rates(records, 10)
    assert [at for at, _ in rates] == pytest.approx([0.05 + 0.1 * i for i in range(10)])
    assert [rate for _, rate in rates] == pytest.approx([0, 100, 100, 100, 150, 50, 50, 50, 50, 50])


@pytest.mark.parametrize("parts", [1, 3, 7, 40])
def test_no_token_is_lost(parts: int) -> None:
    records = [record(i, start=7 * i, contents=(3, 3 + 11 * i), tokens=i + 1) for i in range(50)]
    rates = output_rates(records, parts)
    width = (7 * 49 + 3 + 11 * 49) / 1000 / parts
    assert sum(rate * width for _, rate in rates) == pytest.approx(sum(range(1, 51)))


def test_one_read_counts_from_the_start() -> None:
    (rates,) = [output_rates([record(0, start=0, contents=(200,), tokens=10)], 2)]
    assert [rate for _, rate in rates] == pytest.approx([50, 50])
    assert output_rates([record(0, start=0, contents=(200,), tokens=None)], 2) == []
    assert output_rates([], 5) == []
