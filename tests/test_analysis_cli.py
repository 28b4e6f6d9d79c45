"""Analysis, comparison and gates through the commands, against simulators."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from aiperf_spec.artifacts.read.answers import load_answers
from aiperf_spec.cli.app import app
from aiperf_spec.models.response import PromptAndAnswer
from tests.support import Simulate

ASKING = {
    "sglang": ("--extra-inputs", "return_spec_tokens_details:true"),
    "llama_cpp": ("--extra-inputs", "timings_per_token:true"),
}
SGLANG = ASKING["sglang"]


def invoke(*arguments: str, columns: int = 80) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": str(columns)})


def words(text: str) -> str:
    return " ".join(text.split())


def profile(url: str, out: Path, *more: str) -> Result:
    return invoke(
        *("--url", url, "--request-count", "33", "--concurrency", "4", "--max-tokens", "48", "--temperature", "0"),
        *(
            "--extra-inputs",
            "ignore_eos:true",
            "--artifact-dir",
            str(out),
            "--rows",
            "0",
            "--no-server-metrics",
            "--full",
        ),
        *more,
    )


def analysis(folder: Path) -> Any:
    return json.loads((folder / "analysis.json").read_text())


@pytest.mark.parametrize("engine", ["vllm", "tensorrt_llm", "sglang"])
def test_a_run_is_analysed_on_screen_and_in_a_file(engine: str, simulate: Simulate, tmp_path: Path) -> None:
    out = tmp_path / "run"
    more = ("--draft-cost", "0.1", "--baseline-itl", "4", *(SGLANG if engine == "sglang" else ()))
    result = profile(simulate(engine).url, out, *more)
    assert result.exit_code == 0, result.output
    found = analysis(out)
    summary = json.loads((out / "profile_export_aiperf.json").read_text())
    pooled = summary["spec_decode_token_weighted_acceptance_length"]["avg"]
    assert found["run"]["length"]["value"] == pytest.approx(pooled)
    assert found["run"]["length"]["low"] < pooled < found["run"]["length"]["high"]
    assert found["clusters"] == "prompts"
    assert len(found["categories"]) == 11
    assert "Speed-up, measured" in result.stdout
    assert "Position acceptance" in result.stdout
    assert "(estimate)" in result.stdout
    modelled = found["run"]["what_if"]
    # The simulated vLLM's drafts may be short. SGLang's draft length is of its page of settings.
    assert modelled["lengths"][-1]["as_drafted"]["value"] == pytest.approx(pooled)
    assert modelled["best"] in range(8)
    assert (found["drift"]["reason"] is None) == (engine == "vllm")
    assert max(len(line.rstrip()) for line in result.stdout.splitlines()) <= 80


def test_worst_requests_have_their_texts_at_raw_level(simulate: Simulate, tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = profile(simulate("vllm").url, out, "--export-level", "raw", "--worst", "2")
    worst = analysis(out)["outliers"]["requests"]
    assert len(worst) == 2
    texts = load_answers(out, {each["index"] for each in worst})
    assert set(texts) == {each["index"] for each in worst}
    assert all(each.prompt and each.answer for each in texts.values())
    assert f"{worst[0]['index']} asked: {texts[worst[0]['index']].prompt[:20]}" in words(result.stdout)
    assert load_answers(tmp_path, {1}) == {}


@pytest.mark.parametrize(
    "deltas",
    [
        [{"reasoning_content": "a ", "reasoning": "a "}, {"reasoning_content": "b ", "reasoning": "b "}],
        [{"reasoning_content": "a "}, {"reasoning": "a "}, {"reasoning_content": "b "}, {"reasoning": "b "}],
        [{"reasoning": "a ", "reasoning_details": [{"text": "a "}]}, {"reasoning_details": [{"text": "b "}]}],
        [{"reasoning": "a ", "content": "a "}, {"reasoning": "b ", "content": "b "}],
    ],
)
def test_reasoning_under_two_keys_is_shown_once(deltas: list[dict[str, Any]], tmp_path: Path) -> None:
    events = [json.dumps({"choices": [{"delta": delta}]}) for delta in [*deltas, {"content": "c"}]]
    packets = [{"perf_ns": 0, "packets": [{"name": "data", "value": event}]} for event in events]
    metadata = {"benchmark_phase": "profiling", "session_num": 3}
    line = {"metadata": metadata, "payload": {"prompt": "p"}, "responses": packets}
    (tmp_path / "profile_export_raw.jsonl").write_text(json.dumps(line))
    assert load_answers(tmp_path, {3}) == {3: PromptAndAnswer("p", "a b c")}


def test_gates_decide_the_exit_code(simulate: Simulate, tmp_path: Path) -> None:
    url = simulate("vllm").url
    met = profile(url, tmp_path / "a", "--require", "acceptance_length >= 1.5", "--require", "error_rate <= 0.01")
    assert met.exit_code == 0, met.output
    assert "not met" not in met.stdout
    missed = profile(url, tmp_path / "b", "--require", "acceptance_length >= 99")
    assert missed.exit_code == 3
    assert "not met" in missed.stdout
    relative = ("--base", str(tmp_path / "a"), "--require", "acceptance_length >= 0.97 * base", "--strict")
    assert profile(url, tmp_path / "c", *relative).exit_code == 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--require", "aceptance_length >= 2"), "the nearest name is acceptance_length"),
        (("--require", "acceptance_length >= base"), "--base DIR"),
        (("--require", "acceptance_length >= base", "--base", "nowhere"), "nowhere"),
        (("--strict",), "add --require"),
        (("--baseline", "nowhere"), "nowhere"),
        (("--baseline", "nowhere", "--baseline-itl", "3"), "give one of them"),
        (("--draft-cost", "-1"), "--draft-cost"),
    ],
)
def test_what_cannot_be_judged_is_said_before_anything_is_sent(
    more: tuple[str, ...], said: str, simulate: Simulate, tmp_path: Path
) -> None:
    simulator = simulate("vllm", seed=77)
    simulator.reset_ledger()
    result = profile(simulator.url, tmp_path / "run", *more)
    assert result.exit_code == 2, result.output
    assert said in words(result.output)
    assert simulator.ledger() == []


@pytest.mark.parametrize("engine", ["vllm", "tensorrt_llm", "sglang", "llama_cpp"])
def test_steps_without_a_draft_are_counted_as_the_engine_ran_them(
    engine: str, simulate: Simulate, tmp_path: Path
) -> None:
    simulator = simulate(engine, undrafted_share=0.7, seed=5)
    simulator.reset_ledger()
    result = profile(simulator.url, tmp_path / "run", *ASKING.get(engine, ()))
    assert result.exit_code == 0, result.output
    found, ran = analysis(tmp_path / "run"), simulator.ledger()
    undrafted, verified = sum(entry["undrafted"] for entry in ran), sum(entry["steps"] for entry in ran)
    assert found["undrafted_steps"] <= undrafted <= found["undrafted_at_most"]
    assert found["run"]["length"]["value"] == pytest.approx(1 + sum(entry["accepted"] for entry in ran) / verified)
    assert found["coverage"]["value"] < 0.99
    summary = json.loads((tmp_path / "run" / "profile_export_aiperf.json").read_text())
    assert summary["drafted_share"]["avg"] == pytest.approx(found["drafted_share"]["value"])
    assert summary["tokens_per_decode_step"]["avg"] == pytest.approx(found["tokens_per_decode_step"]["value"])
    # Two of the engines verify padding where the drafter found nothing, so that no step is uncounted.
    if engine in ("vllm", "llama_cpp"):
        assert found["drafted_share"]["value"] == pytest.approx(verified / (verified + undrafted), abs=0.02)
        assert found["drift"]["buckets_reason"] == "positions_unknown"
        shown = words(result.stdout)
        assert "Drafted share of steps 33 0." in shown
        assert "Decode steps with a draft (%)" in shown
        again = words(invoke("report", str(tmp_path / "run"), "--analysis").stdout)
        assert "Decode steps with a draft (%)" in again
    else:
        assert undrafted == 0
        assert found["drafted_share"]["value"] == 1
        assert "Drafted share of steps" not in words(result.stdout)


def test_a_baseline_is_a_run_without_speculation(simulate: Simulate, tmp_path: Path) -> None:
    plain, fast = simulate("vllm", level="none", step_time_ms=4.0).url, simulate("vllm").url
    assert profile(plain, tmp_path / "plain").exit_code == 0
    result = profile(fast, tmp_path / "fast", "--baseline", str(tmp_path / "plain"))
    assert result.exit_code == 0, result.output
    speed = analysis(tmp_path / "fast")["speed_up"]
    # A busy machine reads some responses in one go, which then have no times.
    lines = (tmp_path / "plain" / "profile_export.jsonl").read_text().splitlines()
    timed = [line for line in lines if "inter_token_latency" in json.loads(line)["metrics"]]
    assert speed["baseline_requests"] == len(timed) > 0
    assert speed["measured"]["value"] == pytest.approx(speed["tokens_per_step"] * speed["per_step"] * speed["kept"])
    wrong = profile(fast, tmp_path / "again", "--baseline", str(tmp_path / "fast"))
    assert wrong.exit_code == 2
    assert "a run with speculation: its requests report acceptance" in words(wrong.output)
    # Where requests say nothing, the counters tell: in our files, or in AIPerf's, which have no comparison.
    assert profile(plain, tmp_path / "silent", "--server-metrics").exit_code == 0
    for _ in range(2):
        wrong = profile(fast, tmp_path / "again", "--baseline", str(tmp_path / "silent"))
        assert wrong.exit_code == 2
        assert re.search("with speculation: its server counted verify steps .[0-9,]+.", words(wrong.output))
        (tmp_path / "silent" / "profile_export_aiperf.json").unlink(missing_ok=True)


def test_runs_are_compared(simulate: Simulate, tmp_path: Path) -> None:
    runs: dict[str, dict[str, float]] = {"a": {}, "b": {"acceptance": 0.9}, "k2": {"num_spec_tokens": 2}}
    for name, settings in runs.items():
        assert profile(simulate("vllm", **settings).url, tmp_path / name).exit_code == 0
    a, b, k2 = (str(tmp_path / name) for name in ("a", "b", "k2"))
    same = invoke("compare", a, a)
    assert same.exit_code == 0
    assert "33 pairs of prompts" in same.stdout
    assert "better" not in same.stdout
    assert "worse" not in same.stdout
    other = invoke("compare", a, b, k2, "--require", "acceptance_length >= 1.01 * base", "--strict")
    assert other.exit_code == 3
    assert "misleads: the draft lengths differ (k 5; 2)" in words(other.stdout)
    assert "Rates of drafters that propose in different ways cannot be compared." in words(other.stdout)
    assert other.stdout.count("Gates, ") == 2
    assert max(len(line.rstrip()) for line in other.stdout.splitlines()) <= 80
    document = json.loads(invoke("compare", a, b, "--format", "json", "--require", "acceptance_length > base").stdout)
    (comparison,) = document["comparisons"]
    pooled = comparison["metrics"]["spec_decode_token_weighted_acceptance_length"]
    assert pooled["verdict"] == "better"
    assert pooled["difference"]["low"] > 0
    assert (comparison["paired"], comparison["pairs"], comparison["misleads"]) == (True, 33, [])
    assert comparison["categories"].keys() == analysis(tmp_path / "a")["categories"].keys()
    assert document["gates"][0]["results"][0]["passed"] is True


def test_tags_are_kept_and_tell_runs_apart(simulate: Simulate, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("benchmark: {tags: {data: v2, step: 1}}\n")
    url = simulate("vllm").url
    for step in ("1000", "2000"):
        more = ("--request-count", "5", "--config", str(file), "--tag", f"step={step}")
        result = profile(url, tmp_path / "runs" / f"20261201T0{step}00Z-m-chat-c4", *more)
        assert f"data v2, step {step}" in result.stdout
    one, two = sorted((tmp_path / "runs").iterdir())
    (two / "config.yaml").unlink()  # the summary has them too
    (one / "profile_export_aiperf.json").unlink()  # as of a killed run
    assert "data v2, step 2000" in invoke("report", str(two), "--full").stdout
    shown = words(invoke("report", str(tmp_path / "runs"), columns=140).stdout)
    assert "step 1000" in shown
    assert "step 2000" in shown
    assert "data v2" not in shown
    refused = profile(url, tmp_path / "none", "--tag", "step")
    assert (refused.exit_code, "--tag 'step': expected NAME=VALUE" in words(refused.stderr)) == (2, True)


def prompts_file(folder: Path, words: str, count: int = 12) -> Path:
    folder.mkdir()
    file = folder / "prompts.jsonl"
    file.write_text("".join(json.dumps({"text": f"{words} {i}."}) + "\n" for i in range(count)))
    return file


def test_unrelated_prompts_of_one_file_name_are_no_pairs(simulate: Simulate, tmp_path: Path) -> None:
    url = simulate("vllm").url
    for name, words_of in (("a", "Explain number"), ("b", "Sing of the river"), ("moved", "Explain number")):
        file = prompts_file(tmp_path / f"{name}-prompts", words_of)
        assert profile(url, tmp_path / name, "--input-file", str(file), "--request-count", "12").exit_code == 0
    a, b, moved = (str(tmp_path / name) for name in ("a", "b", "moved"))
    other = json.loads(invoke("compare", a, b, "--format", "json").stdout)["comparisons"][0]
    assert (other["paired"], other["pairs"], other["paired_by"]) == (False, 0, "content")
    assert [mismatch["kind"] for mismatch in other["misleads"]] == ["prompts"]
    same = json.loads(invoke("compare", a, moved, "--format", "json").stdout)["comparisons"][0]
    assert (same["paired"], same["pairs"], same["misleads"]) == (True, 12, [])
    # Of a strict gate, too: paired by "line-3" the two files would seem to differ in every line.
    gate = ("--require", "acceptance_length >= 0.99 * base", "--strict", "--format", "json")
    apart = [json.loads(invoke("compare", a, folder, *gate).stdout)["gates"][0] for folder in (b, moved)]
    unpaired, paired = (each["results"][0]["apart"] for each in apart)
    assert unpaired["high"] - unpaired["low"] > 5 * (paired["high"] - paired["low"])


def test_clients_that_send_the_same_prompts_add_no_prompts(simulate: Simulate, tmp_path: Path) -> None:
    url, file = simulate("vllm").url, prompts_file(tmp_path / "prompts", "Explain number")
    for client in ("one", "two"):
        more = ("--input-file", str(file), "--request-count", "24", "--workers", "2")
        assert profile(url, tmp_path / "runs" / client, *more).exit_code == 0
    runs = str(tmp_path / "runs")
    document = json.loads(invoke("report", runs, "--pool", "--intervals", "--format", "json").stdout)
    (row,) = document["rows"]
    assert (row["overall_pooled"]["requests"], row["overall_pooled"]["prompts"]) == (48, 12)
    lines = (tmp_path / "runs" / "one" / "profile_export.jsonl").read_text().splitlines()
    assert len({json.loads(line)["metadata"]["prompt_hash"] for line in lines}) == 12
    found = analysis(tmp_path / "runs" / "one")["run"]["length"]
    assert found["n"] == 12


def test_several_runs_are_one_side(simulate: Simulate, tmp_path: Path) -> None:
    names = ("a1", "a2", "a3", "b1", "b2", "b3")
    for name in names:
        assert profile(simulate("vllm").url, tmp_path / name, "--request-count", "12").exit_code == 0
    folders = {name: str(tmp_path / name) for name in names}
    base = [text for name in names[:3] for text in ("--base", folders[name])]
    candidate = [text for name in names[3:] for text in ("--candidate", folders[name])]
    document = json.loads(invoke("compare", *base, *candidate, "--format", "json").stdout)
    (comparison,) = document["comparisons"]
    latency, rate = (comparison["metrics"][tag] for tag in ("inter_token_latency", "request_throughput"))
    # Whether it is worse depends on how busy the machine is; that it is judged does not.
    for row in (latency, rate):
        assert row["verdict"] != "not judged"
        assert row["difference"]["n"] == 3
        assert row["difference"]["low"] < row["difference"]["value"] < row["difference"]["high"]
    single = json.loads(invoke("compare", folders["a1"], folders["b1"], "--format", "json").stdout)["comparisons"][0]
    assert single["metrics"]["inter_token_latency"]["verdict"] == "not judged"
    mixed = json.loads(invoke("compare", *base, folders["b1"], folders["b2"], "--format", "json").stdout)
    assert len(mixed["comparisons"]) == 2
    for arguments, said in (
        (candidate, "--base none of the other"),
        ([folders["a1"]], "nothing to compare with"),
        ([*base, *base, folders["b1"]], "named twice on one side"),
    ):
        result = invoke("compare", *arguments)
        assert (result.exit_code, said in words(result.output)) == (2, True), result.output


def test_folders_that_hold_no_run_are_named(simulate: Simulate, tmp_path: Path) -> None:
    missing = invoke("compare", str(tmp_path), str(tmp_path / "b"))
    assert missing.exit_code == 2
    assert "profile_export.jsonl" in words(missing.output).replace(" ", "")
    (tmp_path / "profile_export.jsonl").write_text("")
    assert "nothing to compare" in words(invoke("compare", str(tmp_path), str(tmp_path)).output)


def test_a_killed_run_is_compared_without_its_summary(simulate: Simulate, tmp_path: Path) -> None:
    assert profile(simulate("vllm").url, tmp_path / "a").exit_code == 0
    (tmp_path / "b").mkdir()
    whole = (tmp_path / "a" / "profile_export.jsonl").read_bytes()
    (tmp_path / "b" / "profile_export.jsonl").write_bytes(whole[:-200])
    result = invoke("compare", str(tmp_path / "a"), str(tmp_path / "b"))
    assert result.exit_code == 0, result.output
    assert "there is no summary file" in words(result.stdout)
    assert "32 pairs of prompts" in result.stdout
    assert "1 unreadable line left out" in words(result.output)


def test_a_report_shows_the_analysis_and_holds_gates(simulate: Simulate, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert profile(simulate("vllm").url, out).exit_code == 0
    plain = invoke("report", str(out))
    assert plain.exit_code == 0, plain.output
    assert "Position acceptance" not in plain.stdout
    shown = invoke("report", str(out), "--draft-cost", "0.1")
    assert "Best k' per category at a draft cost of 0.1 (estimate)" in shown.stdout
    # What the run was given holds for a report that is given none.
    own, costly = out.parent / "own", ("--draft-cost", "0.2")
    assert profile(simulate("vllm").url, own, *costly).exit_code == 0
    assert "at a draft cost of 0.2 (estimate)" in invoke("report", str(own), "--analysis").stdout
    assert "at a draft cost of 0.1 (estimate)" in invoke("report", str(own), "--draft-cost", "0.1").stdout
    page = out.parent / "page.html"
    assert invoke("report", str(own), "--html", str(page)).exit_code == 0
    assert "Speed-up at a draft cost of 0.2 (estimate)" in page.read_text()
    gated = invoke("report", str(out), "--require", "acceptance_length >= 1.5", "--require", "error_rate > 0")
    assert gated.exit_code == 3
    assert gated.stdout.count("not met") == 1
    document = invoke("report", str(out), "--format", "json", "--require", "acceptance_length >= 1.5")
    assert document.exit_code == 0
    json.loads(document.stdout)
    assert "Gates" in document.stderr
    wrong = invoke("report", str(out), "--require", "acceptance_lenth >= 1.5")
    assert wrong.exit_code == 2
    assert "the nearest name is acceptance_length" in words(wrong.output)


def test_a_report_of_a_run_without_categories_is_followed_by_its_analysis(simulate: Simulate, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"text": f"Explain number {i}."}) + "\n" for i in range(8)))
    out = tmp_path / "run"
    assert profile(simulate("vllm").url, out, "--input-file", str(prompts)).exit_code == 0
    text = invoke("report", str(out), "--full").stdout
    assert "Acceptance length" in text
    assert "Position acceptance" not in invoke("report", str(out)).stdout
    assert "Position acceptance" in text


def test_a_baseline_of_another_kind_misleads_and_one_of_the_same_does_not(simulate: Simulate, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"text": f"Count to {i}."}) + "\n" for i in range(33)))
    plain, fast = simulate("vllm", level="none").url, simulate("vllm").url
    profile(plain, tmp_path / "alike")
    profile(plain, tmp_path / "apart", "--concurrency", "2", "--input-file", str(prompts), "--model", "simulated-model")
    alike = profile(fast, tmp_path / "fast", "--baseline", str(tmp_path / "alike"))
    assert "misleads" not in alike.stderr
    apart = profile(fast, tmp_path / "again", "--baseline", str(tmp_path / "apart"))
    again = invoke("report", str(tmp_path / "fast"), "--analysis", "--baseline", str(tmp_path / "apart"))
    for result in (apart, again):
        assert result.exit_code == 0, result.output
        assert "the speed-up against --baseline may mislead: the load differs (concurrency 2; concurrency 4)" in words(
            result.stderr
        )
        assert "mislead: the prompts come from different files" in words(result.stderr)
        assert result.stderr.count("mislead:") == 2
