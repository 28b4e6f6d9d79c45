from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from aiperf_spec.simulator import FAULT_OUTCOMES, FAULTS, SimulatorConfig


def test_json_round_trip() -> None:
    config = SimulatorConfig("sglang", seed=3, faults=(("stall", 0.1), ("gzip", 0.2)), acceptance=0.5)
    assert SimulatorConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize(("engine", "k"), [("vllm", 5), ("tensorrt_llm", 3), ("sglang", 7), ("llama_cpp", 5)])
def test_draft_length_defaults_to_the_engine_s(engine: Any, k: int) -> None:
    assert SimulatorConfig(engine).draft_length == k
    assert SimulatorConfig(engine, num_spec_tokens=2).draft_length == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"engine": "llama.cpp"},
        {"num_spec_tokens": -1},
        {"draft_time_ms": -1.0},
        {"batch_time_ms": float("nan")},
        {"level": "all"},
        {"acceptance": 1.5},
        {"port": 70000},
        {"step_time_ms": -1.0},
        {"max_model_len": 0},
        {"faults": (("meteor", 0.1),)},
        {"faults": (("stall", -0.1),)},
        {"faults": (("stall", 0.6), ("gzip", 0.6))},
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    values: dict[str, Any] = {"engine": "vllm"} | settings
    with pytest.raises(ValueError, match=r"unknown|must|exceed"):
        SimulatorConfig(**values)


@pytest.mark.parametrize("text", ["[]", "{}", '{"engine": "vllm", "colour": 1}', "{"])
def test_bad_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        SimulatorConfig.from_json(text)


def test_every_fault_has_an_outcome() -> None:
    assert set(FAULTS) == set(FAULT_OUTCOMES)
    assert set(FAULT_OUTCOMES.values()) == {"ok", "error"}


def test_importing_the_package_leaves_the_server_out() -> None:
    code = "import sys, aiperf_spec.simulator; print('aiohttp' in sys.modules)"
    path = [entry for entry in sys.path if entry]
    program = f"import sys; sys.path[:0] = {path!r}; {code}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_step_costs_itself_its_draft_and_its_batch() -> None:
    config = SimulatorConfig("vllm", num_spec_tokens=4, step_time_ms=10.0, draft_time_ms=0.5, batch_time_ms=0.25)
    assert config.step_ms(1) == 10 + 2 + 0.25 * 5
    assert config.step_ms(8) == 10 + 2 + 0.25 * 5 * 8
    assert SimulatorConfig("vllm", num_spec_tokens=0, step_time_ms=10.0, batch_time_ms=0.25).step_ms(8) == 12
