"""llama.cpp's running totals: which steps they show, and what they leave open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_spec.adapters.llama_cpp import LlamaCppAdapter, steps_of
from aiperf_spec.adapters.registry import BUILT_IN, AdapterRegistry
from aiperf_spec.models.acceptance import DropReason, SpecDecodeAcceptanceRecord
from aiperf_spec.models.draft_totals import DraftTotals
from aiperf_spec.models.response import ParsedResponse, Usage
from aiperf_spec.wire.chunk import parse_event
from aiperf_spec.wire.response_reader import ResponseReader
from aiperf_spec.wire.sse import SSEEvent

Totals = tuple[int, int, int]


def tokens_of(steps: list[tuple[int, int]]) -> Iterator[Totals]:
    """Yield the totals beside each token of a response whose decode steps proposed and accepted so much."""
    token, proposed, accepted = 1, 0, 0
    yield token, proposed, accepted
    for now_proposed, now_accepted in steps:
        proposed, accepted = proposed + now_proposed, accepted + now_accepted
        for _ in range(now_accepted + 1):
            token += 1
            yield token, proposed, accepted


def timings(totals: Totals) -> dict[str, Any]:
    tokens, proposed, accepted = totals
    drafts = {"draft_n": proposed, "draft_n_accepted": accepted} if proposed else {}
    return {"prompt_n": 9, "prompt_ms": 5.5, "predicted_n": tokens, "predicted_ms": 1.5 * tokens, **drafts}


def adapt(*totals: Totals, reason: str = "length") -> SpecDecodeAcceptanceRecord | DraftTotals | None:
    responses = [ParsedResponse(at, spec_decode_stats=timings(each)) for at, each in enumerate(totals)]
    return LlamaCppAdapter.adapt([*responses, ParsedResponse(99, finish_reasons=(reason,))])


STEP = st.integers(0, 5).flatmap(lambda proposed: st.tuples(st.just(proposed), st.integers(0, proposed)))


@given(st.lists(STEP, max_size=30))
def test_a_total_with_every_token_shows_every_step(steps: list[tuple[int, int]]) -> None:
    found, hidden = steps_of(tokens_of(steps))
    assert (found, hidden) == ([step for step in steps if step[0]], 0)


@given(st.lists(STEP, min_size=1, max_size=12), st.data())
def test_where_tokens_brought_no_totals_the_steps_lie_between_the_bounds(
    steps: list[tuple[int, int]], data: st.DataObject
) -> None:
    totals = list(tokens_of(steps))
    kept = [each for each in totals[:-1] if data.draw(st.booleans())] + totals[-1:]
    drafted = [step for step in steps if step[0]]
    found, hidden = steps_of(kept)
    assert len(found) <= len(drafted) <= len(found) + hidden
    if not hidden:
        assert found == drafted
    report = adapt(*kept)
    assert report is not None
    if isinstance(report, DraftTotals):
        assert report.fewest_steps <= len(drafted) <= report.most_steps
        assert report.num_accepted_draft_tokens == sum(accepted for _, accepted in drafted)
    else:
        assert report.per_step_drafted == tuple(proposed for proposed, _ in drafted)
        assert report.per_step_accepted == tuple(accepted for _, accepted in drafted)


def test_a_token_that_is_missing_within_a_step_hides_none() -> None:
    assert steps_of([(1, 0, 0), (2, 5, 2), (5, 10, 2)]) == ([(5, 2), (5, 0)], 0)


def test_a_token_that_is_missing_between_steps_may_hide_one() -> None:
    assert steps_of([(1, 0, 0), (2, 5, 0), (4, 10, 0)]) == ([(5, 0), (5, 0)], 1)
    report = adapt((1, 0, 0), (2, 5, 0), (4, 10, 0))
    assert isinstance(report, DraftTotals)
    assert (report.fewest_steps, report.most_steps) == (2, 3)


def test_two_steps_cannot_hide_behind_one_draft_token() -> None:
    assert steps_of([(1, 0, 0), (2, 5, 0), (4, 6, 0)]) == ([(5, 0), (1, 0)], 0)


def test_a_stop_cuts_what_the_last_step_accepted() -> None:
    """Of four tokens, the last three may be of one step or of three, whose last accepted more than was kept."""
    ended = [adapt((4, 15, 9), reason=reason) for reason in ("stop", "length")]
    assert isinstance(ended[0], DraftTotals)
    assert (ended[0].fewest_steps, ended[0].most_steps) == (1, 3)
    assert isinstance(ended[1], DraftTotals)
    assert (ended[1].fewest_steps, ended[1].most_steps) == (1, 1)


def test_the_end_alone_is_no_record_even_of_two_tokens() -> None:
    """Short responses would else be the only ones with a record where nobody asked for running totals."""
    assert isinstance(adapt((2, 5, 0)), DraftTotals)
    assert isinstance(adapt((1, 0, 0), (2, 5, 0)), SpecDecodeAcceptanceRecord)


@pytest.mark.parametrize(
    "totals",
    [
        [(1, 0, 0), (2, 5, 1), (3, 4, 1)],
        [(1, 0, 0), (3, 5, 2), (2, 5, 2)],
        [(1, 0, 0), (2, 5, 3), (3, 5, 2)],
        [(1, 0, 0), (2, 5, 3), (3, 5, 4)],
        [(2, 5, 6)],
    ],
)
def test_totals_that_no_step_makes_are_malformed(totals: list[Totals]) -> None:
    assert adapt(*totals) is None


@pytest.mark.parametrize("value", [True, 2.0, "2", None, -1, 2**60])
@pytest.mark.parametrize("key", ["draft_n", "draft_n_accepted", "predicted_n"])
def test_what_is_no_count_is_malformed(key: str, value: Any) -> None:
    sent = {**timings((9, 10, 4)), key: value}
    assert LlamaCppAdapter.adapt([ParsedResponse(1, spec_decode_stats=sent)]) is None


@pytest.mark.parametrize("key", ["draft_kind", "draft_rounds", "peak_memory"])
def test_the_same_names_of_another_engine_are_not_its_own(key: str) -> None:
    responses = [ParsedResponse(1, spec_decode_stats={**timings((9, 10, 4)), key: None})]
    assert not LlamaCppAdapter.can_adapt(responses)
    assert LlamaCppAdapter.adapt(responses) is None


def test_a_response_without_a_draft_ran_no_step() -> None:
    registry = AdapterRegistry(BUILT_IN)
    responses = [ParsedResponse(1, spec_decode_stats=timings((30, 0, 0)), usage=Usage(9, 30))]
    assert registry.read(responses, several_sequences=False) == (None, DropReason.ZERO_STEP)


@pytest.mark.parametrize("size", [1, 700, 1 << 20])
def test_none_of_the_events_is_merged_away(size: int) -> None:
    """Events that differ in their text alone are kept as one response; running totals are in none of these."""
    totals = list(tokens_of([(3, 1)] * 40))
    chunks = [{"choices": [{"index": 0, "text": "a"}], "timings": timings(each)} for each in totals]
    body = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"
    registry = AdapterRegistry(BUILT_IN)
    reader = ResponseReader(registry.payload_paths, registry.timing_paths)
    for at in range(0, len(body), size):
        reader.feed(body[at : at + size], at)
    reader.finish(len(body))
    assert [each.spec_decode_stats for each in reader.responses if not each.is_done] == [*map(timings, totals)]
    report, reason = registry.read(reader.responses, several_sequences=False)
    assert isinstance(report, SpecDecodeAcceptanceRecord)
    assert reason is None
    assert (report.per_step_accepted, report.per_step_drafted) == ((1,) * 40, (3,) * 40)


@pytest.mark.parametrize("several", [True, False])
def test_usage_of_one_of_several_sequences_is_nobodys(several: bool) -> None:
    registry = AdapterRegistry(BUILT_IN)
    responses = [ParsedResponse(at, spec_decode_stats=timings((30, 9, 4)), usage=Usage(9, 30)) for at in range(2)]
    assert registry.usage(responses, several_sequences=several) == (None if several else Usage(9, 30))
    vllm = [ParsedResponse(1, usage=Usage(9, 60))]
    assert registry.usage(vllm, several_sequences=several) == Usage(9, 60)


def test_a_field_of_another_version_is_named_once() -> None:
    registry = AdapterRegistry(BUILT_IN)
    event = {"choices": [{"index": 0, "text": "a"}], "timings": {**timings((9, 10, 4)), "tree_width": 4}}
    parsed = parse_event(SSEEvent(json.dumps(event).encode()), 1, registry.payload_paths, registry.timing_paths)
    assert parsed is not None
    for _ in range(2):
        report, _ = registry.read([parsed], several_sequences=False)
        assert isinstance(report, DraftTotals)
    [warning] = registry.warnings
    assert warning.startswith("llama.cpp reports acceptance otherwise than in b11434")
    assert "with tree_width, which is ignored" in warning
