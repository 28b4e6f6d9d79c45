from __future__ import annotations

from tests.public_cases import test_cli_cases, test_figure_cases, test_wire_cases
from tests.public_cases.cases import CASES


def test_every_case_is_covered_once() -> None:
    slow = ["encode/httpx#1171", "livekit/agents#807"]
    covered = [*test_wire_cases.CHECKS, *slow, *test_figure_cases.CHECKS, *test_cli_cases.CHECKS]
    assert sorted(covered) == sorted(CASES)
    assert len(covered) == 40
