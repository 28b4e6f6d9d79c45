"""Conversations of several turns, and runs that are written down, through the command and a simulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from aiperf_spec.cli.app import app
from aiperf_spec.simulator import SimulatorConfig
from aiperf_spec.simulator.process import SimulatorProcess
from tests.support import Simulate


def invoke(*arguments: str, env: dict[str, str] | None = None, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "120", **(env or {})}, input=stdin)


def lines(folder: Path, name: str = "profile_export.jsonl") -> list[dict[str, Any]]:
    return sorted(
        (json.loads(line) for line in (folder / name).read_text().splitlines()),
        key=lambda line: (line["metadata"]["phase_index"], line["metadata"]["session_num"]),
    )


def bodies(folder: Path) -> list[dict[str, Any]]:
    return [line["payload"] for line in lines(folder, "profile_export_raw.jsonl")]


def said(line: dict[str, Any]) -> str:
    """Return the text of a streamed answer, of a raw line."""
    events = [json.loads(v) for r in line["responses"] for p in r["packets"] if (v := p["value"]) != "[DONE]"]
    choices = [choice for event in events for choice in event["choices"]]
    return "".join(c.get("text") or (c.get("delta") or {}).get("content") or "" for c in choices)


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run(simulator: SimulatorProcess, out: Path, *arguments: str, env: dict[str, str] | None = None) -> Result:
    always = ("--url", simulator.url, "--artifact-dir", str(out), "--max-tokens", "12", "--export-level", "raw")
    return invoke(*always, *arguments, env=env)


QUESTIONS = [
    {"question_id": 81 + i, "category": "writing" if i % 2 else "math", "turns": [f"Question {i}?", f"And then {i}?"]}
    for i in range(80)
]


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_the_second_turn_carries_the_answer_to_the_first(endpoint: str, simulate: Simulate, tmp_path: Path) -> None:
    file = write(tmp_path / "q.jsonl", *QUESTIONS)
    out = tmp_path / "run"
    result = run(
        *(simulate("vllm"), out, "--input-file", str(file), "--concurrency", "8", "--endpoint-type", endpoint),
        "--temperature",
        "0",
    )
    assert result.exit_code == 0, result.output
    assert "80 conversations, 160 turns, spec_bench" in result.stdout
    raw = lines(out, "profile_export_raw.jsonl")
    assert len(raw) == 160
    names = [(line["metadata"]["conversation_id"], line["metadata"]["turn_index"]) for line in raw]
    assert names == [(str(81 + i), turn) for i in range(80) for turn in (0, 1)]
    for i in range(80):
        first, second = raw[2 * i], raw[2 * i + 1]
        assert first["start_perf_ns"] < second["start_perf_ns"]
        answer = said(first)
        assert answer
        if endpoint == "chat":
            assert second["payload"]["messages"] == [
                {"role": "user", "content": f"Question {i}?"},
                {"role": "assistant", "content": answer},
                {"role": "user", "content": f"And then {i}?"},
            ]
        else:
            assert second["payload"]["prompt"] == f"Question {i}?\n\n{answer}\n\nAnd then {i}?"
        assert first["metadata"]["source_kind"] == second["metadata"]["source_kind"] == QUESTIONS[i]["category"]


def test_the_count_is_of_requests_and_cuts_the_last_conversation(simulate: Simulate, tmp_path: Path) -> None:
    file = write(tmp_path / "q.jsonl", *({"turns": ["a", "b", "c"], "session_id": name} for name in "xyz"))
    run(simulate("vllm"), tmp_path / "run", "--input-file", str(file), "--request-count", "5", "--concurrency", "2")
    found = [(line["metadata"]["conversation_id"], line["metadata"]["turn_index"]) for line in lines(tmp_path / "run")]
    assert found == [("x", 0), ("x", 1), ("x", 2), ("y", 0), ("y", 1)]


def test_a_failed_turn_ends_its_conversation(tmp_path: Path) -> None:
    file = write(tmp_path / "q.jsonl", *({"turns": ["a", "b", "c"], "session_id": str(i)} for i in range(6)))
    with SimulatorProcess(SimulatorConfig(engine="vllm", faults=(("http_503_flat_json", 1.0),))) as simulator:
        result = run(simulator, tmp_path / "run", "--input-file", str(file), "--concurrency", "3")
    assert result.exit_code == 1
    found = lines(tmp_path / "run")
    assert [line["metadata"]["turn_index"] for line in found] == [0] * 6
    assert "6 conversations ended at a failed turn, and 12 turns after it went unsent" in " ".join(
        result.stderr.split()
    )


@pytest.mark.parametrize("strategy", ["sequential", "shuffle", "random"])
def test_the_same_seed_sends_the_same_bodies_whatever_the_concurrency(
    strategy: str, simulate: Simulate, tmp_path: Path
) -> None:
    file = write(tmp_path / "q.jsonl", *QUESTIONS[:10])
    sent = []
    for concurrency in ("1", "7"):
        out = tmp_path / concurrency
        result = run(
            *(simulate("vllm"), out, "--input-file", str(file), "--dataset-sampling-strategy", strategy),
            *("--random-seed", "3", "--concurrency", concurrency, "--request-count", "25"),
        )
        assert result.exit_code == 0, result.output
        sent.append(bodies(out))
    assert sent[0] == sent[1]
    assert len(sent[0]) == 25


def test_rows_with_settings_of_their_own(simulate: Simulate, tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    file = write(
        tmp_path / "p.jsonl",
        {"text": "a"},
        {"text": "b", "output_length": 5, "extra": {"top_p": 0.5, "stop": None}},
        {"messages": [{"role": "user", "content": "c"}], "tools": tools},
    )
    run(simulate("vllm"), tmp_path / "run", "--input-file", str(file), "--extra-inputs", "top_p:0.9")
    sent = bodies(tmp_path / "run")
    assert [body["max_completion_tokens"] for body in sent] == [12, 5, 12]
    assert [body["top_p"] for body in sent] == [0.9, 0.5, 0.9]
    assert [body.get("tools") for body in sent] == [None, None, tools]


def test_a_raw_payload_is_sent_as_it_stands(simulate: Simulate, tmp_path: Path) -> None:
    own = {
        "messages": [{"role": "user", "content": "a"}],
        "model": "simulated-model",
        "max_tokens": 4,
        "stream": False,
        "stream_options": {"continuous_usage_stats": True},
        "seed": 1,
    }
    file = write(tmp_path / "p.jsonl", own, {"messages": own["messages"], "model": "simulated-model", "n": 1})
    result = run(
        *(simulate("vllm"), tmp_path / "run", "--input-file", str(file), "--custom-dataset-type", "raw-payload"),
        *("--temperature", "0", "--extra-inputs", "seed:2"),
    )
    assert result.exit_code == 0, result.output
    first, second = bodies(tmp_path / "run")
    stream = {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    assert first == {**own, **stream, "temperature": 0}
    assert second["max_completion_tokens"] == 12
    assert (second["temperature"], second["seed"], second["stream"]) == (0, 2, True)


def test_standard_input(simulate: Simulate, tmp_path: Path) -> None:
    data = b'{"text": "a"}\n{"text": "b"}\n'
    arguments = ("--url", simulate("vllm").url, "--input-file", "-", "--warmup-request-count", "1")
    result = invoke(*arguments, "--artifact-dir", str(tmp_path), "--export-level", "raw", stdin=data)
    assert result.exit_code == 0, result.output
    assert [body["messages"][0]["content"] for body in bodies(tmp_path)] == ["a", "a", "b"]


def test_a_bad_line_of_a_streamed_file_ends_the_run_and_keeps_what_was_measured(
    simulate: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aiperf_spec.workload import dataset

    monkeypatch.setattr(dataset.open_workload, "__kwdefaults__", {"limit_bytes": 100})
    file = tmp_path / "p.jsonl"
    file.write_text('{"text": "a"}\n' * 20 + "{\n" + '{"text": "b"}\n' * 20)
    result = run(simulate("vllm"), tmp_path / "run", "--input-file", str(file), "--concurrency", "3")
    assert result.exit_code == 2
    assert "p.jsonl', line 21: not JSON" in result.stderr
    assert "streamed, single_turn" in result.stdout
    assert "20 of 20 succeeded" in result.stdout
    assert len(lines(tmp_path / "run")) == 20
    summary = json.loads((tmp_path / "run" / "profile_export_aiperf.json").read_text())
    assert summary["is_complete"] is False
    assert "line 21" in summary["spec_profile"]["failure"]
    again = run(simulate("vllm"), tmp_path / "again", "--input-file", str(file), "--skip-bad-lines")
    assert again.exit_code == 0
    assert "40 of 40 succeeded" in again.stdout
    assert "1 line of p.jsonl could not be read" in again.stderr


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ((), "speed_bench_qualitative"),
        (("--custom-dataset-type", "speed_bench_qualitative"), "speed_bench_qualitative"),
        (("--custom-dataset-type", "speed-bench-coding"), "speed_bench_coding"),
    ],
)
def test_the_selector_stands_in_the_summary(
    given: tuple[str, ...], written: str, simulate: Simulate, tmp_path: Path
) -> None:
    file = Path(__file__).parent / "aiperf" / "speed_bench_8.jsonl"
    result = run(simulate("vllm"), tmp_path / "run", "--input-file", str(file), *given)
    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "run" / "profile_export_aiperf.json").read_text())
    assert summary["input_config"]["datasets"][0]["format"] == written
    kinds = {line["metadata"]["source_kind"] for line in lines(tmp_path / "run")}
    assert kinds == ({"coding"} if "coding" in written else {"coding", "math", "qa", "writing"})


def test_a_run_is_repeated_by_its_configuration(simulate: Simulate, tmp_path: Path) -> None:
    file = write(tmp_path / "q.jsonl", *QUESTIONS[:6], {"turns": ["x"], "question_id": 7, "category": "qa"})
    first, second = tmp_path / "first", tmp_path / "second"
    key = {"OPENAI_API_KEY": "sk-very-secret-key"}
    result = run(
        *(simulate("vllm"), first, "--input-file", str(file), "--dataset-sampling-strategy", "shuffle"),
        *("--random-seed", "11", "--warmup-request-count", "2", "--temperature", "0", "--request-count", "9"),
        *("--extra-inputs", "top_p:0.5", "--extra-inputs", '{"stop": ["${HOME}"]}', "-H", "X-Session-Token: hush-hush"),
        env=key,
    )
    assert result.exit_code == 0, result.output
    text = (first / "config.yaml").read_text()
    assert "sk-very-secret-key" not in text
    assert "hush-hush" not in text
    env = {**key, "SPEC_PROFILE_HEADER_X_SESSION_TOKEN": "hush-hush"}
    again = invoke("--config", str(first / "config.yaml"), "--artifact-dir", str(second), env=env)
    assert again.exit_code == 0, again.output
    payloads = [
        [json.loads(line)["payload"] for line in (out / "profile_export_raw.jsonl").read_text().splitlines()]
        for out in (first, second)
    ]
    assert payloads[0] == payloads[1]
    assert len(payloads[0]) == 11
    assert (second / "config.yaml").read_text() == text


def test_options_win_over_the_file(simulate: Simulate, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "benchmark": {
                    "endpoint": {
                        "urls": ["http://127.0.0.1:9"],
                        "max_tokens": 7,
                        "temperature": 0.5,
                        "extra": {"top_p": 0.5, "seed": 1},
                        "headers": {"X-Team": "a", "X-Other": "b"},
                        "api_key_env": "MY_KEY",
                    },
                    "phases": [{"kind": "profiling", "requests": 3}],
                }
            }
        )
    )
    env = {"MY_KEY": "from-the-file", "OPENAI_API_KEY": "from-the-environment"}
    dry = invoke("--config", str(config), "--temperature", "0", "--dry-run", env=env)
    assert dry.exit_code == 0, dry.output
    assert json.loads(dry.stdout.partition("\n\n")[2])["temperature"] == 0
    result = invoke(
        *("--config", str(config), "--url", simulate("vllm").url, "--temperature", "0", "-H", "x-team: c"),
        *("--extra-inputs", "seed:2", "--artifact-dir", str(tmp_path / "run"), "--export-level", "raw"),
        env=env,
    )
    assert result.exit_code == 0, result.output
    raw = lines(tmp_path / "run", "profile_export_raw.jsonl")
    assert len(raw) == 3
    body, headers = raw[0]["payload"], raw[0]["request_headers"]
    assert (body["max_completion_tokens"], body["temperature"], body["top_p"], body["seed"]) == (7, 0, 0.5, 2)
    assert (headers["x-team"], headers["x-other"]) == ("c", "b")
    assert "api_key_env: MY_KEY" in (tmp_path / "run" / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("benchmark: {endpoint: {urlss: [h]}}", "line 1: benchmark.endpoint.urlss: not a key"),
        ("benchmark: {}", "--url is missing"),
    ],
)
def test_a_wrong_file_stops_the_start(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(text)
    result = invoke("--config", str(tmp_path / "c.yaml"))
    assert result.exit_code == 2
    assert said in result.stderr
    missing = invoke("--config", str(tmp_path / "none.yaml"))
    assert missing.exit_code == 2
    assert "No such file" in missing.stderr


def test_a_turn_has_its_own_settings_and_waits_for_its_user(simulate: Simulate, tmp_path: Path) -> None:
    turns = [
        {"text": "One.", "output_length": 5, "extra": {"seed": 1}},
        {"text": "Two.", "delay": 300, "output_tokens": 6},
    ]
    file = write(tmp_path / "q.jsonl", {"session_id": "s", "turns": turns, "timestamp": 9})
    out = tmp_path / "run"
    result = run(simulate("vllm"), out, "--input-file", str(file))
    assert result.exit_code == 0, result.output
    assert "not sent: timestamp" in " ".join(result.output.split())
    first, second = bodies(out)
    assert (first["max_completion_tokens"], first["seed"]) == (5, 1)
    assert (second["max_completion_tokens"], "seed" in second) == (6, False)
    asked, answered = (line["metadata"] for line in lines(out))
    assert answered["request_start_ns"] - asked["request_end_ns"] >= 300_000_000


def test_a_turn_that_would_begin_too_late_is_not_waited_for(simulate: Simulate, tmp_path: Path) -> None:
    file = write(tmp_path / "q.jsonl", {"turns": ["One.", {"text": "Two.", "delay": 3_600_000}]})
    out = tmp_path / "run"
    options = ("--input-file", str(file), "--benchmark-duration", "60", "--request-count", "2")
    result = run(simulate("vllm"), out, *options)
    assert result.exit_code == 0, result.output
    assert len(lines(out)) == 1
    assert "1 turn went unsent" in " ".join(result.output.split())
