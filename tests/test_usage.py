"""Mistakes of the command line itself: each is a line or two that say what is right."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from aiperf_spec.cli.app import app
from aiperf_spec.cli.usage import _OTHER_NAMES
from aiperf_spec.config.option_table import OPTIONS


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments], env={"COLUMNS": "80"})


@pytest.mark.parametrize(
    ("arguments", "error", "remedy"),
    [
        (("--concurency", "2"), "there is no option --concurency", "did you mean --concurrency"),
        (("--rate", "2"), "there is no option --rate", "it is --request-rate here"),
        (("--dataset", "x"), "there is no option --dataset", "it is --input-file here"),
        (("--max-concurrency", "2"), "there is no option --max-concurrency", "it is --concurrency here"),
        (("report", "x", "--rate", "1"), "there is no option --rate", "spec-profile report --help"),
        (("--url",), "--url needs a value", "spec-profile --help"),
        (("--url", "x", "--concurrency", "abc"), "--concurrency 'abc': must be a whole number", ""),
        (("--url", "x", "--concurrency", "0"), "--concurrency 0: must be at least 1", ""),
        (("simulate", "--port", "70000"), "--port '70000': must be at most 65535", ""),
        (("report", "x", "--source", "rate"), "--source: 'rate' is not one of 'auto'", ""),
        (
            ("report", "x", "--metric", "accept_rat"),
            "--metric 'accept_rat': no metric is named 'accept_rat'",
            "the nearest name is accept_rate",
        ),
        (("report",), "PATH... is missing", "spec-profile report --help"),
        (("adapters", "x"), "got unexpected extra argument(s) (x)", "spec-profile adapters --help"),
        (("repor", "x"), "there is no command 'repor'", "did you mean report?"),
        (("xyz",), "there is no command 'xyz'", "the commands are report, compare, sweep, export, doctor"),
        (("http://h:1/v1",), "'http://h:1/v1' is an address, and no command", "spec-profile --url http://h:1/v1"),
        (("h:8000",), "'h:8000' is an address", "spec-profile --url h:8000"),
        (("127.0.0.1",), "'127.0.0.1' is an address", "spec-profile --url 127.0.0.1"),
        (("http://user:secret@h/v1?key=s",), "'http://h/v1?...' is an address", "--url http://h/v1?..."),
        (("run", "--url", "x"), "there is no command 'run': a run needs none", "spec-profile --url URL"),
        (("profile", "-u", "x"), "there is no command 'profile': a run needs none", "spec-profile --url URL"),
        (("--require", "a >= 1", "report", "x"), "--require stands before report", "spec-profile report ... --require"),
        (("-u", "x", "doctor"), "--url stands before doctor", "spec-profile doctor ... --url"),
    ],
)
def test_a_mistake_is_a_line_and_what_is_right(arguments: tuple[str, ...], error: str, remedy: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    first, *rest = result.stderr.splitlines()
    assert first.startswith(f"error: {error}")
    assert len(rest) == bool(remedy)
    if remedy:
        assert rest[0].startswith("try:   ")
        assert remedy in rest[0]
    assert result.stdout == ""


def test_the_key_of_the_environment_stands_before_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    assert invoke("adapters").exit_code == 0


@pytest.mark.parametrize("arguments", [("help",), ("help", "report"), ("report", "--help"), ("--version",)])
def test_help_and_version_are_served(arguments: tuple[str, ...]) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 0
    assert ("spec-profile report" if "report" in arguments else "spec-profile") in result.stdout


def test_every_other_name_leads_to_an_option_and_is_none_itself() -> None:
    own = {flag for option in OPTIONS.values() for name in option.names for flag in name.split("/")} | {"--ui"}
    assert set(_OTHER_NAMES.values()) <= own
    assert not own & _OTHER_NAMES.keys()


def test_an_error_of_a_command_keeps_its_code(tmp_path: Path) -> None:
    result = invoke("report", str(tmp_path / "none"))
    assert (result.exit_code, result.stderr.count("\n")) == (2, 2)
