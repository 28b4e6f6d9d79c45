"""The files under `examples/`, each run against the simulator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aiperf_spec.cli.app import app
from tests.support import Simulate

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(*arguments: str, env: dict[str, str] | None = None) -> None:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "120", **(env or {})})
    assert result.exit_code == 0, result.output


def lines(folder: Path) -> list[dict[str, dict[str, object]]]:
    return [json.loads(line) for line in (folder / "profile_export.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("engine", ["vllm", "tensorrt_llm", "sglang", "llama_cpp"])
def test_the_configuration_of_each_engine(engine: str, simulate: Simulate, tmp_path: Path) -> None:
    file = EXAMPLES / f"{engine}.yaml"
    run("--config", str(file), "--artifact-dir", str(tmp_path), env={"SPEC_PROFILE_URL": simulate(engine).url})
    profiled = [line for line in lines(tmp_path) if line["metadata"]["benchmark_phase"] == "profiling"]
    assert len(profiled) == 20
    assert len(lines(tmp_path)) == 22
    assert all(line["spec_decode_acceptance"]["engine"] == engine for line in profiled)
    # Whoever asks for fewer tokens gets fewer: its row says 48.
    lengths = {line["metadata"]["conversation_id"]: line["metrics"]["output_sequence_length"] for line in profiled}
    assert lengths["meeting"] == {"value": 48, "unit": "tokens"}
    assert lengths["train"] == {"value": 64, "unit": "tokens"}


def test_the_prompts(simulate: Simulate, tmp_path: Path) -> None:
    file = EXAMPLES / "prompts.jsonl"
    run("--url", simulate("vllm").url, "--input-file", str(file), "--artifact-dir", str(tmp_path), "--max-tokens", "8")
    kinds = {line["metadata"]["source_kind"] for line in lines(tmp_path)}
    assert kinds == {"coding", "math", "translation", "qa", "writing"}


def test_the_two_turns(simulate: Simulate, tmp_path: Path) -> None:
    file = EXAMPLES / "two_turns.jsonl"
    run("--url", simulate("vllm").url, "--input-file", str(file), "--artifact-dir", str(tmp_path), "--max-tokens", "8")
    turns = [(line["metadata"]["conversation_id"], line["metadata"]["turn_index"]) for line in lines(tmp_path)]
    assert turns == [(name, turn) for name in ("sorting", "planets", "letter") for turn in (0, 1)]


def test_the_trace(simulate: Simulate, tmp_path: Path) -> None:
    file = EXAMPLES / "trace.jsonl"
    run("--url", simulate("vllm").url, "--input-file", str(file), "--artifact-dir", str(tmp_path), "--fixed-schedule")
    found = sorted(lines(tmp_path), key=lambda line: str(line["metadata"]["conversation_id"]))
    starts = [int(str(line["metadata"]["request_start_ns"])) for line in found]
    assert [line["metadata"]["conversation_id"] for line in found] == [f"line-{i}" for i in range(1, 6)]
    assert starts[4] - starts[0] > 2_900_000_000
    assert all("schedule_lag" in line["metrics"] for line in found)
