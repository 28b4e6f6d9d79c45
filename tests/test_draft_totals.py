"""Totals that no request can have are refused."""

from __future__ import annotations

from typing import Any

import pytest

from aiperf_spec.models.draft_totals import DraftTotals

SOUND: dict[str, Any] = {
    "engine": "llama_cpp",
    "num_draft_tokens": 10,
    "num_accepted_draft_tokens": 4,
    "fewest_steps": 2,
    "most_steps": 7,
    "completion_tokens": 12,
}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"completion_tokens": None},
        {"fewest_steps": 7},
        {"most_steps": 10},
        {"num_accepted_draft_tokens": 10},
        {"num_draft_tokens": 0, "num_accepted_draft_tokens": 0, "fewest_steps": 0, "most_steps": 0},
    ],
)
def test_totals_that_a_request_can_have(change: dict[str, Any]) -> None:
    assert DraftTotals(**SOUND | change).engine == "llama_cpp"


@pytest.mark.parametrize(
    "change",
    [
        {"num_accepted_draft_tokens": 11},
        {"fewest_steps": 8},
        {"fewest_steps": 0},
        {"most_steps": 11},
        {"num_draft_tokens": -1},
        {"completion_tokens": -1},
        {"completion_tokens": 1.5},
        {"num_draft_tokens": True},
        {"num_draft_tokens": 10.0},
        {"most_steps": "7"},
        {"num_draft_tokens": 2**53},
    ],
)
def test_totals_that_no_request_can_have(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"a count must be an integer|more draft tokens|steps that these drafts"):
        DraftTotals(**SOUND | change)
