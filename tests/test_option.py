"""An option is declared once: everything else is made from its declaration."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from pydantic import BaseModel, ValidationError

import aiperf_spec
from aiperf_spec.cli.options import takes
from aiperf_spec.config.option import LOAD, OUTPUT, SERVER, Option, Options, declared, option
from aiperf_spec.config.option_table import OPTIONS
from aiperf_spec.config.settings import ProfileConfig, ReportSettings

DECLARATION = """
    min_tokens: int | None = option(
        "The fewest tokens to ask for.", REQUEST, "N", "endpoint.min_tokens", sent=True, ge=1, default=None
    )
"""
SHOWN = """
import json
from aiperf_spec.artifacts.write.config_yaml import config_yaml
from tests.options_page import options_markdown
from aiperf_spec.config.settings import ProfileConfig, ReportSettings
from aiperf_spec.config.yaml_file import parse_config
from aiperf_spec.models.run import DatasetInfo, RunResult

config = ProfileConfig(url="http://h:1", min_tokens=3)
data = DatasetInfo("built-in", None, 35, has_categories=True)
result = RunResult(config=config, url="", model="m", owned_by=None, dataset=data, wall_offset_ns=0)
text = config_yaml(result, ReportSettings()).decode()
read = parse_config(text, "f", {}.get, None)["min_tokens"]
print(json.dumps({"yaml": text, "read": read, "page": options_markdown()}))
"""


def test_a_declaration_alone_adds_an_option(tmp_path: Path) -> None:
    package = tmp_path / "aiperf_spec"
    shutil.copytree(Path(aiperf_spec.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    declarations = package / "config" / "run_options.py"
    declarations.write_text(declarations.read_text() + DECLARATION)

    def python(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "120"}
        command = [sys.executable, *arguments]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)

    helped = python("-m", "aiperf_spec", "--help").stdout
    request = helped[helped.index("\nRequest:\n") : helped.index("\nOutput:\n")]
    assert "--min-tokens" in request
    assert "The fewest tokens to ask for.  [x>=1]" in request

    made = python("-c", SHOWN)
    assert made.returncode == 0, made.stderr
    found = json.loads(made.stdout)
    assert "  endpoint:\n    urls:\n    - http://h:1\n    type: chat\n" in found["yaml"]
    assert "    min_tokens: 3\n" in found["yaml"]
    assert found["read"] == 3
    assert "| `--min-tokens` N | `endpoint.min_tokens` | The fewest tokens to ask for. Takes `x>=1`. |" in found["page"]

    file = tmp_path / "run.yaml"
    file.write_text("benchmark:\n  endpoint: {url: 'h:1'}\n")
    sent = python("-m", "aiperf_spec", "--config", str(file), "--min-tokens", "2", "--dry-run")
    assert json.loads(sent.stdout[sent.stdout.index("{") :])["min_tokens"] == 2
    refused = python("-m", "aiperf_spec", "--config", str(file), "--min-tokens", "0", "--dry-run")
    assert (refused.returncode, refused.stderr) == (
        2,
        "error: --min-tokens 0: must be at least 1\n",
    )
    file.write_text("benchmark:\n  endpoint: {url: 'h:1', min_tokens: 0}\n")
    refused = python("-m", "aiperf_spec", "--config", str(file), "--dry-run")
    assert "line 2: benchmark.endpoint.min_tokens: must be at least 1" in refused.stderr


def test_the_models_have_the_declared_fields_and_no_others() -> None:
    assert {**ProfileConfig.model_fields, **ReportSettings.model_fields}.keys() == OPTIONS.keys()


class Few(Options):
    level: int = option("How high.", LOAD, "N", "endpoint.level", ge=1, le=9, default=2)
    share: float | None = option("Part.", LOAD, gt=0, default=None)
    name: str = option("A name.", SERVER, flags=("--name", "-n"), place=None, min_length=2)
    sure: bool = option("Whether.", OUTPUT, default=True)
    quick: bool = option("Whether.", OUTPUT, default=False)


class Model(BaseModel, Few):
    pass


def test_what_a_declaration_says() -> None:
    found = declared(Few)
    assert list(found) == [each.name for each in found.values()] == ["level", "share", "name", "sure", "quick"]
    names = [each.names for each in found.values()]
    assert names == [("--level",), ("--share",), ("--name", "-n"), ("--sure/--no-sure",), ("--quick",)]
    assert [each.bounds for each in found.values()] == ["1<=x<=9", "x>0", "", "", ""]
    assert [each.default for each in found.values()] == [2, None, ..., True, False]


@pytest.mark.parametrize("wrong", [{"level": 0}, {"level": 10}, {"share": 0}, {"name": "x"}])
def test_a_model_holds_values_to_the_declared_bounds(wrong: dict[str, object]) -> None:
    assert Model(name="ab", share=0.5).level == 2
    with pytest.raises(ValidationError) as caught:
        Model(**{"name": "ab", **wrong})  # type: ignore[arg-type]
    assert [problem["loc"] for problem in caught.value.errors()] == [tuple(wrong)]


def test_a_command_takes_declared_options_between_its_own() -> None:
    asked = replace(OPTIONS["rows"], default=3), OPTIONS["url"], replace(OPTIONS["require"], help="Gate.")

    @takes(*asked, OPTIONS["api_key_env"])
    def command(context: typer.Context, folder: Path, *, last: bool = False, **values: object) -> None: ...

    signature = inspect.signature(command)
    assert list(signature.parameters) == ["context", "folder", "url", "rows", "require", "last"]
    url, rows, require = (signature.parameters[name] for name in ("url", "rows", "require"))
    assert url.default is inspect.Parameter.empty
    assert rows.default == 3
    assert require.annotation.__origin__ == list[str] | None
    assert require.annotation.__metadata__[0].help == "Gate."


@pytest.mark.parametrize(
    ("bounds", "shown"),
    [
        ({"ge": 1, "le": 64}, "1<=x<=64"),
        ({"gt": 0, "le": 1}, "0<x<=1"),
        ({"gt": 0}, "x>0"),
        ({"ge": 0}, "x>=0"),
        ({}, ""),
    ],
)
def test_help_shows_both_bounds(bounds: dict[str, float], shown: str) -> None:
    assert Option("h", LOAD, **bounds).bounds == shown  # type: ignore[arg-type]
