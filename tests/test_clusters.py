"""Sums by prompt, and what tells prompts apart."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_spec.analysis.clusters import added_up, clustered, length_terms, prompt_of
from aiperf_spec.analysis.intervals import ratio
from aiperf_spec.analysis.report import length
from aiperf_spec.models.prompt_sums import PromptSums, prompt_key
from tests.simulated_runs import request, simulated_run

ROWS = st.lists(st.tuples(st.sampled_from("abcdefghij"), st.integers(0, 9), st.integers(0, 9)))


def test_a_prompt_is_told_by_its_content_else_by_its_id() -> None:
    assert prompt_key("abc", "line-3") == "abc"
    assert prompt_key(None, "line-3") == "line-3"
    assert prompt_key("", "q#12") == "q"
    assert prompt_key("", "c#") == "c#"
    # Where nothing tells, each request is its own.
    assert prompt_of(replace(request(7, (1,), prompt=""), prompt_hash="")) == "7"


def test_requests_of_a_prompt_add_up_in_the_order_of_their_first() -> None:
    run = [request(i, (i,) * 2, prompt=name) for i, name in enumerate("babcb")]
    assert list(clustered(run, length_terms)) == [(12, 6), (2, 2), (6, 2)]
    assert list(clustered(run, lambda record: None if record.prompt_id == "a" else (1, 1))) == [(3, 3), (1, 1)]


@given(rows=ROWS, cut=st.integers(0, 50))
def test_running_sums_are_those_of_all_at_once_whoever_added_them(rows: list[tuple[str, int, int]], cut: int) -> None:
    parts = [PromptSums(largest=4), PromptSums(largest=4)]
    whole = PromptSums(largest=4)
    for i, (key, a, b) in enumerate(rows):
        parts[i >= cut].add(key, 1, a, b, 0)
        whole.add(key, 1, a, b, 0)
    parts[0].merge(parts[1])
    assert sorted(parts[0].terms(2)) == sorted(whole.terms(2))
    assert len(list(whole.terms(2))) <= 4
    if len({key for key, _, _ in rows}) <= 4:
        alone = added_up([key for key, _, _ in rows], [(a, b) for _, a, b in rows])
        assert sorted(whole.terms(2)) == sorted(alone)
    assert sum(a for a, _ in whole.terms(2)) == sum(a for _, a, _ in rows)


def test_groups_of_prompts_give_the_interval_of_prompts() -> None:
    run = simulated_run(3, 3000)
    random, sums = Random(1), PromptSums(largest=1000)
    for record in random.sample(run, len(run)):
        accepted, steps = length_terms(record) or (0, 0)
        sums.add(record.prompt_id, 1, int(accepted), int(steps), 0)
    assert sums.in_groups
    found, exact = ratio(sums.terms(2)), length(run)
    assert (found.standard_error or 0) / (exact.standard_error or 1) - 1 < 0.1
    assert found.value == pytest.approx((exact.value or 0) - 1)
