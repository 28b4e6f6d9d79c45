"""`spec-profile export`: a run in the forms of other programs."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner, Result

from aiperf_spec.analysis.report import analyse
from aiperf_spec.artifacts.read.records import load_records
from aiperf_spec.artifacts.write.markdown_summary import markdown_summary
from aiperf_spec.artifacts.write.openmetrics import openmetrics
from aiperf_spec.artifacts.write.record_lines import record_line
from aiperf_spec.cli.app import app
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.models.run import RequestRecord
from tests.simulated_runs import request, simulated_run

RUN = Path(__file__).parent / "aiperf" / "vllm-speedbench"
HOSTILE = 'a"b\\c\n# x{} | <b>`y`'


def export(run: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["export", str(run), *options], env={"COLUMNS": "200"})


def written(folder: Path, records: list[RequestRecord], model: str = "m") -> Path:
    folder.mkdir()
    (folder / "profile_export.jsonl").write_bytes(b"".join(record_line(record, 0) for record in records))
    document = {"input_config": {"models": {"items": [{"name": model}]}}}
    (folder / "profile_export_aiperf.json").write_text(json.dumps(document))
    return folder


def test_comments_hold_each_interval(tmp_path: Path) -> None:
    run = written(tmp_path / "run", simulated_run(5, 30), HOSTILE)
    result = export(run, "--to", "llama-cpp")
    assert (result.exit_code, result.stderr) == (0, "")
    *comments, rates = result.stdout.splitlines()
    assert all(line.startswith("# ") for line in comments)
    values = [float(rate) for rate in rates.removeprefix("--spec-synth-rates ").split(",")]
    analysis = analyse(simulated_run(5, 30))
    for position, (value, line) in enumerate(
        zip(values, [line for line in comments if "draft token" in line], strict=True), start=1
    ):
        survival = analysis.run.curve.positions[position - 1].survival
        assert value == pytest.approx(survival.value, abs=1e-6)
        assert line == (
            f"# draft token {position} accepted with all before it: {survival.value:.4f} "
            f"(95 %: {survival.low:.4f} to {survival.high:.4f}, 30 prompts)"
        )
    length = analysis.run.length
    assert f"# acceptance length {length.value:.4f} (95 %: {length.low:.4f} to {length.high:.4f}" in result.stdout


def test_a_form_without_comments_has_them_on_stderr(tmp_path: Path) -> None:
    run = written(tmp_path / "run", simulated_run(5, 30))
    result = export(run, "--to", "vllm-rates", "--output", str(tmp_path / "rates.json"))
    assert result.stdout == ""
    assert json.loads((tmp_path / "rates.json").read_text())["num_speculative_tokens"] == 4
    assert len(re.findall(r"draft token \d accepted with all before it: 0\.\d+ \(95 %: ", result.stderr)) == 4


def test_one_category() -> None:
    whole, coding = (export(RUN, "--to", "sglang", *more) for more in ((), ("--category", "coding")))
    assert "SGLANG_SIMULATE_ACC_LEN=2.012552" in whole.stdout
    assert "SGLANG_SIMULATE_ACC_LEN=1.976471" in coding.stdout
    assert "category coding" in coding.stdout
    assert "46 % of decode steps had a draft" in whole.stdout


def test_steps_with_short_drafts_are_said() -> None:
    result = export(RUN, "--to", "llama-cpp")
    rates = [float(rate) for rate in result.stdout.splitlines()[-1].split()[1].split(",")]
    assert f"the rates make an acceptance length of {1 + sum(rates):.4f}" in result.stdout
    conditional = [float(rate) for rate in export(RUN, "--to", "dynamo").stdout.split()[-1].split(",")]
    products, product = [], 1.0
    for rate in conditional:
        product *= rate
        products.append(product)
    assert products == pytest.approx(rates, abs=1e-5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--to", "vllm-rate"),
            "--to 'vllm-rate': known are vllm-rates, vllm-length, sglang, .* did you mean vllm-rates",
        ),
        (
            ("--to", "sglang", "--category", "x\x1b"),
            r"--category .*: no successful request is of it .* there are coding",
        ),
        ((), "--to"),
    ],
)
def test_mistakes(options: tuple[str, ...], said: str) -> None:
    result = export(RUN, *options)
    assert result.exit_code == 2
    assert re.search(said, " ".join(result.stderr.split()))
    assert "\x1b" not in result.stderr


def test_rates_of_a_tree_are_refused_and_its_length_is_not(tmp_path: Path) -> None:
    tree = written(tmp_path / "tree", [request(i, (1, 2, i % 3), proposed=30, k=4) for i in range(8)])
    refused = export(tree, "--to", "llama-cpp")
    assert refused.exit_code == 1
    assert "steps proposed more tokens than a chain of k has, so the drafter drafts trees" in refused.stderr
    assert "--assume-chain exports them if you know that it drafts chains" in " ".join(refused.stderr.split())
    assert export(tree, "--to", "llama-cpp", "--assume-chain").exit_code == 0
    assert "SGLANG_SIMULATE_ACC_LEN=" in export(tree, "--to", "sglang").stdout


def test_a_run_that_holds_nothing(tmp_path: Path) -> None:
    silent = written(tmp_path / "silent", [replace(record, acceptance=None) for record in simulated_run(5, 3)])
    for form in ("sglang", "openmetrics", "markdown"):
        result = export(silent, "--to", form)
        assert result.exit_code == 1
        assert "no successful request reported a verify step" in result.stderr
    (silent / "profile_export.jsonl").unlink()
    assert "has no records" in export(silent, "--to", "sglang").stderr


def test_several_runs_are_no_run(tmp_path: Path) -> None:
    for name in ("one", "other"):
        written(tmp_path / name, simulated_run(5, 3))
    result = export(tmp_path, "--to", "sglang")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "holds 2 runs" in result.stderr


def test_metrics_are_read_by_both_parsers() -> None:
    records = load_records(RUN).records
    analysis = analyse(records)
    text = openmetrics(analysis, model=HOSTILE, engine="vllm").decode()
    assert text.endswith("# EOF\n")
    found = {}
    for family in openmetrics_families(text):  # type: ignore[no-untyped-call]
        assert family.type == "gauge"
        for sample in family.samples:
            assert sample.labels["model"] == HOSTILE
            assert sample.timestamp is None
            key = (sample.name, sample.labels["category"], sample.labels.get("position"))
            assert key not in found
            found[key] = sample.value
    again = Counter(sample.name for family in text_string_to_metric_families(text) for sample in family.samples)
    assert again == Counter(name for name, _, _ in found)
    run = analysis.run
    assert found["spec_profile_acceptance_length", "", None] == run.length.value
    assert found["spec_profile_acceptance_length_low", "", None] == run.length.low
    assert found["spec_profile_acceptance_length_high", "", None] == run.length.high
    assert found["spec_profile_acceptance_length_prompts", "", None] == 8
    assert found["spec_profile_acceptance_length", "qa", None] == analysis.categories["qa"].length.value
    assert found["spec_profile_draft_acceptance_ratio", "", None] == pytest.approx((run.rate.value or 0) / 100)
    assert found["spec_profile_position_acceptance_ratio", "", "2"] == run.curve.positions[1].survival.value
    assert (
        found["spec_profile_position_conditional_acceptance_ratio", "", "2"] == run.curve.positions[1].conditional.value
    )
    # Too few prompts for an interval: there is none, and no number stands in for it.
    assert ("spec_profile_acceptance_length_low", "qa", None) not in found
    one = openmetrics(analysis, model="m", engine="vllm", category="qa").decode()
    families = list(openmetrics_families(one))  # type: ignore[no-untyped-call]
    assert {sample.labels["category"] for family in families for sample in family.samples} == {"qa"}


def test_the_summary_is_a_page_of_markdown() -> None:
    records = [replace(record, category=HOSTILE) for record in load_records(RUN).records]
    text = markdown_summary(analyse(records), summarise(records), title=HOSTILE, setup=["vLLM"]).decode()
    tables = re.findall(r"(?:^\|.*\|\n)+", text, re.M)
    assert len(tables) == 3
    for table in tables:
        cells = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(cells) == 1, table
    assert "<b>" not in text
    assert "| Acceptance length | 2.01 | 1.39 to 2.63 | 8 prompts, 16 requests |" in text
    assert "16 of 16 requests succeeded." in text


def test_formats_of_a_whole_run_come_from_the_command_too() -> None:
    metrics = export(RUN, "--to", "openmetrics", "--category", "coding").stdout
    assert 'spec_profile_requests{category="coding",engine="vllm",model="tinycode"} 6.0' in metrics
    shown = export(RUN, "--to", "markdown", "--category", "coding").stdout
    assert shown.startswith("### Speculative decoding: tinycode, coding\n\nvLLM, k 5\n")
    assert "| Acceptance length | 1.98 |" in shown
    assert "6 of 6 requests succeeded." in shown


def test_the_page_lists_every_form() -> None:
    page = (Path(__file__).parent.parent / "aiperf_spec" / "docs" / "export.md").read_text()
    listed = re.findall(r"^\| `([a-z][a-z-]+)` \|", page, re.M)
    known = export(RUN, "--to", "none").stderr.split("known are ")[1].split("\n")[0].replace(" ", "").split(",")
    assert sorted(listed) == sorted(known)
