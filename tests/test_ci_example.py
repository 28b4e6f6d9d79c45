"""The workflow under `examples/ci` gates on conditions that mean something."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from aiperf_spec.analysis.gates import parse_gate

WORKFLOW = Path(__file__).parent.parent / "examples" / "ci" / "speculation.yml"


def test_every_gate_of_the_workflow_can_be_read() -> None:
    steps = yaml.safe_load(WORKFLOW.read_text())["jobs"]["gate"]["steps"]
    script = "\n".join(step.get("run", "") for step in steps)
    expressions = re.findall(r"--require '([^']+)'", script)
    assert len(expressions) == 8
    assert sum(parse_gate(expression).relative is not None for expression in expressions) == 2
