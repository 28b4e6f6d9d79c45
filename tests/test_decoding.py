"""Decode steps of a request, held against real servers' bytes in which the steps can be counted."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from aiperf_spec.adapters.registry import BUILT_IN, AdapterRegistry
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.decoding import Decoding, decoding, likely_steps
from aiperf_spec.models.draft_totals import DraftTotals
from aiperf_spec.models.response import last_usage
from aiperf_spec.models.run import RequestRecord
from tests.records import record
from tests.simulated_runs import request
from tests.test_adapters import WIRE, responses_of


def captured(name: str) -> RequestRecord:
    responses = responses_of(WIRE / "vllm" / name)
    report, reason = AdapterRegistry(BUILT_IN).read(responses, several_sequences=False)
    usage = last_usage(responses)
    assert usage is not None
    assert not isinstance(report, DraftTotals)
    made = record(0, start=0, contents=(1, 2), tokens=usage.completion_tokens, reason=reason)
    return replace(made, acceptance=report)


def tokens_of_steps(name: str) -> list[int]:
    """Return the tokens that each engine step gave, the prompt's own first, as the capture itself says."""
    events = [json.loads(line[6:]) for line in (WIRE / "vllm" / name).read_text().split("\n") if line[6:7] == "{"]
    choices = [choice for event in events for choice in event.get("choices", ())]
    if logprobs := [len(choice["logprobs"]["content"]) for choice in choices if choice.get("logprobs")]:
        return logprobs
    reached = [event["usage"]["completion_tokens"] for event in events if event.get("choices")]
    return [later - earlier for earlier, later in pairwise(reached)]


@pytest.mark.parametrize(
    ("name", "hidden"), [("chat-stream-continuous-usage.sse", 0), ("chat-stream-logprobs-usage.sse", 2)]
)
def test_steps_without_a_draft_follow_from_the_tokens(name: str, hidden: int) -> None:
    """The second capture's last step gave 6 tokens, of which the limit left 4: two undrafted steps are hidden."""
    steps = tokens_of_steps(name)
    found = decoding(captured(name))
    assert found is not None
    assert found.tokens == sum(steps)
    assert found.steps + hidden == len(steps) - 1
    assert found.undrafted_steps + hidden <= found.undrafted_at_most


def test_a_request_in_which_nothing_was_drafted_has_undrafted_steps_alone() -> None:
    assert decoding(captured("chat-stream-json-usage.sse")) == Decoding(3, 0, 0, 2, 2)


def test_a_cut_last_step_makes_no_undrafted_step() -> None:
    whole = request(0, (2, 0, 5), k=5)
    assert decoding(whole) == Decoding(11, 7, 3, 0, 5)
    assert whole.acceptance is not None
    for tokens, undrafted, most in ((7, 0, 1), (5, 0, 0), (14, 3, 8)):
        found = decoding(replace(whole, acceptance=replace(whole.acceptance, completion_tokens=tokens)))
        assert found is not None
        assert (found.undrafted_steps, found.undrafted_at_most) == (undrafted, most)
        assert found.steps == 3 + undrafted
        assert found.given == 10 + undrafted


def test_without_figures_of_single_steps_the_longest_acceptance_bounds_what_is_hidden() -> None:
    found = decoding(request(0, (2, 5, 0), k=5, per_step=False))
    assert found is not None
    assert (found.undrafted_steps, found.undrafted_at_most) == (0, 5)


def test_without_tokens_or_a_report_nothing_is_known() -> None:
    whole = request(0, (2, 0))
    assert whole.acceptance is not None
    # Tokens that a tokenizer counted do not say how many the engine decoded.
    assert decoding(replace(whole, acceptance=replace(whole.acceptance, completion_tokens=None))) is None
    for reason in (DropReason.ABSENT, DropReason.ZERO_STEP):
        assert decoding(record(0, start=0, contents=(1, 2), tokens=None, reason=reason)) is None
    assert decoding(record(0, start=0, contents=(1, 2), tokens=9, reason=DropReason.ABSENT)) is None
    assert decoding(record(0, start=0, contents=(1, 2), tokens=1, reason=DropReason.ZERO_STEP)) == Decoding(
        1, 0, 0, 0, 0
    )


def test_what_a_limit_of_tokens_hides_is_right_on_average() -> None:
    random, k, limit = Random(1), 4, 60
    ran = likely = fewest = 0.0
    for index in range(3000):
        accepted: list[int] = []
        undrafted, left = 0, limit - 1
        while left > 0:
            drafts = random.random() < 0.5
            count = next((j for j in range(k) if random.random() > 0.7), k) if drafts else 0
            if drafts:
                accepted.append(count)
            undrafted, left = undrafted + (not drafts), left - 1 - count
        given = sum(accepted) + len(accepted)
        record = replace(request(index, tuple(accepted), undrafted=limit - 1 - given), finish_reason="length")
        found, least = likely_steps(record, most=False), decoding(record)
        assert found is not None
        assert least is not None
        assert found == likely_steps(record, most=True)
        ran, likely, fewest = ran + len(accepted) + undrafted, likely + found.steps, fewest + least.steps
    assert likely / ran == pytest.approx(1, abs=0.002)
    assert fewest / ran < 0.98


def test_a_cut_at_a_stop_may_hide_as_many_steps_as_the_last_one_accepted_drafts() -> None:
    stopped = replace(request(0, (2, 0, 4), undrafted=3), finish_reason="stop")
    for each in (stopped, replace(stopped, finish_reason=None)):
        bounds = [likely_steps(each, most=most) for most in (False, True)]
        assert [found.undrafted_steps for found in bounds if found is not None] == [3, 7]
    assert likely_steps(replace(stopped, acceptance=None), most=True) is None


def test_an_answer_of_one_cut_step_has_a_decode_step() -> None:
    found = likely_steps(replace(request(0, (4,), undrafted=-4), finish_reason="length"), most=True)
    assert found is not None
    assert found.steps >= 1
