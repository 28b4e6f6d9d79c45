"""The command that makes a run, from its settings."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from aiperf_spec.config.command_line import command_line
from aiperf_spec.config.settings import ProfileConfig, ReportSettings


def words(config: ProfileConfig, **shown: object) -> list[str]:
    return shlex.split(" ".join(command_line(config, ReportSettings.create(**shown))))


def test_options_at_their_defaults_are_left_out() -> None:
    config = ProfileConfig(url="127.0.0.1:8000", artifact_dir=Path("out"), overwrite=True, concurrency=1)
    assert words(config) == ["spec-profile", "--url", "127.0.0.1:8000"]


def test_every_kind_of_value_is_written_as_it_is_typed() -> None:
    config = ProfileConfig(
        url="h:1",
        model="a model",
        streaming=False,
        concurrency=4,
        request_rate=2.5,
        temperature=0,
        input_file=(Path("a.jsonl"), Path("b's.jsonl")),
        category=("qa",),
        tags={"step": "3000", "data": "a b"},
        extra_inputs={"ignore_eos": True, "stop": ["\n"]},
    )
    found = words(config, draft_cost=0.05, require=("acceptance_length >= 2.1",))
    assert found == [
        *("spec-profile", "--url", "h:1", "--model", "a model", "--no-streaming", "--concurrency", "4"),
        *("--request-rate", "2.5", "--input-file", "a.jsonl", "--input-file", "b's.jsonl", "--category", "qa"),
        *("--temperature", "0", "--extra-inputs", json.dumps({"ignore_eos": True, "stop": ["\n"]})),
        *("--tag", "step=3000", "--tag", "data=a b"),
        *("--draft-cost", "0.05", "--require", "acceptance_length >= 2.1"),
    ]


def test_no_secret_is_in_it() -> None:
    config = ProfileConfig(
        url="https://someone:p4ssw0rd@h:1/v1?code=c0de1234",
        api_key="sk-key-1234",
        headers=(("X-Api-Key", "s3cr3t-5"), ("X-Api-Key", "s3cr3t-6"), ("X-Tenant", "blue")),
        extra_inputs={"session_token": "t0ken-7", "top_p": 1},
        server_metrics_url=("http://other:w0rd5678@h:2/metrics",),
    )
    found = words(config)
    for secret in ("someone", "p4ssw0rd", "c0de1234", "sk-key", "s3cr3t", "t0ken-7", "other", "w0rd5678"):
        assert secret not in " ".join(found)
    assert "X-Tenant: blue" in found
    assert found.count("X-Api-Key: <redacted>") == 2
    assert "https://<redacted>@h:1/v1?<redacted>" in found
