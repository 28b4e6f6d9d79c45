from __future__ import annotations

import json
from collections import Counter
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from aiperf_spec.models.acceptance import SpecDecodeAcceptanceRecord
from aiperf_spec.models.identities import MAX_COUNT, MAX_DRAFT
from tests.identities import broken_identities

STEPS = [(3, 5), (0, 5), (5, 5), (2, 4), (0, 5)]
VALID: dict[str, Any] = {
    "engine": "vllm",
    "mean_acceptance_length": 3.0,
    "draft_acceptance_rate": 10 / 24,
    "acceptance_histogram": {0: 2, 2: 1, 3: 1, 5: 1},
    "num_accepted_draft_tokens": 10,
    "num_draft_tokens": 24,
    "num_spec_steps": 5,
    "num_spec_tokens": 5,
    "completion_tokens": 16,
    "per_step_accepted": (3, 0, 5, 2, 0),
    "per_step_drafted": (5, 5, 5, 4, 5),
}
NO_STEPS = {"per_step_accepted": None, "per_step_drafted": None}


def is_accepted(values: dict[str, Any]) -> bool:
    try:
        SpecDecodeAcceptanceRecord(**values)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"num_spec_tokens": None},
        {"completion_tokens": None},
        {"per_step_accepted": None},
        {"per_step_drafted": None},
        NO_STEPS,
        {"engine": "acme"},
        {"mean_acceptance_length": 3},
        {"mean_acceptance_length": 2.5},
        {"draft_acceptance_rate": 0.42},
        {"mean_acceptance_length": 6, "num_spec_tokens": 5},
        {
            **NO_STEPS,
            "acceptance_histogram": {},
            "num_accepted_draft_tokens": 0,
            "num_draft_tokens": 0,
            "num_spec_steps": 0,
            "mean_acceptance_length": 1.0,
            "draft_acceptance_rate": 0.0,
        },
        {
            "acceptance_histogram": {1: MAX_COUNT},
            "num_accepted_draft_tokens": MAX_COUNT,
            "num_draft_tokens": MAX_COUNT,
            "num_spec_steps": MAX_COUNT,
            "num_spec_tokens": None,
            "mean_acceptance_length": 2.0,
            "draft_acceptance_rate": 1.0,
            **NO_STEPS,
        },
        {
            "acceptance_histogram": {MAX_DRAFT: 1},
            "num_accepted_draft_tokens": MAX_DRAFT,
            "num_draft_tokens": MAX_DRAFT,
            "num_spec_steps": 1,
            "num_spec_tokens": MAX_DRAFT,
            "draft_acceptance_rate": 1.0,
            **NO_STEPS,
        },
    ],
    ids=lambda change: " ".join(change) or "as is",
)
def test_a_consistent_record_is_taken(change: dict[str, Any]) -> None:
    values = {**VALID, **change}
    assert broken_identities(values) == set()
    record = SpecDecodeAcceptanceRecord(**values)
    assert record.model_dump() == values
    assert SpecDecodeAcceptanceRecord(**json.loads(json.dumps(record.model_dump(mode="json")))) == record


# One identity broken, and only it, so that no other check can hide a missing one.
ALONE: dict[str, dict[str, Any]] = {
    "length within k + 1": {"mean_acceptance_length": 6.01},
    "rate of the counts": {"draft_acceptance_rate": 0.45},
    "histogram sums to steps": {**NO_STEPS, "num_spec_steps": 6},
    "histogram weighs up to accepted": {**NO_STEPS, "num_accepted_draft_tokens": 9, "draft_acceptance_rate": 9 / 24},
    "accepted within proposed": {**NO_STEPS, "num_draft_tokens": 9},
    "no drafts without steps": {
        **NO_STEPS,
        "acceptance_histogram": {},
        "num_accepted_draft_tokens": 0,
        "num_spec_steps": 0,
        "mean_acceptance_length": 1.0,
        "draft_acceptance_rate": 0.0,
    },
    "buckets within bound": {**NO_STEPS, "num_spec_tokens": 4},
    "steps within bound": {"per_step_accepted": None, "per_step_drafted": (6, 5, 5, 3, 5)},
    "drafted per step": {"per_step_accepted": None, "per_step_drafted": (5, 5, 5, 4, 4)},
    "each step within its draft": {"per_step_drafted": (2, 5, 5, 7, 5), "num_spec_tokens": None},
    "accepted per step make the histogram": {"per_step_accepted": (4, 0, 5, 1, 0)},
}


@pytest.mark.parametrize("identity", ALONE)
def test_a_broken_identity_alone_is_refused(identity: str) -> None:
    values = {**VALID, **ALONE[identity]}
    assert broken_identities(values) == {identity}
    with pytest.raises(ValidationError):
        SpecDecodeAcceptanceRecord(**values)


@pytest.mark.parametrize(
    "change",
    [
        {"per_step_accepted": (3, 0, 5, 2)},
        {"per_step_accepted": (3, 0, 5, 2, 0, 0)},
        {"per_step_accepted": ()},
        {"per_step_accepted": None, "per_step_drafted": (5, 5, 5, 9)},
        {"per_step_accepted": None, "per_step_drafted": (5, 5, 5, 4, 5, 0)},
        {"per_step_accepted": (3, 1, 5, 2, 0)},
    ],
)
def test_an_array_of_another_length_or_sum_is_refused(change: dict[str, Any]) -> None:
    assert not is_accepted({**VALID, **change})


NO_COUNTS = [True, False, "3", b"3", 3.0, 3.5, -1, None, [3], float("nan"), float("inf"), MAX_COUNT + 1, 10**400]


@pytest.mark.parametrize("bad", NO_COUNTS, ids=lambda bad: repr(bad)[:20])
@pytest.mark.parametrize("field", ["num_accepted_draft_tokens", "num_draft_tokens", "num_spec_steps"])
def test_what_is_no_count_is_refused(field: str, bad: Any) -> None:
    assert not is_accepted({**VALID, **NO_STEPS, field: bad})


@pytest.mark.parametrize("bad", [bad for bad in NO_COUNTS if bad is not None], ids=lambda bad: repr(bad)[:20])
@pytest.mark.parametrize("field", ["num_spec_tokens", "completion_tokens"])
def test_what_is_no_optional_count_is_refused(field: str, bad: Any) -> None:
    assert not is_accepted({**VALID, **NO_STEPS, field: bad})


@pytest.mark.parametrize("bad", NO_COUNTS, ids=lambda bad: repr(bad)[:20])
def test_what_is_no_count_in_an_array_or_a_bucket_is_refused(bad: Any) -> None:
    assert not is_accepted({**VALID, "per_step_accepted": (3, 0, 5, 2, bad)})
    assert not is_accepted({**VALID, "per_step_drafted": (5, 5, 5, 4, bad)})
    assert not is_accepted({**VALID, **NO_STEPS, "acceptance_histogram": {0: 2, 2: 1, 3: bad, 5: 1}})


def test_a_zero_bucket_is_refused() -> None:
    assert not is_accepted({**VALID, "acceptance_histogram": {**VALID["acceptance_histogram"], 1: 0}})


@pytest.mark.parametrize("bucket", [-1, 1.5, "x", None, MAX_COUNT + 1, 10**400])
def test_what_is_no_bucket_is_refused(bucket: Any) -> None:
    assert not is_accepted({**VALID, **NO_STEPS, "acceptance_histogram": {0: 2, 2: 1, 3: 1, bucket: 1}})


NO_NUMBERS = [True, "1.5", None, [1], float("nan"), float("inf"), float("-inf"), 10**400, -(10**400)]


@pytest.mark.parametrize("bad", [*NO_NUMBERS, 0.999, 0, -1], ids=lambda bad: repr(bad)[:20])
def test_what_is_no_acceptance_length_is_refused(bad: Any) -> None:
    assert not is_accepted({**VALID, "mean_acceptance_length": bad})


@pytest.mark.parametrize("bad", [*NO_NUMBERS, -0.1, 1.001, 41.7], ids=lambda bad: repr(bad)[:20])
def test_what_is_no_acceptance_rate_is_refused(bad: Any) -> None:
    assert not is_accepted({**VALID, "draft_acceptance_rate": bad})


@pytest.mark.parametrize("field", [field for field in VALID if field not in ("num_spec_tokens", "completion_tokens")])
def test_a_missing_field_is_refused(field: str) -> None:
    values = {key: value for key, value in VALID.items() if key != field}
    assert is_accepted(values) is field.startswith("per_step")


def test_an_unknown_field_is_refused() -> None:
    assert not is_accepted({**VALID, "per_position": [1]})
    assert not is_accepted({**VALID, "engine": ""})


def test_a_record_is_frozen() -> None:
    record = SpecDecodeAcceptanceRecord(**VALID)
    with pytest.raises(FrozenInstanceError):
        record.num_spec_steps = 6  # type: ignore[misc]


STEP = st.integers(0, 8).flatmap(lambda drafted: st.tuples(st.integers(0, drafted), st.just(drafted)))


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a record that is right by construction: its figures are counted from its steps."""
    steps = draw(st.lists(STEP, max_size=12))
    accepted, drafted = sum(a for a, _ in steps), sum(d for _, d in steps)
    return {
        "engine": draw(st.sampled_from(["vllm", "tensorrt_llm", "sglang", "acme"])),
        "mean_acceptance_length": 1 + accepted / len(steps) if steps else 1.0,
        "draft_acceptance_rate": accepted / drafted if drafted else 0.0,
        "acceptance_histogram": dict(Counter(a for a, _ in steps)),
        "num_accepted_draft_tokens": accepted,
        "num_draft_tokens": drafted,
        "num_spec_steps": len(steps),
        "num_spec_tokens": draw(st.none() | st.integers(8, 9)),
        "completion_tokens": draw(st.none() | st.integers(0, 200)),
        "per_step_accepted": draw(st.none() | st.just(tuple(a for a, _ in steps))),
        "per_step_drafted": draw(st.none() | st.just(tuple(d for _, d in steps))),
    }


@given(values=records())
def test_what_steps_make_is_taken(values: dict[str, Any]) -> None:
    assert broken_identities(values) == set()
    assert SpecDecodeAcceptanceRecord(**values).model_dump() == values


@settings(max_examples=400)
@given(values=records(), data=st.data())
def test_one_changed_count_is_refused_or_breaks_nothing(values: dict[str, Any], data: st.DataObject) -> None:
    value = data.draw(st.integers(-1, 12) | st.sampled_from([2**53, 2**64]), label="new count")
    field = data.draw(
        st.sampled_from(
            [key for key, old in values.items() if key.startswith("num_") and old is not None]
            + ["acceptance_histogram", "per_step_accepted", "per_step_drafted"]
        )
    )
    changed = dict(values)
    if field == "acceptance_histogram":
        bucket = data.draw(st.integers(-1, 12), label="bucket")
        changed[field] = {**values[field], bucket: value}
    elif field.startswith("per_step"):
        if not values[field]:
            return
        place = data.draw(st.integers(0, len(values[field]) - 1), label="step")
        changed[field] = (*values[field][:place], value, *values[field][place + 1 :])
    else:
        changed[field] = value
    assert is_accepted(changed) is (not broken_identities(changed))


@pytest.mark.parametrize(("sent", "other"), [(2.0, None), (2.004, None), (1.995, None), (1.9, 1.9), (2.4, 2.4)])
def test_a_length_as_sent_parts_from_the_counts_by_more_than_rounding(sent: float, other: float | None) -> None:
    found = SpecDecodeAcceptanceRecord(
        engine="vllm",
        mean_acceptance_length=sent,
        draft_acceptance_rate=0.5,
        acceptance_histogram={1: 4},
        num_accepted_draft_tokens=4,
        num_draft_tokens=8,
        num_spec_steps=4,
        num_spec_tokens=2,
    )
    assert (found.length, found.other_length, found.rate) == (2.0, other, 0.5)
    assert found.mean_acceptance_length == sent


def test_a_record_without_steps_has_no_length_and_no_rate() -> None:
    found = SpecDecodeAcceptanceRecord(
        engine="vllm",
        mean_acceptance_length=1.0,
        draft_acceptance_rate=0.0,
        acceptance_histogram={},
        num_accepted_draft_tokens=0,
        num_draft_tokens=0,
        num_spec_steps=0,
    )
    assert (found.length, found.other_length, found.rate) == (None, None, None)
