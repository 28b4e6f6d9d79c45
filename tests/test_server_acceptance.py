"""Acceptance by the server's own counters, where the requests reported none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aiperf_spec.analysis.gate_figures import Figures
from aiperf_spec.analysis.gates import evaluate
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.server_acceptance import ServerAcceptance, server_acceptance
from aiperf_spec.cli.app import app
from aiperf_spec.models.server_metrics import Agreement, CountName, ReconciledCount, Reconciliation
from tests.support import Simulate


def counted(steps: int | None, proposed: int | None, accepted: int | None, *positions: int | None) -> Reconciliation:
    named = {CountName.VERIFY_STEPS: steps, CountName.PROPOSED: proposed, CountName.ACCEPTED: accepted}
    names = [str(name) for name in named] + [CountName.at_position(i + 1) for i in range(len(positions))]
    rows = zip(names, (*named.values(), *positions), strict=True)
    counts = tuple(ReconciledCount(name, "m", 0, server) for name, server in rows)
    return Reconciliation(Agreement.SERVER_MORE, 0, {"absent": 4}, 4, True, counts)


def test_figures_are_those_of_the_counts() -> None:
    found = server_acceptance(counted(10, 50, 16, 8, 5, 3, 0))
    assert found == ServerAcceptance(10, 50, 16, (8, 5, 3, 0))
    assert isinstance(found, ServerAcceptance)
    assert (found.length, found.rate, found.positions) == (2.6, 32.0, (0.8, 0.5, 0.3, 0.0))


def test_positions_that_do_not_add_up_are_left_out() -> None:
    assert server_acceptance(counted(10, 50, 16, 8, 5)) == ServerAcceptance(10, 50, 16)


def test_nothing_proposed_has_no_rate() -> None:
    found = server_acceptance(counted(10, 0, 0))
    assert isinstance(found, ServerAcceptance)
    assert (found.length, found.rate) == (1.0, None)


@pytest.mark.parametrize(
    ("reconciliation", "reason"),
    [
        (None, Missing.NO_COUNTERS),
        (replace(counted(10, 50, 16), counts=counted(10, 50, 16).counts[:1]), Missing.DRAFTS_NOT_COUNTED),
        (replace(counted(10, None, 16), agreement=Agreement.RESET), Missing.COUNTERS_RESET),
        (replace(counted(10, None, 16), agreement=Agreement.NO_NUMBER), Missing.COUNTERS_NO_NUMBER),
        (counted(0, 0, 0), Missing.NO_STEPS_COUNTED),
        (counted(10, 15, 16), Missing.COUNTERS_CONTRADICT),
    ],
)
def test_counters_that_say_nothing_give_no_figure(reconciliation: Reconciliation | None, reason: Missing) -> None:
    assert server_acceptance(reconciliation) is reason


def test_gates_by_counters_hold_the_value_and_know_no_category() -> None:
    own, base = Figures([], counted=ServerAcceptance(10, 50, 16)), Figures([], counted=ServerAcceptance(10, 50, 10))
    met = ("acceptance_length >= 2.6", "draft_acceptance_rate == 32", "acceptance_length >= 1.3 * base")
    for strict in (False, True):
        assert [result.passed for result in evaluate(met, own, base, strict=strict)] == [True, True, True]
    (relative,) = evaluate(["acceptance_length >= 1.31 * base"], own, base, strict=True)
    assert not relative.passed
    (category,) = evaluate(["acceptance_length[qa] >= 1"], own)
    assert (category.passed, category.reason) == (False, Missing.COUNTERS_OF_ALL)
    (reset,) = evaluate(["acceptance_length >= 1"], Figures([], counted=Missing.COUNTERS_RESET))
    assert (reset.passed, reset.reason) == (False, Missing.COUNTERS_RESET)


def run(*arguments: str) -> Any:
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, [*arguments])


def ours(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "profile_export_aiperf.json").read_text())["spec_profile"]
    return found


def test_a_run_without_reports_equals_the_same_run_with_them(simulate: Simulate, tmp_path: Path) -> None:
    for level in ("none", "summary"):
        folder = str(tmp_path / level)
        arguments = ("--num-prompts", "12", "--temperature", "0", "--artifact-dir", folder)
        # A seeded drafter of its own for each: the same requests in the same order are accepted alike.
        url = simulate("vllm", level=level, acceptance=0.6).url
        result = run("--url", url, *arguments, "--require", "acceptance_length > 1", "--source", "server-metrics")
        assert result.exit_code == 0, result.output
        if level == "none":
            none = result
    found = ours(tmp_path / "none")["server_acceptance"]
    assert found == ours(tmp_path / "summary")["server_acceptance"]
    document = json.loads((tmp_path / "summary" / "profile_export_aiperf.json").read_text())
    assert found["acceptance_length"] == document["spec_decode_token_weighted_acceptance_length"]["avg"]
    assert found["draft_acceptance_rate"] == pytest.approx(document["spec_decode_overall_draft_acceptance_rate"]["avg"])
    assert found["verify_steps"] == document["total_spec_decode_steps"]["avg"]
    assert len(found["position_acceptance"]) == 5
    assert sum(found["position_acceptance"]) == pytest.approx(found["acceptance_length"] - 1)
    # Nothing of it stands under AIPerf's tags, which are of requests.
    assert "spec_decode_acceptance_length" not in json.loads(
        (tmp_path / "none" / "profile_export_aiperf.json").read_text()
    )
    shown = none.stdout
    assert "Acceptance by the server's counters, all traffic" in shown
    assert f"Acceptance length      {found['acceptance_length']:.2f}" in shown
    assert "0 of 12 successful requests reported acceptance." in shown
    assert "start vLLM with --per-request-spec-decode-metrics detailed" in " ".join(none.stderr.split())


def test_report_names_the_column_after_the_prompts_and_gates_on_the_counters(
    simulate: Simulate, tmp_path: Path
) -> None:
    url, folder = simulate("vllm", level="none").url, str(tmp_path / "run")
    assert run("--url", url, "--request-count", "5", "--temperature", "0", "--artifact-dir", folder).exit_code == 0
    matrix = json.loads(run("report", folder, "--format", "json").stdout)
    assert matrix["columns"] == ["built-in"]
    cell = matrix["rows"][0]["cells"]["built-in"]
    assert cell["value"] == pytest.approx(ours(tmp_path / "run")["server_acceptance"]["acceptance_length"])
    gate = ("--require", "acceptance_length > 1")
    assert run("report", folder, *gate).exit_code == 3
    by_counters = run("report", folder, *gate, "--source", "server-metrics")
    assert by_counters.exit_code == 0, by_counters.output
    assert "acceptance by the server's counters (all traffic)" in by_counters.stdout


def test_an_engine_that_counts_tokens_gives_the_length_of_its_requests(simulate: Simulate, tmp_path: Path) -> None:
    pooled = {}
    for name, asked in (("silent", "ignore_eos:false"), ("asked", "return_spec_tokens_details:true")):
        # A seeded drafter of its own for each: the same requests in the same order are accepted alike.
        load = ("--url", simulate("sglang").url, "--request-count", "6", "--extra-inputs", asked)
        result = run(*load, "--quiet", "--artifact-dir", str(tmp_path / name))
        assert result.exit_code == 0, result.output
        pooled[name] = ours(tmp_path / name)["server_acceptance"]["acceptance_length"]
        if name == "silent":
            text = " ".join(result.stdout.split())
            assert f"Acceptance length {pooled[name]:.2f}" in text
            assert "the server does not count what it proposes" in text
    document = json.loads((tmp_path / "asked" / "profile_export_aiperf.json").read_text())
    assert document["spec_profile"]["reconciliation"]["agreement"] == "exact"
    assert document["spec_profile"]["reconciliation"]["counts"][1]["name"] == "accepted drafts"
    assert pooled["asked"] == pytest.approx(document["spec_decode_token_weighted_acceptance_length"]["avg"], rel=1e-9)
    assert pooled["silent"] == pooled["asked"]
    by_counters = ("--source", "server-metrics", "--format", "json")
    matrix = json.loads(run("report", str(tmp_path / "silent"), *by_counters).stdout)
    assert matrix["rows"][0]["cells"]["built-in"]["value"] == pytest.approx(pooled["silent"], rel=1e-9)
    # A file of counters alone, as AIPerf leaves it, does not say that no step overlapped another.
    (tmp_path / "silent" / "profile_export_aiperf.json").write_text("{}")
    (cell,) = json.loads(run("report", str(tmp_path / "silent"), *by_counters).stdout)["rows"][0]["cells"].values()
    assert cell["value"] >= pooled["silent"]
    assert cell["at_most"] is True
    assert "≤ marks" in run("report", str(tmp_path / "silent"), "--source", "server-metrics").stdout
