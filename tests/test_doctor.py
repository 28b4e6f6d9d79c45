"""`spec-profile doctor` against simulators, and its diagnosis of what no simulator does."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from aiperf_spec.cli.app import app
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.drafter import ServerDrafter
from aiperf_spec.models.run import DatasetInfo, ErrorKind, RequestRecord, RunResult
from aiperf_spec.models.server_metrics import MetricFigures, SeriesFigures, ServerMetrics
from aiperf_spec.render.diagnosis import Diagnosis, ServerInfo, diagnose, diagnosis_report
from tests.records import failed, record
from tests.support import Simulate


def doctor(url: str, *more: str) -> Result:
    return CliRunner().invoke(app, ["doctor", "--url", url, *more], env={"COLUMNS": "200"})


@pytest.mark.parametrize(
    ("engine", "settings", "code", "said", "unsaid"),
    [
        ("vllm", {"level": "detailed"}, 0, ["vLLM 0.32.0 at", "on, detailed", "Nothing to change"], ["SGLang"]),
        ("vllm", {"level": "summary"}, 0, ["on, summary", "optional: --per-request"], ["Nothing to change"]),
        ("vllm", {"level": "none"}, 1, ["on, by the server's own", "--per-request-spec-decode-metrics"], ["ngram"]),
        ("tensorrt_llm", {}, 0, ["TensorRT-LLM at", "Nothing to change"], ["vLLM"]),
        (
            "llama_cpp",
            {},
            0,
            ["llama.cpp b11434-simulated at", "on: ", "timings_per_token:true to your runs"],
            ["vLLM", "Nothing to change"],
        ),
        (
            "sglang",
            {},
            0,
            ["SGLang 0.5.23 at", "EAGLE3, chains of 7 tokens", "return_spec_tokens_details:true"],
            ["vLLM", "Nothing to change"],
        ),
    ],
)
def test_each_engine_is_told(
    engine: str, settings: dict[str, Any], code: int, said: list[str], unsaid: list[str], simulate: Simulate
) -> None:
    simulator = simulate(engine, **settings)
    simulator.reset_ledger()
    result = doctor(simulator.url)
    assert result.exit_code == code, result.output
    for text in said:
        assert text in result.stdout
    for text in unsaid:
        assert text not in result.stdout
    (entry,) = simulator.ledger()
    assert entry["completion_tokens"] <= 16


def test_who_asks_sglang_himself_has_nothing_to_change(simulate: Simulate) -> None:
    result = doctor(simulate("sglang").url, "--extra-inputs", "return_spec_tokens_details:true")
    assert result.exit_code == 0
    assert "Nothing to change" in result.stdout


def test_a_server_that_is_not_there() -> None:
    result = doctor("http://127.0.0.1:1", "--model", "m")
    assert result.exit_code == 1
    assert "failed: ConnectError" in result.stdout
    assert "check that the server runs" in result.stdout


def test_a_bad_option_is_named() -> None:
    result = doctor("ftp://host")
    assert result.exit_code == 2
    assert "ftp" in result.stderr


def a_run(of: RequestRecord, metrics: dict[str, tuple[str, float]] | None = None, **settings: Any) -> RunResult:
    figures = {
        name: MetricFigures(kind, "", None, [SeriesFigures("u", {}, {"total": total})])
        for name, (kind, total) in (metrics or {}).items()
    }
    return RunResult(
        config=ProfileConfig(url="http://h:1", **settings),
        url="http://h:1/v1",
        model="[red]m[/red]\x1b[2J",
        owned_by=None,
        dataset=DatasetInfo("p", None, 1, has_categories=False),
        wall_offset_ns=0,
        records=[of],
        server_metrics=None if metrics is None else ServerMetrics([], 0, 1, figures),
    )


def shown(diagnosis: Diagnosis) -> str:
    buffer = io.StringIO()
    Console(file=buffer, width=200, color_system=None, markup=False).print(diagnosis_report(diagnosis))
    return buffer.getvalue()


SILENT = record(0, start=0, contents=(5, 9), tokens=16, reason=DropReason.ABSENT)
VLLM = ServerInfo("vllm", "vllm", "1.0")


def test_a_vllm_without_a_drafter() -> None:
    text = shown(diagnose(a_run(SILENT, {"vllm:prompt_tokens": ("counter", 7)}), VLLM))
    assert "off, by the server's own counters" in text
    assert "proxy" not in text
    assert "--speculative-config" in text
    assert "--per-request-spec-decode-metrics" in text


def test_a_server_that_says_nothing_gets_every_remedy() -> None:
    text = shown(diagnose(a_run(SILENT), ServerInfo("acme \x1b[31m", None)))
    assert "not known" in text
    assert "where it is vLLM: start vLLM with --per-request" in text
    assert "where it is TensorRT-LLM: set per_request_spec_decode_stats" in text
    assert "where it is SGLang: add --extra-inputs" in text
    assert "\x1b" not in text
    assert "[red]m[/red]\\x1b[2J" in text


def test_an_sglang_without_a_drafter() -> None:
    run = a_run(SILENT, extra_inputs={"return_spec_tokens_details": True})
    run = replace(run, drafter=ServerDrafter(engine="sglang", method=None))
    text = shown(diagnose(run, ServerInfo("sglang", "sglang", None), asked_for_user=True))
    assert "none, by the server's settings" in text
    assert "--speculative-algorithm" in text
    assert "return_spec_tokens_details" not in text


def test_a_response_too_short_to_draft_counts_as_reported() -> None:
    diagnosis = diagnose(a_run(record(0, start=0, contents=(5, 9), tokens=2, reason=DropReason.ZERO_STEP)), VLLM)
    assert diagnosis.reported
    assert "nothing was drafted" in shown(diagnosis)


def test_a_payload_that_nothing_reads() -> None:
    diagnosis = diagnose(a_run(record(0, start=0, contents=(5,), tokens=2, reason=DropReason.UNRECOGNIZED)), VLLM)
    assert not diagnosis.reported
    assert "no adapter recognises the payload" in shown(diagnosis)
    assert "examples/custom_adapter" in shown(diagnosis)


@pytest.mark.parametrize(
    ("kind", "status", "said"),
    [
        (ErrorKind.HTTP_STATUS, 401, "--api-key"),
        (ErrorKind.HTTP_STATUS, 404, "--model"),
        (ErrorKind.HTTP_STATUS, 500, "server's log"),
        (ErrorKind.CONNECT_ERROR, None, "server runs"),
        (ErrorKind.CANCELLED, None, "ask again"),
    ],
)
def test_a_failed_request_says_what_to_try(kind: ErrorKind, status: int | None, said: str) -> None:
    diagnosis = diagnose(a_run(failed(0, kind, status=status, message="[b]x[/b]\x1b[0m")), VLLM)
    assert not diagnosis.reported
    assert said in shown(diagnosis)
    assert "\x1b" not in shown(diagnosis)


def test_an_answer_of_one_token_says_nothing_against_the_drafter() -> None:
    text = shown(diagnose(a_run(replace(SILENT, output_tokens=1)), ServerInfo("sglang", "sglang")))
    assert "ask for a longer answer" in text
    assert "start SGLang with a drafter" not in text
