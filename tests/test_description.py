"""What adapters say of their engines, and what a plug-in cannot say."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from pydantic import ValidationError

from aiperf_spec.adapters import EngineCounters, EngineDescription, TimingFields
from aiperf_spec.adapters.description import recognised
from aiperf_spec.adapters.engines import counts_speculation
from aiperf_spec.adapters.registry import BUILT_IN, AdapterRegistry
from aiperf_spec.config.extra_inputs import parse_extra_inputs

ENGINES = AdapterRegistry(BUILT_IN).engines


@pytest.mark.parametrize(
    ("owner", "engine"),
    [
        ("vllm", "vllm"),
        ("a vLLM of ours", "vllm"),
        ("sglang", "sglang"),
        ("TensorRT-LLM", "tensorrt_llm"),
        ("tensorrtllm", "tensorrt_llm"),
        ("trtllm-serve", "tensorrt_llm"),
        ("acme", None),
        ("", None),
        (None, None),
    ],
)
def test_an_engine_is_recognised_by_its_owner(owner: str | None, engine: str | None) -> None:
    assert recognised(owner, ENGINES) == engine


def test_an_engine_that_is_asked_in_each_request() -> None:
    """The option that is shown is one that the program takes, and asks with."""
    engine = EngineDescription(name="Acme", request_inputs={"report": True, "detail": {"level": 2}, "as": "steps"})
    given = parse_extra_inputs(shlex.split(engine.inputs_option)[1:])
    assert given == engine.request_inputs
    assert engine.is_asked_by({**given, "top_k": 1})
    assert not engine.is_asked_by({"report": True})
    assert engine.how_to_report is not None
    assert engine.inputs_option in engine.how_to_report
    assert not EngineDescription(name="Acme").is_asked_by({})


def test_counters_of_speculation_are_known_by_name_or_by_a_word() -> None:
    assert counts_speculation("sglang:spec_verify_calls")
    assert counts_speculation("unheard_of:spec_steps")
    assert not counts_speculation("vllm:request_success")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (EngineDescription, {}),
        (EngineDescription, {"name": "Acme", "colour": "red"}),
        (EngineDescription, {"name": "Acme", "counters": {"verify_steps": 3}}),
        (EngineCounters, {"steps": "acme_steps"}),
        (TimingFields, {"path": (), "fields": {}}),
        (TimingFields, {"path": ("timing",), "fields": {"queue_seconds": "queued"}}),
    ],
)
def test_what_cannot_be_right_is_refused_where_it_is_written(kind: Any, values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        kind(**values)
