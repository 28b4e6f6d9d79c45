from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.artifacts.read.run import load_run
from aiperf_spec.artifacts.write.config_yaml import config_yaml
from aiperf_spec.config.option_table import keys_of
from aiperf_spec.config.settings import ProfileConfig, ReportSettings, create_settings
from aiperf_spec.config.yaml_file import parse_config
from aiperf_spec.errors import ConfigError
from aiperf_spec.models.run import DatasetInfo, RunResult

ENVIRON = {"HOST": "10.0.0.1", "N": "8", "TOKEN": "sk-secret", "LONG_TEXT": "a: b # c"}
FOLDER = Path("/conf")


def parse(text: str) -> dict[str, Any]:
    return parse_config(text, "run.yaml", ENVIRON.get, FOLDER)


def benchmark(text: str) -> dict[str, Any]:
    return parse("benchmark:\n" + "\n".join("  " + line for line in text.splitlines()))


def test_everything_that_the_nesting_shares() -> None:
    found = parse(
        """
        benchmark:
          models: [m]
          endpoint:
            urls: ["http://${HOST}:80"]
            type: completions
            streaming: false
            extra: {return_spec_tokens_details: true, stop: ["${HOST}"]}
            headers: {X-Team: search, X-Number: 7}
            api_key_env: TOKEN
            timeout: 5
            ca_file: ca.pem
          datasets:
            - {path: a.jsonl, format: spec-bench, sampling: shuffle}
            - {path: /b.jsonl, format: spec-bench}
            - {path: "-"}
          phases:
            - {kind: warmup, requests: 3, concurrency: 4}
            - {kind: profiling, concurrency: 4, requests: 9, rate: 2.5, duration: 60}
          tokenizer: ./tok
          tags: {step: 3000, data: "v${NUMBER:80}"}
          artifacts: {dir: out, level: raw}
          random_seed: 5
        """
    )
    assert found == {
        "model": "m",
        "url": "http://10.0.0.1:80",
        "endpoint_type": "completions",
        "streaming": False,
        "extra_inputs": {"return_spec_tokens_details": True, "stop": ["10.0.0.1"]},
        "headers": [["X-Team", "search"], ["X-Number", "7"]],
        "api_key_env": "TOKEN",
        "api_key": "sk-secret",
        "request_timeout_seconds": 5,
        "ca_file": "/conf/ca.pem",
        "input_file": ["/conf/a.jsonl", "/b.jsonl", "-"],
        "custom_dataset_type": "spec-bench",
        "dataset_sampling_strategy": "shuffle",
        "warmup_request_count": 3,
        "concurrency": 4,
        "request_count": 9,
        "request_rate": 2.5,
        "benchmark_duration": 60,
        "tokenizer": "/conf/tok",
        "artifact_dir": "out",
        "export_level": "raw",
        "random_seed": 5,
        "tags": {"step": "3000", "data": "v80"},
    }
    assert ProfileConfig.create(**found).input_files == (Path("/conf/a.jsonl"), Path("/b.jsonl"), Path("-"))


def test_aiperfs_own_spelling() -> None:
    found = parse(
        """
        schemaVersion: "2.0"
        randomSeed: 42
        benchmark:
          model: m
          endpoint: {url: "http://h", useServerTokenCount: true}
          datasets: [{name: main, type: file, path: a.jsonl, format: speed_bench_qualitative}]
          phases:
            - {name: warmup, type: concurrency, excludeFromResults: true, requests: 5, concurrency: 8}
            - {name: profiling, type: concurrency, requests: 80, concurrency: 8}
        """
    )
    assert (found["random_seed"], found["model"], found["url"]) == (42, "m", "http://h")
    assert (found["warmup_request_count"], found["request_count"], found["concurrency"]) == (5, 80, 8)
    assert found["use_server_token_count"] is True


@pytest.mark.parametrize("models", ["m", "[m]", "[{name: m}]"])
def test_the_model(models: str) -> None:
    assert benchmark(f"models: {models}") == {"model": "m"}


def test_variables() -> None:
    assert benchmark("tokenizer: ${NOTHING:org/name}") == {"tokenizer": "org/name"}
    assert benchmark("endpoint:\n  max_tokens: ${N}") == {"max_tokens": 8}
    assert benchmark("endpoint: {extra: {a: '${N}', b: '$${N}', c: \"x${LONG_TEXT}y\"}}") == {
        "extra_inputs": {"a": "8", "b": "${N}", "c": "xa: b # cy"}
    }


BAD = [
    ("", "run.yaml is empty"),
    ("- a", "run.yaml, line 1: expected keys and values, got a list"),
    ("benchmark: {a: [", "run.yaml, line 1: not YAML"),
    ("a: b: c", "run.yaml, line 1: not YAML"),
    ("other: 1", "run.yaml, line 1: other: not a key that is known"),
    ("benchmrk: {}", "run.yaml, line 1: benchmrk: not a key that is known|did you mean benchmark?"),
    ("random_seed: 1", "run.yaml, line 1: has no key benchmark"),
    ("benchmark:\n  endpoint:\n    urll: h", "line 3: benchmark.endpoint.urll: not a key|did you mean urls?"),
    ("benchmark:\n  endpont: {}", "line 2: benchmark.endpont: not a key|did you mean endpoint?"),
    ("benchmark:\n  endpoint: {}\n  endpoint: {}", "line 3: benchmark.endpoint: given twice"),
    ("benchmark:\n  endpoint:\n    extra:\n      a: 1\n      a: 2", "line 5: benchmark.endpoint.extra.a: given twice"),
    ("benchmark: {endpoint: {url: h, urls: [h]}}", "benchmark.endpoint.urls: the same as benchmark.endpoint.url"),
    ("benchmark: {endpoint: {urls: [a, b]}}", "benchmark.endpoint.urls: a run has one server, got 2"),
    ("benchmark: {endpoint: {urls: ['ftp://h']}}", "benchmark.endpoint.urls: 'ftp://h': the scheme must be"),
    ("benchmark: {endpoint: {type: chatt}}", "benchmark.endpoint.type: must be 'chat' or 'completions'"),
    ("benchmark: {endpoint: {streaming: 'yes'}}", "benchmark.endpoint.streaming: must be true or false"),
    ("benchmark: {endpoint: {timeout: soon}}", "benchmark.endpoint.timeout: must be a number"),
    ("benchmark: {endpoint: {timeout: 0}}", "benchmark.endpoint.timeout: must be more than 0"),
    ("benchmark: {endpoint: {timeout: 2024-01-01}}", "'2024-01-01' is read as a date: quote it"),
    ("benchmark: {endpoint: {extra: [1]}}", "benchmark.endpoint.extra: must be keys and values"),
    ("benchmark: {endpoint: {extra: {model: x}}}", "benchmark.endpoint.extra: 'model' is set by --model"),
    ("benchmark: {endpoint: {headers: [x]}}", "benchmark.endpoint.headers: expected names and values"),
    ("benchmark: {endpoint: {api_key_env: NONE}}", "the environment variable NONE is not set"),
    ("benchmark: {endpoint: {api_key: sk-x}}", "benchmark.endpoint.api_key: not a key|did you mean api_key_env?"),
    ("benchmark: {tokenizer: '${NONE}'}", "benchmark.tokenizer: the environment variable NONE is not set"),
    ("benchmark: {tokenizer: !!python/object:os.system x}", "with the tag"),
    ("benchmark: {models: [a, b]}", "benchmark.models: a run has one model, got 2"),
    ("benchmark: {models: [{}]}", "benchmark.models[0]: has no key name"),
    ("benchmark: {datasets: {}}", "benchmark.datasets: expected a list, got keys and values"),
    ("benchmark: {datasets: [{format: nope}]}", "benchmark.datasets[0].format: expected auto, single_turn"),
    ("benchmark: {datasets: [{type: public}]}", "benchmark.datasets[0].type: only type file is known"),
    ("benchmark: {datasets: [{path: a, format: mt_bench}, {path: b, format: sharegpt}]}", "datasets[1].format: all"),
    ("benchmark: {datasets: [{path: [a]}]}", "benchmark.datasets[0].path: expected text, got a list"),
    ("benchmark: {phases: [{kind: cooldown}]}", "benchmark.phases[0].kind: kind must be warmup or profiling"),
    ("benchmark: {phases: [{}, {}]}", "benchmark.phases[1]: a second phase of kind profiling"),
    ("benchmark: {phases: [{kind: warmup, rate: 3}]}", "benchmark.phases[0].rate: a phase of kind warmup has no rate"),
    ("benchmark: {phases: [{concurrency: true}]}", "benchmark.phases[0].concurrency: must be a whole number"),
    ("benchmark: {phases: [{concurrency: 2}, {kind: warmup, concurrency: 3}]}", "a warm-up runs at the concurrency"),
    ("benchmark: {artifacts: {level: all}}", "benchmark.artifacts.level: must be 'summary', 'records' or 'raw'"),
    ("benchmark: {tags: {date: x}}", "benchmark.tags: the name 'date' stands for when a run was made"),
    ("benchmark: {tags: {step: [1]}}", "benchmark.tags.step: expected text, got a list"),
    ("benchmark: {worst: -1}", "run.yaml, line 1: benchmark.worst: must be at least 0"),
    ("benchmark: {endpoint: {batch_size_text: 2}, worst: -1}", "benchmark.worst: must be at least 0"),
    ("benchmark: {random_seed: 1.5}", "benchmark.random_seed: must be a whole number"),
    ("benchmark: &a {endpoint: {extra: {x: *a}}}", "nested too deeply"),
]


@pytest.mark.parametrize(("text", "said"), BAD, ids=[text[:50] or "nothing" for text, _ in BAD])
def test_a_mistake_is_told_by_line_and_path(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    message, _, remedy = said.partition("|")
    assert message in caught.value.message
    assert remedy in (caught.value.remedy or "")
    assert "sk-" not in caught.value.message
    assert "pydantic" not in caught.value.message


def run(**values: Any) -> RunResult:
    config = ProfileConfig(**{"url": "http://h:1", **values})
    return RunResult(
        config=config,
        url="http://h:1/v1",
        model="found",
        owned_by=None,
        wall_offset_ns=0,
        dataset=DatasetInfo("built-in", None, 35, has_categories=True),
    )


def again(text: str, environ: dict[str, str] | None = None) -> ProfileConfig:
    return create_settings(parse_config(text, "config.yaml", (environ or {}).get, FOLDER))[0]


def test_sixties_are_text_and_a_few_aliases_stand_for_no_more_than_memory_holds() -> None:
    assert benchmark("endpoint: {extra: {at: 1:30, late: 1:30:00.5, n: 90}}")["extra_inputs"] == {
        "at": "1:30",
        "late": "1:30:00.5",
        "n": 90,
    }
    shared = benchmark("endpoint: {extra: {a: &a [1, 2], b: *a}}")
    assert shared["extra_inputs"] == {"a": [1, 2], "b": [1, 2]}
    layers = ", ".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]" for i in range(1, 12))
    with pytest.raises(ConfigError, match=r"endpoint.extra.*more than 100,000 values"):
        benchmark(f"endpoint: {{extra: {{l0: &l0 [lol], {layers}}}}}")


def test_what_is_written_reads_back_as_the_same_run() -> None:
    values: dict[str, Any] = {
        "endpoint_type": "completions",
        "streaming": False,
        "concurrency": 3,
        "request_count": 7,
        "warmup_request_count": 2,
        "input_file": (Path("/a.jsonl"), Path("/b.jsonl.gz")),
        "custom_dataset_type": "random_pool",
        "num_prompts": 3,
        "category": ("x", "y"),
        "skip_bad_lines": True,
        "max_tokens": 9,
        "temperature": 0.5,
        "extra_inputs": {"stop": ["${X}", "a: b"], "stream_options": {"x": None}},
        "headers": (("X-Team", "search"),),
        "ca_file": Path("/ca.pem"),
        "random_seed": 4,
        "tags": {"step": "3000", "note": "a=b ${X}"},
        "export_level": "raw",
        "request_timeout_seconds": 1.5,
    }
    written = run(**values)
    read = again(config_yaml(written, ReportSettings()).decode())
    expected = {**values, "model": "found", "dataset_sampling_strategy": "random", "url": "http://h:1"}
    assert read == ProfileConfig(**expected)


def test_what_is_shown_and_judged_reads_back_too() -> None:
    settings = ReportSettings(
        rows=0, draft_cost=0.5, worst=1, baseline=Path("/plain"), require=("acceptance_length >= 2",), strict=True
    )
    values = parse_config(config_yaml(run(), settings).decode(), "config.yaml", os.environ.get, FOLDER)
    assert create_settings(values)[1] == settings


def test_a_report_needs_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    written = config_yaml(run(api_key="sk-very-secret", concurrency=3), ReportSettings(rows=7))
    (tmp_path / "config.yaml").write_bytes(written)
    loaded = load_run([RunFolder(tmp_path)])
    assert (loaded.result.config.concurrency, loaded.settings.rows) == (3, 7)


def test_a_schedule_without_a_cap_stays_without() -> None:
    read = again(config_yaml(run(request_rate=2.0, benchmark_duration=5), ReportSettings()).decode())
    assert (read.request_rate, read.concurrency_cap) == (2.0, None)


def test_a_repeat_sends_the_same_share_and_starts_when_it_is_told_to() -> None:
    read = again(config_yaml(run(share="1/3", start_at="2026-12-01T12:00:00Z"), ReportSettings()).decode())
    assert (read.share, read.start_at) == ("1/3", None)


@pytest.mark.parametrize(
    "values", [{}, {"fixed_schedule_auto_offset": False}, {"fixed_schedule_start_offset": 5, "concurrency": 3}]
)
def test_a_trace_reads_back(values: dict[str, Any]) -> None:
    written = run(fixed_schedule=True, input_file=(Path("/t.jsonl"),), **values)
    read = again(config_yaml(written, ReportSettings()).decode())
    assert read.model_dump() == {
        **written.config.model_dump(),
        "model": "found",
        "dataset_sampling_strategy": "sequential",
    }
    assert read.concurrency_cap == written.config.concurrency_cap
    said = benchmark("phases: [{type: fixed_schedule, start_offset: 5, end_offset: 9}]")
    assert said == {"fixed_schedule": True, "fixed_schedule_start_offset": 5, "fixed_schedule_end_offset": 9}


def test_secrets_stand_as_variables() -> None:
    result = run(
        url="https://user:hush-hush@h:1/v1?api-version=2&api-key=quiet-quiet",
        api_key="sk-very-secret",
        headers=(("X-Session-Token", "not-a-word"), ("X-Note", "with sk-very-secret inside"), ("X-Team", "search")),
        extra_inputs={"note": "sk-very-secret"},
    )
    text = config_yaml(result, ReportSettings()).decode()
    for secret in ("hush-hush", "quiet-quiet", "sk-very-secret", "not-a-word"):
        assert secret not in text
    variables = {
        "OPENAI_API_KEY": "sk-very-secret",
        "SPEC_PROFILE_CREDENTIALS": "user:hush-hush",
        "SPEC_PROFILE_QUERY_API_KEY": "quiet-quiet",
        "SPEC_PROFILE_HEADER_X_SESSION_TOKEN": "not-a-word",
        "SPEC_PROFILE_HEADER_X_NOTE": "with sk-very-secret inside",
    }
    read = again(text, variables)
    assert (read.url, read.api_key, read.headers) == (result.config.url, result.config.api_key, result.config.headers)
    with pytest.raises(ConfigError, match="is not set"):
        again(text)


def test_every_option_but_the_key_has_a_place_of_its_own() -> None:
    sections = ("", "endpoint", "datasets", "warmup", "profiling", "artifacts")
    placed = [field for section in sections for field in keys_of(section).values()]
    assert len(placed) == len(set(placed))
    assert {*placed, "api_key"} == {*ProfileConfig.model_fields, *ReportSettings.model_fields}


def test_the_written_file_explains_itself() -> None:
    text = config_yaml(run(), ReportSettings()).decode()
    assert text.startswith("# What this run was (spec-profile ")
    assert re.search(r"^  models:\n  - found$", text, re.M)
    assert "artifact" in text
    assert "overwrite" not in text
