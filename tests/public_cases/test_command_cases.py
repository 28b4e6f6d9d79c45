"""Public cases of the whole command: what it says, sends and returns against a server that somebody reported."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from aiperf_spec.cli.app import app
from tests.public_cases.stub import Asked, serving

CASES = {
    row["id"]: row
    for line in (Path(__file__).parent / "commands.jsonl").read_text(encoding="utf-8").split("\n")
    if line
    for row in [json.loads(line)]
}


def run(script: dict[str, Any], folder: Path, *more: str) -> tuple[Result, list[Asked]]:
    """Profile a scripted server with the options that its case asks for; return what came of it, and what was asked."""
    asked = script.get("request", {})
    options = ["--concurrency", str(asked.get("concurrency", 1)), "--temperature", "0"]
    options += [] if "--model" in asked.get("args", ()) else ["--model", "m"]
    options += ["--request-count", str(asked["requests"])] if "requests" in asked else []
    options += ["--max-tokens", str(asked["max_tokens"])] if "max_tokens" in asked else []
    options += [] if "gets" in script else ["--no-server-metrics"]
    if "prompts" in script:
        file = folder.with_suffix(".jsonl")
        file.write_text("".join(json.dumps(row) + "\n" for row in script["prompts"]))
        options += ["--input-file", str(file)]
    with serving(script) as stub:
        arguments = [
            "--url",
            stub.url,
            "--full",
            *options,
            *asked.get("args", []),
            *more,
            "--artifact-dir",
            str(folder),
        ]
        return CliRunner().invoke(app, arguments, env={"COLUMNS": "80"}), stub.posts


@pytest.mark.parametrize("case_id", CASES)
def test_case(case_id: str, tmp_path: Path) -> None:
    script, expected = CASES[case_id]["stub"], CASES[case_id]["expect"]
    posts: list[Asked] = []
    if "pair" in script:
        how, first, second = script["pair"]
        run(first, tmp_path / "first")
        if how == "compare":
            run(second, tmp_path / "second")
            result = CliRunner().invoke(app, ["compare", str(tmp_path / "first"), str(tmp_path / "second")])
        else:
            result, posts = run(second, tmp_path / "second", "--baseline", str(tmp_path / "first"))
    else:
        result, posts = run(script, tmp_path / "run", *expected.get("args", []))
    printed = result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in printed
    assert [pattern for pattern in expected.get("has", []) if not re.search(pattern, printed)] == [], printed
    assert [pattern for pattern in expected.get("lacks", []) if re.search(pattern, printed)] == [], printed
    if "has_any" in expected:
        assert any(re.search(pattern, printed) for pattern in expected["has_any"]), printed
    bodies = [post.body for post in posts]
    assert len(bodies) >= len(expected.get("bodies", []))
    for wanted, body in zip(expected.get("bodies", []), bodies, strict=False):
        assert {key: body.get(key) for key in wanted} == wanted
